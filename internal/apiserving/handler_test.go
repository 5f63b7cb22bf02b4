// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/livesched/livesched/api/v1alpha1"
)

// replica is a Scheduler that answers, or that has not listed the cluster.
type replica struct {
	answers Answers
	err     error
}

func (r replica) Answers() (Answers, error) { return r.answers, r.err }

// fakes answers with the fakes of the questions that a test asks.
type fakes struct {
	explainer
	lister
	queueLister
	charted
	simulator
	snapshotter
}

// handler returns a Handler that answers with fakes.
func handler(f fakes, a Authorizer) *Handler { return NewHandler(replica{answers: f}, a, nil) }

// explainer explains by a function.
type explainer func(ctx context.Context, namespace, name, node string) (*v1alpha1.PodExplanation, error)

func (f explainer) Explain(ctx context.Context, namespace, name, node string) (*v1alpha1.PodExplanation, error) {
	return f(ctx, namespace, name, node)
}

// mayList is an Authorizer whose users may list nodes, or may not, or that fails.
type mayList struct {
	nodes, pods bool
	err         error
}

func (m mayList) Allows(_ context.Context, what authorizer.AttributesRecord) (bool, error) {
	of, known := map[string]bool{"nodes": m.nodes, "pods": m.pods}[what.Resource]
	if what.Verb != "list" || !known || what.APIGroup != "" || what.Namespace != "" || !what.ResourceRequest {
		return false, fmt.Errorf("asked for %+v", what)
	}
	return of, m.err
}

const path = "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations/train-7"

// send sends a request as the guard lets it through.
func send(h *Handler, r *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, authorized(r))
	return answer
}

// authorized returns a request as the guard lets it through.
func authorized(r *http.Request) *http.Request {
	info, err := (&request.RequestInfoFactory{APIPrefixes: sets.NewString("apis")}).NewRequestInfo(r)
	if err != nil {
		panic(err)
	}
	return r.WithContext(request.WithRequestInfo(r.Context(), info))
}

func get(h *Handler, path string) *httptest.ResponseRecorder {
	return send(h, httptest.NewRequest(http.MethodGet, path, nil))
}

func statusIn(t *testing.T, answer *httptest.ResponseRecorder) metav1.Status {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal(answer.Body.Bytes(), &s); err != nil || s.Kind != "Status" || int(s.Code) != answer.Code {
		t.Errorf("not a Status: %d %s", answer.Code, answer.Body)
	}
	return s
}

func TestAnExplanationIsAnObject(t *testing.T) {
	h := handler(fakes{explainer: func(_ context.Context, namespace, name, _ string) (*v1alpha1.PodExplanation, error) {
		e := &v1alpha1.PodExplanation{Verdict: v1alpha1.VerdictNeverFits}
		e.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodExplanation"}
		e.Metadata.Namespace, e.Metadata.Name = namespace, name
		return e, nil
	}}, mayList{nodes: true})
	answer := get(h, path)
	var got v1alpha1.PodExplanation
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || answer.Code != http.StatusOK ||
		answer.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("got %d, %v, %s", answer.Code, err, answer.Body)
	}
	if got.Kind != "PodExplanation" || got.Metadata.Namespace != "ml" || got.Metadata.Name != "train-7" ||
		got.Verdict != v1alpha1.VerdictNeverFits {
		t.Errorf("got %+v", got)
	}
}

func TestErrorsAreStatuses(t *testing.T) {
	notReady := apierrors.NewServiceUnavailable("not ready")
	for _, test := range []struct {
		name, method, path, body string
		err                      error
		lists                    mayList
		want                     metav1.StatusReason
		message                  string
	}{
		{name: "no such pod", err: apierrors.NewNotFound(corev1.Resource("pods"), "train-7"),
			want: metav1.StatusReasonNotFound, message: `pods "train-7" not found`},
		{name: "not ready", err: fmt.Errorf("explaining: %w", notReady), want: metav1.StatusReasonServiceUnavailable,
			message: "not ready"},
		{name: "too late", err: context.DeadlineExceeded, want: metav1.StatusReasonTimeout,
			message: "did not answer in time"},
		{name: "a bug", err: errors.New("a bug"), want: metav1.StatusReasonInternalError, message: "a bug"},
		{name: "no answer of the API server", lists: mayList{err: errors.New("refused")},
			want: metav1.StatusReasonInternalError, message: "refused"},
		{name: "another verb", method: http.MethodDelete, want: metav1.StatusReasonMethodNotAllowed},
		{name: "a list", path: "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations",
			want: metav1.StatusReasonMethodNotAllowed},
		{name: "a body", body: "body", want: metav1.StatusReasonRequestEntityTooLarge},
		{name: "another resource", path: "/apis/livesched.io/v1alpha1/namespaces/ml/snapshots/a",
			want: metav1.StatusReasonNotFound},
		{name: "a subresource", path: path + "/status", want: metav1.StatusReasonNotFound},
		{name: "no namespace", path: "/apis/livesched.io/v1alpha1/podexplanations/a",
			want: metav1.StatusReasonNotFound},
		{name: "another version", path: "/apis/livesched.io/v2/namespaces/ml/podexplanations/a",
			want: metav1.StatusReasonNotFound},
		{name: "another group", path: "/apis/example.com/v1alpha1/namespaces/ml/podexplanations/a",
			want: metav1.StatusReasonNotFound},
		{name: "no resource", path: "/apis/livesched.io/v1alpha1", want: metav1.StatusReasonNotFound},
	} {
		h := handler(fakes{explainer: func(context.Context, string, string, string) (*v1alpha1.PodExplanation, error) {
			if test.err == nil {
				t.Errorf("%s: the explainer is asked", test.name)
			}
			return nil, test.err
		}}, test.lists)
		if test.method == "" {
			test.method = http.MethodGet
		}
		if test.path == "" {
			test.path = path
		}
		answer := send(h, httptest.NewRequest(test.method, test.path, strings.NewReader(test.body)))
		if got := statusIn(t, answer); got.Reason != test.want || !strings.Contains(got.Message, test.message) {
			t.Errorf("%s: got %+v", test.name, got)
		}
	}
	impersonating := httptest.NewRequest(http.MethodGet, path, nil)
	impersonating.Header.Set("Impersonate-User", "somebody")
	if got := statusIn(t, send(handler(fakes{}, nil), impersonating)); got.Reason != metav1.StatusReasonBadRequest {
		t.Errorf("impersonation: got %+v", got)
	}
	answer := httptest.NewRecorder()
	handler(fakes{}, nil).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	if answer.Code != http.StatusInternalServerError {
		t.Errorf("a request that passed no guard: got %d", answer.Code)
	}
}

func TestAReplicaThatHasNotListedTheClusterAnswersNothing(t *testing.T) {
	h := NewHandler(replica{err: apierrors.NewServiceUnavailable("not yet")}, mayList{nodes: true}, nil)
	for _, request := range []*http.Request{
		httptest.NewRequest(http.MethodGet, path, nil),
		httptest.NewRequest(http.MethodGet, "/apis/livesched.io/v1alpha1/decisions", nil),
		httptest.NewRequest(http.MethodGet, queuesPath, nil),
		httptest.NewRequest(http.MethodGet, snapshots+"/plain", nil),
		httptest.NewRequest(http.MethodPost, simulations, strings.NewReader(object("Simulation", ""))),
		httptest.NewRequest(http.MethodPost, capacities, strings.NewReader(object("Capacity", ""))),
	} {
		if got := statusIn(t, send(h, request)); got.Reason != metav1.StatusReasonServiceUnavailable ||
			got.Message != "not yet" {
			t.Errorf("%s: got %+v", request.URL.Path, got)
		}
	}
}

func TestExplanationsAtTheSameTimeAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		h := handler(fakes{explainer: func(context.Context, string, string, string) (*v1alpha1.PodExplanation, error) {
			<-proceed
			return &v1alpha1.PodExplanation{}, nil
		}}, mayList{nodes: true})
		answers := make(chan int, maxExplanations)
		for range maxExplanations {
			go func() { answers <- get(h, path).Code }()
		}
		synctest.Wait()
		refused := get(h, path)
		if got := statusIn(t, refused); got.Reason != metav1.StatusReasonTooManyRequests ||
			refused.Header().Get("Retry-After") != "1" {
			t.Errorf("got %+v, %v", got, refused.Header())
		}
		close(proceed)
		for range maxExplanations {
			if code := <-answers; code != http.StatusOK {
				t.Errorf("got %d", code)
			}
		}
		if code := get(h, path).Code; code != http.StatusOK {
			t.Errorf("afterwards: got %d", code)
		}
	})
}

func TestAnExplanationHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(fakes{explainer: func(ctx context.Context, _, _, _ string) (*v1alpha1.PodExplanation, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, mayList{nodes: true})
		if got := statusIn(t, get(h, path)); got.Reason != metav1.StatusReasonTimeout {
			t.Errorf("got %+v", got)
		}
	})
}

// fill sets every string of an object to a name of a node, every number to 1, and gives every slice
// and map an element.
func fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), name)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case reflect.String:
		v.SetString(name)
	}
}

func TestOnlyWhoMayListPodsSeesThoseOfOtherNamespaces(t *testing.T) {
	pods := []v1alpha1.PodReference{{Namespace: "ml", Name: "of-mine"}, {Namespace: "web", Name: "of-others"}}
	e := &v1alpha1.PodExplanation{
		Metadata: metav1.ObjectMeta{Namespace: "ml", Name: "train-7"},
		Pending: &v1alpha1.PendingExplanation{Victims: pods,
			Suggestions: []v1alpha1.Suggestion{{Type: v1alpha1.SuggestionFree, Pods: pods}}},
	}
	for _, all := range []bool{false, true} {
		explain := explainer(func(context.Context, string, string, string) (*v1alpha1.PodExplanation, error) {
			return e,
				nil
		})
		body := get(handler(fakes{explainer: explain}, mayList{nodes: true, pods: all}), path).Body.String()
		if strings.Count(body, "of-mine") != 2 || strings.Contains(body, "of-others") != all {
			t.Errorf("permission to list all pods: %v, got %s", all, body)
		}
	}
	if len(e.Pending.Victims) != 2 || len(e.Pending.Suggestions[0].Pods) != 2 {
		t.Error("the explainer's object is changed")
	}
}

func TestOnlyWhoMayListNodesAsksAboutOne(t *testing.T) {
	h := func(lists bool) *httptest.ResponseRecorder {
		return get(
			handler(fakes{explainer: func(_ context.Context, _, _, node string) (*v1alpha1.PodExplanation, error) {
				return &v1alpha1.PodExplanation{Node: &v1alpha1.NodeExplanation{Name: node}}, nil
			}}, mayList{nodes: lists}), path+"?node=n1")
	}
	var got v1alpha1.PodExplanation
	if answer := h(true); json.Unmarshal(answer.Body.Bytes(), &got) != nil || got.Node == nil || got.Node.Name != "n1" {
		t.Errorf("got %s", answer.Body)
	}
	if got := statusIn(t, h(false)); got.Reason != metav1.StatusReasonForbidden ||
		!strings.Contains(got.Message, `nodes "n1" is forbidden: you may not list nodes`) {
		t.Errorf("got %+v", got)
	}
}

func TestOnlyWhoMayListNodesSeesTheirNames(t *testing.T) {
	const secret = "secret-node"
	e := &v1alpha1.PodExplanation{Pending: &v1alpha1.PendingExplanation{}, Bound: &v1alpha1.BoundExplanation{}}
	fill(reflect.ValueOf(&e.Pending.Groups).Elem(), secret)
	fill(reflect.ValueOf(&e.Pending.Suggestions).Elem(), secret)
	e.Pending.PodGroup = &v1alpha1.PodGroupFit{
		Name: "train", Fit: 3, Domain: "kubernetes.io/hostname=" + secret,
		Tried: []v1alpha1.DomainFit{{Domain: "kubernetes.io/hostname=" + secret}},
	}
	fill(reflect.ValueOf(&e.Bound.Top).Elem(), secret)
	// What does not name nodes.
	group := &e.Pending.Groups[0]
	group.Pools = []string{"a100"}
	refusal := &group.Refusals[0]
	refusal.Plugin, refusal.Reason, refusal.Messages = "NodeResourcesFit", "InsufficientResource",
		[]string{"Insufficient cpu", "not secret-node"}
	refusal.ShortBy[0].Resource = "cpu"
	fill(reflect.ValueOf(&e.Pending.PodRefusals).Elem(), secret)
	own := &e.Pending.PodRefusals[0]
	own.Plugin, own.Reason, own.ShortBy = "VolumeBinding", v1alpha1.ReasonClaimNotFound, nil
	e.Pending.Suggestions[0].Type, e.Pending.Suggestions[0].Pool,
		e.Pending.Suggestions[0].Pods = v1alpha1.SuggestionFree, "a100", nil
	e.Pending.NominatedNode, e.Bound.Node = "own", "own"
	e.Message = "the pod fits on secret-node."
	e.Pending.Suggestions[0].Description = "free 1 cpu on secret-node secret-node or secret-nodes"
	h := func(lists bool) string {
		return get(handler(fakes{
			explainer: func(context.Context, string, string, string) (*v1alpha1.PodExplanation, error) {
				return e,
					nil
			}}, mayList{nodes: lists}), path).Body.String()
	}
	shown, hidden := h(true), h(false)
	if !strings.Contains(shown, secret) || strings.Count(shown, secret) < 6 {
		t.Errorf("who may list nodes does not see them: %s", shown)
	}
	if strings.Contains(strings.ReplaceAll(hidden, "secret-nodes", ""), secret) {
		t.Errorf("the name of a node is shown: %s", hidden)
	}
	for _, kept := range []string{`"own"`, "a100", "train", "Insufficient cpu", "not (a node)",
		"free 1 cpu on (a node) (a node) or secret-nodes", "the pod fits on (a node)."} {
		if !strings.Contains(hidden, kept) {
			t.Errorf("%q is gone: %s", kept, hidden)
		}
	}
	if e.Pending.Groups[0].Example != secret {
		t.Error("the explainer's object is changed")
	}
}
