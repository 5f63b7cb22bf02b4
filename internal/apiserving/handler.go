// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserving answers questions about livesched's decisions on the secure port. The answers
// are objects of livesched.io that are not stored: the API server does not know their resources,
// but it authorizes requests for them.
//
//	GET  /apis/livesched.io/v1alpha1/namespaces/NAMESPACE/podexplanations/NAME[?node=NODE&maxAge=30s]
//	GET  /apis/livesched.io/v1alpha1/[namespaces/NAMESPACE/]decisions[?pod=POD&...]
//	GET  /apis/livesched.io/v1alpha1/[namespaces/NAMESPACE/]pendingkinds
//	GET  /apis/livesched.io/v1alpha1/namespaces/NAMESPACE/pendingkinds?id=ID
//	GET  /apis/livesched.io/v1alpha1/queues, nodeallocations, loadsamples
//	POST /apis/livesched.io/v1alpha1/[namespaces/NAMESPACE/]simulations
//	POST /apis/livesched.io/v1alpha1/namespaces/NAMESPACE/capacities
//	GET  /apis/livesched.io/v1alpha1/snapshots/redacted, snapshots/plain
//	  -> guard of internal/secureserving: 401, 403
//	  -> does only the leader know?           Leader: 503, or its answer
//	  -> has this replica listed the cluster? 503
//	  -> too many at the same time?           429
//	  -> Answers: 404, 422, 503, 504
//	  -> names of nodes, for those alone who may list nodes
package apiserving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/secureserving"
)

// Path is the prefix of the paths that the Handler serves.
var Path = "/apis/" + v1alpha1.GroupVersion.String() + "/"

// PodExplanations is the resource of explanations. An explanation has the name and namespace of
// its pod.
const PodExplanations = "podexplanations"

// NodeParameter is the parameter of an explanation with the name of a node that is compared with
// the others. It is for those alone who may list nodes.
const NodeParameter = "node"

const (
	// maxExplanations limits the explanations that are made at the same time: they take CPUs from
	// the scheduler. A caller beyond the limit tries again a little later.
	maxExplanations = 2
	// explainTimeout limits the time for one explanation.
	explainTimeout = 10 * time.Second
	// retryAfter is how many seconds a caller should wait that was refused because of the load.
	retryAfter = 1
)

// Scheduler is the scheduler of this replica. Any goroutine may call it.
type Scheduler interface {
	// Answers returns what answers. While this replica has not listed the cluster, it returns an
	// apierrors.APIStatus as the error.
	Answers() (Answers, error)
}

// Answers answers questions about a scheduler. Any goroutine may call it. If a request is invalid,
// names what does not exist, or cannot be answered by this replica, the error is an
// apierrors.APIStatus.
type Answers interface {
	// Explain explains why a pod is pending, or where it is. If node is not "", it compares that
	// node with the others.
	Explain(ctx context.Context, namespace, name, node string) (*v1alpha1.PodExplanation, error)
	// Decisions returns decisions, the latest first, and the number of the latest one of all.
	Decisions(ctx context.Context, query *DecisionQuery) (_ []v1alpha1.Decision, latest int64, err error)
	// Queues returns the number of pending pods of each active profile, on the replica that
	// schedules pods. It is cheap, however many pods there are.
	Queues() ([]v1alpha1.Queue, error)
	// PendingKinds returns at most a number of kinds of pending pods, of a namespace or, if it is
	// "", of all, on the replica that schedules pods. The answer may be some seconds old.
	PendingKinds(namespace string, limit int) (*v1alpha1.PendingKindList, error)
	// PendingPods returns one kind by its namespace and its ID, with at most a number of its pods,
	// or an empty list if no such pod is pending.
	PendingPods(namespace, id string, limit int) (*v1alpha1.PendingKindList, error)
	// NodeAllocations returns the room of all nodes and, if a pod is named, why each of them
	// refuses it. The list must not be changed.
	NodeAllocations(ctx context.Context, pod types.NamespacedName) (*v1alpha1.NodeAllocationList, error)
	// LoadSamples returns the load of this replica over a time until now.
	LoadSamples(last time.Duration) *v1alpha1.LoadSampleList
	// Simulate decides pods again with a change. It erases the names of nodes in messages if the
	// user may not list nodes.
	Simulate(ctx context.Context, s *v1alpha1.Simulation, hideNodes bool) (*v1alpha1.SimulationStatus, error)
	// Count counts how many pods fit. It erases the names of nodes in the message about a group if
	// the user may not list nodes.
	Count(ctx context.Context, c *v1alpha1.Capacity, hideNodes bool) (*v1alpha1.CapacityStatus, error)
	// Snapshot returns what writes a snapshot of the present state, with at most a number of
	// decisions.
	Snapshot(ctx context.Context,
		decisions int) (write func(ctx context.Context, w io.Writer, redacted bool) error, err error)
}

// Authorizer checks what else the user of a request may do; secureserving.Guard is one.
type Authorizer interface {
	Allows(ctx context.Context, what authorizer.AttributesRecord) (bool, error)
}

// Handler serves the resources. Any goroutine may call it.
type Handler struct {
	scheduler  Scheduler
	authorizer Authorizer
	// leader answers what this replica does not know, nil if there is no other replica.
	leader Leader
	// explaining holds one item for each explanation that is being made.
	explaining chan struct{}
	recent     *recent
	compressed compressed
	simulating *turnstile
}

// NewHandler returns a Handler. Only requests that secureserving.Guard let through may reach it.
// The leader is nil if this replica answers everything itself.
func NewHandler(s Scheduler, a Authorizer, leader Leader) *Handler {
	return &Handler{scheduler: s, authorizer: a, leader: leader, explaining: make(chan struct{}, maxExplanations),
		recent: newRecent(), simulating: newTurnstile()}
}

// ServeHTTP implements http.Handler. What it answers is what was authorized: it does not read the
// path again.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	object, err := h.answer(w, r)
	switch {
	case err != nil:
		secureserving.WriteError(w, statusOf(r, err))
	case object != nil:
		h.write(w, r, object)
	}
}

// Object returns the object that a request is answered with, for the pages that this process
// serves. It must not be changed. The error is an apierrors.APIStatus. Snapshots are files, and no
// objects: they must not be asked for.
func (h *Handler) Object(r *http.Request) (any, error) {
	object, err := h.answer(nil, r)
	if text, is := object.(json.RawMessage); is {
		info, _ := request.RequestInfoFrom(r.Context()) // without it, there is no object
		object, err = decode(info.Resource, text)
	}
	if err != nil {
		return nil, statusOf(r, err)
	}
	return object, nil
}

// answer returns the object to send, or nil if it has sent a file.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request) (any, error) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok {
		return nil, errors.New("the request has not been authorized")
	}
	resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	switch {
	case !info.IsResourceRequest, info.APIGroup != v1alpha1.GroupVersion.Group,
		info.APIVersion != v1alpha1.GroupVersion.Version, !served(info):
		return nil, notServed
	case info.Verb != verbs[info.Resource]:
		return nil, apierrors.NewMethodNotSupported(resource, info.Verb)
	case r.Header.Get("Impersonate-User") != "":
		return nil, apierrors.NewBadRequest(
			"livesched does not support impersonation: it answers the user who sends the request")
	case secureserving.PassedOn(r.Context()) && leaderKnows[info.Resource] == nil:
		return nil, apierrors.NewForbidden(resource, info.Name, errors.New("no replica passes this question on"))
	case info.Verb == "list" && (info.Name != "" || r.URL.Query().Has("fieldSelector") ||
		r.URL.Query().Has("labelSelector")):
		// The selector would have been authorized, and not been applied.
		return nil, apierrors.NewBadRequest("livesched supports no field and label selectors")
	case info.Verb != "create" && r.ContentLength != 0:
		return nil, apierrors.NewRequestEntityTooLargeError("a GET request has no body")
	}
	if h.asksLeader(r, info.Resource) {
		answer, err := h.askLeader(r, info)
		if err == nil || !apierrors.IsServiceUnavailable(err) || !h.answersAnyway(r, info.Resource) {
			return answer, err
		}
	}
	answers, err := h.scheduler.Answers()
	if err != nil {
		return nil, err
	}
	switch info.Resource {
	case Simulations:
		return h.simulate(w, r, answers, info.Namespace)
	case Capacities:
		return h.count(w, r, answers, info.Namespace)
	case Snapshots:
		return nil, h.snapshot(w, r, answers, info.Name)
	case Decisions:
		return h.decisions(r, answers, info.Namespace)
	case Queues:
		return queues(answers)
	case PendingKinds:
		return h.pendingKinds(r, answers, info.Namespace)
	case NodeAllocations:
		return h.nodeAllocations(r, answers)
	case LoadSamples:
		return loadSamples(r, answers)
	}
	return h.explain(r, answers, info.Namespace, info.Name)
}

// verbs holds the verb of each resource.
var verbs = map[string]string{
	PodExplanations: "get", Decisions: "list", Queues: "list", Simulations: "create", Capacities: "create",
	Snapshots: "get", PendingKinds: "list", NodeAllocations: "list", LoadSamples: "list",
}

// withoutNamespace are the resources that belong to no namespace.
var withoutNamespace = sets.New(Snapshots, Queues, NodeAllocations, LoadSamples)

// served reports whether livesched has what a path names. A simulation and a list may be about all
// namespaces.
func served(info *request.RequestInfo) bool {
	switch {
	case verbs[info.Resource] == "" || len(info.Parts) > 2,
		len(content.IsPathSegmentName(info.Name)) > 0,
		len(content.IsPathSegmentName(info.Namespace)) > 0:
		return false
	case withoutNamespace.Has(info.Resource):
		return info.Namespace == ""
	}
	return info.Namespace != "" || info.Resource == Simulations || verbs[info.Resource] == "list"
}

// sees reports whether the user of a request may list nodes, or the pods of all namespaces.
func (h *Handler) sees(ctx context.Context, resource string) (bool, error) {
	return h.authorizer.Allows(ctx,
		authorizer.AttributesRecord{ResourceRequest: true, Verb: "list", APIVersion: "v1", Resource: resource})
}

// explain returns an explanation that the user of the request may read.
func (h *Handler) explain(r *http.Request, answers Answers, namespace, name string) (*v1alpha1.PodExplanation, error) {
	pod, node := types.NamespacedName{Namespace: namespace, Name: name}, r.URL.Query().Get(NodeParameter)
	maxAge, err := maxAgeOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	if kept := h.recent.get(pod, maxAge); node == "" && kept != nil {
		seesNodes, err := h.sees(r.Context(), "nodes")
		if err != nil {
			return nil, err
		}
		return h.visible(r.Context(), kept, seesNodes)
	}
	ctx, leave, seesNodes, err := h.beginExplaining(r.Context(), node)
	if err != nil {
		return nil, err
	}
	defer leave()
	explanation, err := answers.Explain(ctx, namespace, name, node)
	if err != nil {
		return nil, err
	}
	h.recent.keep(pod, explanation)
	return h.visible(ctx, explanation, seesNodes)
}

// visible returns what the user of a request may see of an explanation.
func (h *Handler) visible(ctx context.Context, e *v1alpha1.PodExplanation,
	seesNodes bool) (*v1alpha1.PodExplanation, error) {
	if !seesNodes {
		e = withoutNodeNames(e)
	}
	seesPods, err := h.sees(ctx, "pods")
	if err != nil || seesPods {
		return e, err
	}
	return withoutPodsOfOthers(e), nil
}

// beginExplaining limits the explanations and lists that are made at the same time, and the time of
// each, and asks whether the user may list nodes. A user who may not cannot ask about a node
// either: node must be "" then. If it returns no error, leave must be called.
func (h *Handler) beginExplaining(ctx context.Context,
	node string) (_ context.Context, leave func(), seesNodes bool, err error) {
	select {
	case h.explaining <- struct{}{}:
	default:
		return nil, nil, false,
			apierrors.NewTooManyRequests(fmt.Sprintf("%d explanations are being made", maxExplanations), retryAfter)
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	leave = func() { cancel(); <-h.explaining }
	if seesNodes, err = h.sees(ctx, "nodes"); err == nil && node != "" && !seesNodes {
		err = apierrors.NewForbidden(corev1.Resource("nodes"), node,
			errors.New("you may not list nodes, so you may not ask about one"))
	}
	if err != nil {
		leave()
		return nil, nil, false, err
	}
	return ctx, leave, seesNodes, nil
}

// notServed is the error of a resource that livesched does not have.
var notServed = apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)

// statusOf returns the Status for an error, and logs unexpected errors.
func statusOf(r *http.Request, err error) *apierrors.StatusError {
	var status *apierrors.StatusError
	switch {
	case errors.As(err, &status):
		return status
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("livesched did not answer in time", 0)
	case r.Context().Err() != nil:
		return apierrors.NewTimeoutError("the caller has gone", 0)
	default:
		klog.FromContext(r.Context()).Error(err, "Could not answer a request", "path", r.URL.Path)
		return apierrors.NewInternalError(err)
	}
}
