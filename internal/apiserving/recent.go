// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"fmt"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/livesched/livesched/api/v1alpha1"
)

// MaxAgeParameter is the parameter of an explanation with the age that it may have, as a duration
// such as 30s: one that was made for another request then does. By default, each request gets one
// of its own.
const MaxAgeParameter = "maxAge"

// recentSize is the number of explanations that are kept.
const recentSize = 256

// recent keeps the latest explanations, so that many viewers of one page cost no more than one. Any
// goroutine may use it.
type recent struct{ explanations *lru.Cache }

func newRecent() *recent { return &recent{lru.New(recentSize)} }

// get returns an explanation that is not older than an age, nil if there is none. It must not be
// changed.
func (r *recent) get(pod types.NamespacedName, age time.Duration) *v1alpha1.PodExplanation {
	kept, ok := r.explanations.Get(pod)
	if !ok {
		return nil
	}
	made := kept.(keptExplanation)
	if age <= 0 || time.Since(made.at) > age {
		return nil
	}
	return made.explanation
}

// keep keeps an explanation, unless it compares a node.
func (r *recent) keep(pod types.NamespacedName, e *v1alpha1.PodExplanation) {
	if e.Node == nil {
		r.explanations.Add(pod, keptExplanation{time.Now(), e})
	}
}

type keptExplanation struct {
	at          time.Time
	explanation *v1alpha1.PodExplanation
}

// maxAgeOf reads MaxAgeParameter. The error is a BadRequest.
func maxAgeOf(parameters url.Values) (time.Duration, error) {
	text := parameters.Get(MaxAgeParameter)
	if text == "" {
		return 0, nil
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < 0 {
		return 0, apierrors.NewBadRequest(fmt.Sprintf(
			"the parameter %s must be a duration of at least 0s, such as 30s, not %q", MaxAgeParameter, text))
	}
	return age, nil
}
