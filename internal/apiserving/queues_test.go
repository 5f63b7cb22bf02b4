// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

const queuesPath = "/apis/livesched.io/v1alpha1/queues"

// queueLister answers the same each time.
type queueLister struct {
	items []v1alpha1.Queue
	err   error
}

func (l queueLister) Queues() ([]v1alpha1.Queue, error) { return l.items, l.err }

func TestQueuesAreListed(t *testing.T) {
	items := []v1alpha1.Queue{{Profile: "gpu", SchedulerName: "gpu-scheduler", Active: 1, Backoff: 2, Unschedulable: 3,
		Gated: 4}}
	h := handler(fakes{queueLister: queueLister{items: items}}, mayList{})
	for range maxExplanations { // counters need no turn
		h.explaining <- struct{}{}
	}
	answer := get(h, queuesPath)
	var got v1alpha1.QueueList
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%d, %v: %s", answer.Code, err, answer.Body)
	}
	want := v1alpha1.QueueList{TypeMeta: metav1.TypeMeta{APIVersion: "livesched.io/v1alpha1", Kind: "QueueList"},
		Items: items}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestQueuesThatAreRefused(t *testing.T) {
	h := handler(fakes{queueLister: queueLister{err: apierrors.NewServiceUnavailable("another one leads")}}, mayList{})
	for _, test := range []struct {
		method, path string
		want         metav1.StatusReason
	}{
		{http.MethodGet, "queues", metav1.StatusReasonServiceUnavailable},
		{http.MethodGet, "queues/gpu", metav1.StatusReasonMethodNotAllowed},
		{http.MethodGet, "queues?watch=1", metav1.StatusReasonMethodNotAllowed},
		{http.MethodPost, "queues", metav1.StatusReasonMethodNotAllowed},
		{http.MethodGet, "namespaces/ml/queues", metav1.StatusReasonNotFound},
		{http.MethodGet, "queues/gpu/status", metav1.StatusReasonNotFound},
	} {
		r := httptest.NewRequest(test.method, "/apis/livesched.io/v1alpha1/"+test.path, http.NoBody)
		if got := statusIn(t, send(h, r)); got.Reason != test.want {
			t.Errorf("%s %s: %+v", test.method, test.path, got)
		}
	}
}
