// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/internal/apiserving"
)

func TestQuestionsWithoutAnAnswer(t *testing.T) {
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	follower := &Answers{Leading: &atomic.Bool{}, Pods: corev1listers.NewPodLister(pods)}
	_, err := follower.Explain(t.Context(), "ml", "a", "")
	if !apierrors.IsNotFound(err) || err.Error() != `pods "a" not found` {
		t.Errorf("a pod that does not exist: %v", err)
	}
	if _, err := follower.Queues(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the queues of a replica that does not lead: %v", err)
	}
	if _, _, err := follower.Decisions(t.Context(),
		&apiserving.DecisionQuery{Limit: 1}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("decisions that are not recorded: %v", err)
	}
}
