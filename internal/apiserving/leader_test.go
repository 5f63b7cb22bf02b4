// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/secureserving"
)

// otherReplica is a Leader that notes what it is asked.
type otherReplica struct {
	leading bool
	err     error
	text    string
	asked   []string
}

func (o *otherReplica) Leading() bool { return o.leading }

func (o *otherReplica) Ask(_ context.Context, path string, query url.Values) (json.RawMessage, error) {
	o.asked = append(o.asked, (&url.URL{Path: path, RawQuery: query.Encode()}).String())
	return json.RawMessage(o.text), o.err
}

// here is the error of a replica that answers itself.
var here = apierrors.NewServiceUnavailable("this replica answers")

func TestWhatOnlyTheLeaderKnowsIsAskedOfTheLeader(t *testing.T) {
	const text = `{"kind":"Anything","fieldOfANewerVersion":"<a>"}`
	for path, passedOn := range map[string]bool{
		"namespaces/ml/podexplanations/train-7?maxAge=5s": true,
		"decisions?limit=7":                  true,
		"namespaces/ml/decisions":            true,
		"queues":                             true,
		"pendingkinds":                       true,
		"namespaces/ml/pendingkinds?limit=5": true,
		"loadsamples?last=1h0m0s":            true,
		"nodeallocations":                    false,
		"snapshots/redacted":                 false,
	} {
		other := &otherReplica{text: text}
		h := NewHandler(replica{err: here}, mayList{}, other)
		answer := send(h, httptest.NewRequest(http.MethodGet, Path+path, nil))
		switch {
		case passedOn && (len(other.asked) != 1 || other.asked[0] != Path+path || answer.Code != http.StatusOK ||
			strings.TrimSpace(answer.Body.String()) != text):
			t.Errorf("%s: asked %v, answered %d %s", path, other.asked, answer.Code, answer.Body)
		case !passedOn && (len(other.asked) != 0 || statusIn(t, answer).Message != here.Error()):
			t.Errorf("%s: asked %v, answered %d %s", path, other.asked, answer.Code, answer.Body)
		}
		if !passedOn {
			continue
		}
		never := httptest.NewRequest(http.MethodGet, Path+path, nil)
		never.Header.Set(secureserving.PassOnHeader, secureserving.PassOnNever)
		for what, r := range map[string]*http.Request{"the client has chosen the replica": never,
			"this replica leads": httptest.NewRequest(http.MethodGet, Path+path, nil)} {
			other := &otherReplica{leading: r != never}
			answer := send(NewHandler(replica{err: here}, mayList{}, other), r)
			if len(other.asked) != 0 || statusIn(t, answer).Message != here.Error() {
				t.Errorf("%s, %s: asked %v, answered %s", path, what, other.asked, answer.Body)
			}
		}
	}
}

func TestSimulationsAreNotPassedOn(t *testing.T) {
	other := &otherReplica{}
	h := NewHandler(replica{err: here}, mayList{}, other)
	for _, path := range []string{simulations, capacities} {
		answer := send(h, httptest.NewRequest(http.MethodPost, path, strings.NewReader(object("Simulation", ""))))
		if len(other.asked) != 0 || statusIn(t, answer).Message != here.Error() {
			t.Errorf("%s: asked %v, answered %s", path, other.asked, answer.Body)
		}
	}
}

func TestWhatNoReplicaPassesOnIsNotAnsweredForANamedUser(t *testing.T) {
	h := NewHandler(replica{err: here}, mayList{}, &otherReplica{leading: true})
	for path, method := range map[string]string{snapshots + "/plain": http.MethodGet, simulations: http.MethodPost,
		Path + "nodeallocations": http.MethodGet} {
		r := httptest.NewRequest(method, path, nil)
		answer := send(h, r.WithContext(secureserving.WithPassedOn(r.Context())))
		if got := statusIn(t, answer); got.Reason != metav1.StatusReasonForbidden ||
			!strings.HasSuffix(got.Message, "no replica passes this question on") {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func TestTheErrorOfTheLeaderIsAnswered(t *testing.T) {
	other := &otherReplica{err: apierrors.NewServiceUnavailable("livesched in pod a leads")}
	h := NewHandler(replica{err: here}, mayList{}, other)
	answer := send(h, httptest.NewRequest(http.MethodGet, queuesPath, nil))
	if got := statusIn(t, answer); got.Reason != metav1.StatusReasonServiceUnavailable ||
		got.Message != "livesched in pod a leads" {
		t.Errorf("got %+v", got)
	}
}

func TestPagesGetTheObjectOfTheLeader(t *testing.T) {
	h := NewHandler(replica{err: here}, mayList{}, &otherReplica{text: `{"items":[{"profile":"gpu"}]}`})
	object, err := h.Object(authorized(httptest.NewRequest(http.MethodGet, queuesPath, nil)))
	if list, is := object.(*v1alpha1.QueueList); err != nil || !is || len(list.Items) != 1 {
		t.Errorf("got %+v, %v", object, err)
	}
	h = NewHandler(replica{err: here}, mayList{}, &otherReplica{text: `not JSON`})
	if object, err := h.Object(authorized(httptest.NewRequest(http.MethodGet, queuesPath, nil))); err == nil {
		t.Errorf("got %+v", object)
	}
}

func TestAQuestionIsNeverPassedOnTwice(t *testing.T) {
	other := &otherReplica{}
	h := NewHandler(replica{err: here}, mayList{}, other)
	r := httptest.NewRequest(http.MethodGet, queuesPath, nil)
	answer := send(h, r.WithContext(secureserving.WithPassedOn(r.Context())))
	if got := statusIn(t, answer); len(other.asked) != 0 || got.Reason != metav1.StatusReasonServiceUnavailable ||
		!strings.Contains(got.Message, "another one has begun to lead") {
		t.Errorf("asked %v, answered %+v", other.asked, got)
	}
	other.leading = true
	answer = send(h, r.WithContext(secureserving.WithPassedOn(r.Context())))
	if got := statusIn(t, answer); got.Message != here.Error() {
		t.Errorf("the leader answers %+v", got)
	}
}

func TestAReplicaAnswersWhatItKnowsIfTheLeaderCannotBeReached(t *testing.T) {
	unreachable := apierrors.NewServiceUnavailable("livesched in pod a leads")
	for path, itself := range map[string]bool{"namespaces/ml/podexplanations/train-7": true, "decisions": true,
		"loadsamples": true, "queues": false, "pendingkinds": false} {
		want := unreachable.Error()
		if itself {
			want = here.Error()
		}
		h := NewHandler(replica{err: here}, mayList{}, &otherReplica{err: unreachable})
		answer := send(h, httptest.NewRequest(http.MethodGet, Path+path, nil))
		if got := statusIn(t, answer); got.Message != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func TestNamesAndSelectorsThatAreNotServed(t *testing.T) {
	for path, want := range map[string]int{
		"namespaces/ml/podexplanations/%2e%2e":                  http.StatusNotFound,
		"decisions?fieldSelector=metadata.name%3Da":             http.StatusBadRequest,
		"namespaces/ml/pendingkinds?labelSelector=a%3Db":        http.StatusBadRequest,
		"namespaces/ml/pendingkinds?fieldSelector=spec.a%3Db":   http.StatusBadRequest,
		"namespaces/ml/podexplanations/a?fieldSelector=a%3Dmee": http.StatusOK,
	} {
		h := NewHandler(replica{err: here}, mayList{}, &otherReplica{text: "{}"})
		if answer := send(h, httptest.NewRequest(http.MethodGet, Path+path, nil)); answer.Code != want {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
}
