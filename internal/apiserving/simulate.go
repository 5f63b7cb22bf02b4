// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Simulations and Capacities are the resources of simulations. They are created, and not
// stored.
const (
	Simulations = "simulations"
	Capacities  = "capacities"
)

const (
	// maxBody is the size of the largest request: two objects of the largest size that etcd stores.
	maxBody = 3 << 20
	// readTimeout limits the time in which a request is read.
	readTimeout = 10 * time.Second
	// simulateTimeout limits the time of a simulation, with that in which it waits for others.
	simulateTimeout = 30 * time.Second
)

// simulate answers a simulation, in all namespaces or in one.
func (h *Handler) simulate(w http.ResponseWriter, r *http.Request, answers Answers, namespace string) (any, error) {
	in := &v1alpha1.Simulation{}
	if err := read(w, r, in, &in.TypeMeta, &in.Metadata, "Simulation", namespace); err != nil {
		return nil, err
	}
	ctx, leave, seesNodes, err := h.begin(r.Context(), &in.Spec.Nodes)
	if err != nil {
		return nil, err
	}
	defer leave()
	if in.Spec.NodeAllocations && !seesNodes {
		return nil, forbiddenNodes("only users who may list nodes may ask for the room of nodes in a simulation")
	}
	status, err := answers.Simulate(ctx, in, !seesNodes)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.Simulation{TypeMeta: in.TypeMeta, Metadata: in.Metadata, Spec: in.Spec, Status: *status}, nil
}

// count answers how many pods fit.
func (h *Handler) count(w http.ResponseWriter, r *http.Request, answers Answers, namespace string) (any, error) {
	in := &v1alpha1.Capacity{}
	if err := read(w, r, in, &in.TypeMeta, &in.Metadata, "Capacity", namespace); err != nil {
		return nil, err
	}
	ctx, leave, seesNodes, err := h.begin(r.Context(), &in.Spec.Nodes)
	if err != nil {
		return nil, err
	}
	defer leave()
	status, err := answers.Count(ctx, in, !seesNodes)
	if err != nil {
		return nil, err
	}
	if status.Next != nil {
		if status.Next, err = h.visibleNext(ctx, in.Metadata.Namespace, status.Next, seesNodes); err != nil {
			return nil, err
		}
	}
	return &v1alpha1.Capacity{TypeMeta: in.TypeMeta, Metadata: in.Metadata, Spec: in.Spec, Status: *status}, nil
}

// visibleNext returns what the user of a request may see of what keeps the next pod pending.
func (h *Handler) visibleNext(ctx context.Context, namespace string, next *v1alpha1.NextPod,
	seesNodes bool) (*v1alpha1.NextPod, error) {
	shown, err := h.visible(ctx, &v1alpha1.PodExplanation{
		Metadata: metav1.ObjectMeta{Namespace: namespace}, Message: next.Message, Pending: &v1alpha1.PendingExplanation{
			PodGroup: next.PodGroup, PodRefusals: next.PodRefusals, Groups: next.Groups, Suggestions: next.Suggestions,
		},
	}, seesNodes)
	if err != nil {
		return nil, err
	}
	p := shown.Pending
	return &v1alpha1.NextPod{
		Verdict: next.Verdict, Message: shown.Message, PodGroup: p.PodGroup, PodRefusals: p.PodRefusals,
		Groups: p.Groups, Suggestions: p.Suggestions,
	}, nil
}

// begin waits for the turn of a simulation, and asks whether its user may see nodes. Who may not
// cannot change them either: the answer would tell which nodes there are.
func (h *Handler) begin(ctx context.Context,
	nodes *v1alpha1.NodeChanges) (_ context.Context, leave func(), seesNodes bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, simulateTimeout)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	if seesNodes, err = h.sees(ctx, "nodes"); err != nil {
		return nil, nil, false, err
	}
	if !seesNodes && !reflect.ValueOf(*nodes).IsZero() {
		return nil, nil, false,
			forbiddenNodes("only users who may list nodes may add and remove nodes in a simulation")
	}
	left, err := h.simulating.enter(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	return ctx, func() { left(); cancel() }, seesNodes, nil
}

func forbiddenNodes(reason string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New(reason))
}

// read reads an object from the body of a request. Its namespace is the namespace in the path,
// which was authorized. A field that this version of livesched does not know is an error: to ignore
// it would simulate something else.
func read(w http.ResponseWriter, r *http.Request, into any, typeMeta *metav1.TypeMeta, meta *metav1.ObjectMeta,
	kind, namespace string) error {
	// A test's ResponseWriter may not support it.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the limit is %d bytes", maxBody))
	}
	if err != nil {
		return apierrors.NewBadRequest("reading the request: " + err.Error())
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	unknown, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return apierrors.NewBadRequest("the request is no JSON of the kind " + kind + ": " + err.Error())
	}
	if len(unknown) > 0 {
		return apierrors.NewBadRequest("this version of livesched does not understand the request: " +
			errors.Join(unknown...).Error())
	}
	version := v1alpha1.GroupVersion.String()
	switch {
	case typeMeta.Kind != kind || typeMeta.APIVersion != version:
		return apierrors.NewBadRequest(fmt.Sprintf("the request must be of the kind %s of %s", kind, version))
	case namespace != "" && meta.Namespace != "" && meta.Namespace != namespace,
		namespace == "" && meta.Namespace != "":
		return apierrors.NewBadRequest(
			fmt.Sprintf("the namespace of the object (%s) differs from the namespace of the request (%s)",
				meta.Namespace, namespace))
	}
	meta.Namespace = namespace
	return nil
}
