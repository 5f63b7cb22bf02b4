// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// PendingKinds is the resource of the pending pods by kind. They are listed, for a namespace or for
// all.
const PendingKinds = "pendingkinds"

// IDParameter is the parameter of PendingKinds with the ID of one kind of a namespace: the answer
// has this kind alone, with its pods. The limit then is that of the pods.
const IDParameter = "id"

// pendingKinds answers with the kinds of pending pods, or with the pods of one kind. It takes the
// place of no explanation: kinds are counted once for the requests of some seconds.
func (h *Handler) pendingKinds(r *http.Request, answers Answers, namespace string) (*v1alpha1.PendingKindList, error) {
	limit, err := limitOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	seesNodes, err := h.sees(r.Context(), "nodes")
	if err != nil {
		return nil, err
	}
	list, err := pendingKindsOf(answers, namespace, r.URL.Query().Get(IDParameter), limit)
	if err != nil {
		return nil, err
	}
	list.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PendingKindList"}
	for i := range list.Items {
		// The messages of other results may name the chosen node.
		kind := &list.Items[i]
		if !seesNodes && kind.Result != v1alpha1.DecisionUnschedulable {
			kind.Message = ""
		}
		for j := range kind.Pending {
			if !seesNodes {
				kind.Pending[j].NominatedNode = ""
			}
		}
	}
	return list, nil
}

func pendingKindsOf(answers Answers, namespace, id string, limit int) (*v1alpha1.PendingKindList, error) {
	switch {
	case id == "":
		return answers.PendingKinds(namespace, limit)
	case namespace == "":
		return nil, apierrors.NewBadRequest("the parameter " + IDParameter +
			" needs a namespace: a kind belongs to one")
	}
	return answers.PendingPods(namespace, id, limit)
}

// limitOf reads the largest number of items of a list. The error is a BadRequest.
func limitOf(parameters url.Values) (int, error) {
	text := parameters.Get(LimitParameter)
	if text == "" {
		return defaultListed, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > maxListed {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("the parameter %s must be a number from 1 to %d, not %q",
			LimitParameter, maxListed, text))
	}
	return limit, nil
}
