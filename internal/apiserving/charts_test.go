// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/livesched/livesched/api/v1alpha1"
)

// charted answers with what it was asked for.
type charted struct{ err error }

func (c charted) PendingKinds(namespace string, limit int) (*v1alpha1.PendingKindList, error) {
	return &v1alpha1.PendingKindList{Pods: int32(limit), Items: []v1alpha1.PendingKind{
		{Namespace: namespace, Result: v1alpha1.DecisionUnschedulable, Message: "0/3 nodes are available"},
		{Namespace: namespace, Result: v1alpha1.DecisionBindFailed, Message: "node-7 refuses it"},
	}}, c.err
}

func (c charted) PendingPods(namespace, id string, limit int) (*v1alpha1.PendingKindList, error) {
	return &v1alpha1.PendingKindList{Pods: int32(limit), Items: []v1alpha1.PendingKind{{
		Namespace: namespace, ID: id, Result: v1alpha1.DecisionBindFailed, Message: "node-7 refuses it",
		Pending: []v1alpha1.PendingPod{{Name: "train-0", NominatedNode: "node-7"}},
	}}}, c.err
}

var shared = &v1alpha1.NodeAllocationList{TypeMeta: metav1.TypeMeta{Kind: "NodeAllocationList"}}

func (c charted) NodeAllocations(_ context.Context, pod types.NamespacedName) (*v1alpha1.NodeAllocationList, error) {
	if pod.Name == "" {
		return shared, c.err
	}
	return &v1alpha1.NodeAllocationList{Items: []v1alpha1.NodeAllocation{{Name: pod.String()}}}, c.err
}

func (charted) LoadSamples(last time.Duration) *v1alpha1.LoadSampleList {
	return &v1alpha1.LoadSampleList{Replica: last.String()}
}

// may is an Authorizer that allows verbs on resources, with the namespace if there is one.
type may map[string]bool

func (m may) Allows(_ context.Context, what authorizer.AttributesRecord) (bool, error) {
	return m[strings.TrimSpace(what.Verb+" "+what.Resource+" "+what.Namespace)], nil
}

// answered decodes an answer.
func answered[T any](t *testing.T, h *Handler, path string) (object T) {
	t.Helper()
	answer := get(h, "/apis/livesched.io/v1alpha1/"+path)
	if err := json.Unmarshal(answer.Body.Bytes(), &object); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%s: %d, %v: %s", path, answer.Code, err, answer.Body)
	}
	return object
}

func TestPendingKindsAreListed(t *testing.T) {
	h := handler(fakes{}, may{"list nodes": true})
	for range maxExplanations { // they need no turn
		h.explaining <- struct{}{}
	}
	all := answered[v1alpha1.PendingKindList](t, h, "pendingkinds")
	if all.Kind != "PendingKindList" || all.Pods != defaultListed || all.Items[0].Namespace != "" ||
		all.Items[1].Message != "node-7 refuses it" {
		t.Errorf("%+v", all)
	}
	if of := answered[v1alpha1.PendingKindList](t, h, "namespaces/ml/pendingkinds?limit=7"); of.Pods != 7 ||
		of.Items[0].Namespace != "ml" {
		t.Errorf("%+v", of)
	}
	one := answered[v1alpha1.PendingKindList](t, h, "namespaces/ml/pendingkinds?id=a&limit=7")
	if one.Pods != 7 || one.Items[0].ID != "a" || one.Items[0].Pending[0].NominatedNode != "node-7" {
		t.Errorf("%+v", one)
	}
	one = answered[v1alpha1.PendingKindList](t, handler(fakes{}, may{}), "namespaces/ml/pendingkinds?id=a")
	if one.Items[0].Message != "" || one.Items[0].Pending[0].NominatedNode != "" {
		t.Errorf("names of nodes are shown: %+v", one)
	}
	hidden := answered[v1alpha1.PendingKindList](t, handler(fakes{}, may{}), "pendingkinds")
	if hidden.Items[0].Message == "" || hidden.Items[1].Message != "" {
		t.Errorf("a message may name a node: %+v", hidden)
	}
}

func TestNodeAllocationsAreForThoseWhoMayListNodes(t *testing.T) {
	h := handler(fakes{}, may{"list nodes": true, "get podexplanations ml": true})
	if all := answered[v1alpha1.NodeAllocationList](t, h, "nodeallocations"); all.Kind != "NodeAllocationList" {
		t.Errorf("%+v", all)
	}
	for range 2 { // the second time it is encoded already
		r := httptest.NewRequest(http.MethodGet, "/apis/livesched.io/v1alpha1/nodeallocations", http.NoBody)
		r.Header.Set("Accept-Encoding", "gzip")
		answer := send(h, r)
		unzipped, err := gzip.NewReader(answer.Body)
		if err != nil || answer.Header().Get("Content-Encoding") != "gzip" {
			t.Fatal(err, answer.Header())
		}
		var all v1alpha1.NodeAllocationList
		if err := json.NewDecoder(unzipped).Decode(&all); err != nil || all.Kind != "NodeAllocationList" {
			t.Errorf("%v: %+v", err, all)
		}
	}
	of := answered[v1alpha1.NodeAllocationList](t, h, "nodeallocations?namespace=ml&pod=train-0")
	if of.Items[0].Name != "ml/train-0" {
		t.Errorf("%+v", of)
	}
}

func TestLoadSamplesCoverATime(t *testing.T) {
	h := handler(fakes{}, may{})
	if got := answered[v1alpha1.LoadSampleList](t, h, "loadsamples"); got.Replica != "15m0s" ||
		got.Kind != "LoadSampleList" {
		t.Errorf("%+v", got)
	}
	if got := answered[v1alpha1.LoadSampleList](t, h, "loadsamples?last=8h"); got.Replica != "8h0m0s" {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsChartedMayBeRefused(t *testing.T) {
	everything := may{"list nodes": true, "get podexplanations ml": true}
	for _, test := range []struct {
		path    string
		may     may
		err     error
		want    metav1.StatusReason
		message string
	}{
		{"pendingkinds?limit=0", everything, nil, metav1.StatusReasonBadRequest, "from 1 to 10000"},
		{"pendingkinds", everything, apierrors.NewServiceUnavailable("another one leads"),
			metav1.StatusReasonServiceUnavailable, "another one leads"},
		{"pendingkinds?id=a", everything, nil, metav1.StatusReasonBadRequest, "needs a namespace"},
		{"pendingkinds/one", everything, nil, metav1.StatusReasonMethodNotAllowed, ""},
		{"nodeallocations", may{}, nil, metav1.StatusReasonForbidden, "permission to list nodes"},
		{"nodeallocations?namespace=ml&pod=train-0", may{"list nodes": true}, nil, metav1.StatusReasonForbidden,
			"explanation of the pod"},
		{"nodeallocations?pod=train-0", everything, nil, metav1.StatusReasonBadRequest, "set both, or neither"},
		{"nodeallocations?namespace=ml&pod=train-0", everything,
			apierrors.NewNotFound(corev1.Resource("pods"), "train-0"), metav1.StatusReasonNotFound, "train-0"},
		{"namespaces/ml/nodeallocations", everything, nil, metav1.StatusReasonNotFound, ""},
		{"namespaces/ml/loadsamples", everything, nil, metav1.StatusReasonNotFound, ""},
		{"loadsamples?last=tomorrow", everything, nil, metav1.StatusReasonBadRequest, "such as 15m"},
		{"loadsamples?last=-1s", everything, nil, metav1.StatusReasonBadRequest, "more than 0s"},
	} {
		h := handler(fakes{charted: charted{test.err}}, test.may)
		got := statusIn(t, get(h, "/apis/livesched.io/v1alpha1/"+test.path))
		if got.Reason != test.want || !strings.Contains(got.Message, test.message) {
			t.Errorf("%s: %+v", test.path, got)
		}
	}
}
