// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Decisions is the resource of recorded decisions. They are listed, for a namespace or for all.
const Decisions = "decisions"

const (
	// LimitParameter is the parameter of a list with the largest number of decisions.
	LimitParameter = "limit"
	// defaultListed is its default, and maxListed the most that is allowed.
	defaultListed, maxListed = 100, 10000
)

// DecisionLister lists decisions. Any goroutine may call it.
type DecisionLister interface {
	// Decisions returns at most limit decisions, the latest first: those about pods of a namespace,
	// or all if it is "". If this replica cannot answer, the error is an apierrors.APIStatus.
	Decisions(ctx context.Context, namespace string, limit int) ([]v1alpha1.Decision, error)
}

// decisions answers with the latest decisions. It takes the place of an explanation.
func (h *Handler) decisions(r *http.Request, namespace string) (*v1alpha1.DecisionList, error) {
	limit := defaultListed
	if text := r.URL.Query().Get(LimitParameter); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxListed {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the parameter %s must be a number from 1 to %d, not %q", LimitParameter, maxListed, text))
		}
	}
	ctx, leave, err := h.beginExplaining(r.Context())
	if err != nil {
		return nil, err
	}
	defer leave()
	seesNodes, err := h.seesNodes(ctx)
	if err != nil {
		return nil, err
	}
	items, err := h.DecisionLister.Decisions(ctx, namespace, limit)
	if err != nil {
		return nil, err
	}
	if !seesNodes {
		for i := range items {
			items[i].Node, items[i].Domain = "", "" // the label of a domain may be that of the host name
		}
	}
	return &v1alpha1.DecisionList{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DecisionList"}, Items: items,
	}, nil
}
