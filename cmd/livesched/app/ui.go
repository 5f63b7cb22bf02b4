// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/apiserving"
	"github.com/livesched/livesched/internal/dashboard"
	"github.com/livesched/livesched/internal/secureserving"
)

// uiPrefix is the path of the dashboard on the secure port.
const uiPrefix = "/ui"

// newUI returns the dashboard, which asks as the user of each request.
func newUI(answers *apiserving.Handler, guard *secureserving.Guard, objects client.Reader,
	history dashboard.History) http.Handler {
	source := &uiSource{answers: answers, guard: guard, objects: objects}
	return dashboard.NewHandler(uiPrefix, func(*http.Request) (dashboard.Source, error) { return source, nil }, history)
}

// uiSource answers as the secure port answers the user of a request, whom the contexts have. Any
// goroutine may use it.
type uiSource struct {
	answers *apiserving.Handler
	guard   *secureserving.Guard
	objects client.Reader
}

// get gets an object of the secure port.
func get[T any](ctx context.Context, s *uiSource, path string, query url.Values) (object T, _ error) {
	target := url.URL{Path: apiserving.Path + path, RawQuery: query.Encode()}
	return ask[T](ctx, s, http.MethodGet, target.String(), http.NoBody)
}

// ask asks the secure port.
func ask[T any](ctx context.Context, s *uiSource, method, target string, body io.Reader) (object T, _ error) {
	r, err := s.guard.Again(ctx, method, target, body)
	if err != nil {
		return object, err
	}
	answer, err := s.answers.Object(r)
	if err != nil {
		return object, err
	}
	object, is := answer.(T)
	if !is {
		return object, fmt.Errorf("%s is answered by %T", target, answer)
	}
	return object, nil
}

// PendingKinds implements dashboard.Source.
func (s *uiSource) PendingKinds(ctx context.Context, namespace string, limit int) (*v1alpha1.PendingKindList, error) {
	return get[*v1alpha1.PendingKindList](ctx, s, inNamespace(namespace)+apiserving.PendingKinds,
		url.Values{apiserving.LimitParameter: {strconv.Itoa(limit)}})
}

// PendingPods implements dashboard.Source.
func (s *uiSource) PendingPods(ctx context.Context, namespace, id string,
	limit int) (*v1alpha1.PendingKindList, error) {
	return get[*v1alpha1.PendingKindList](ctx, s, inNamespace(namespace)+apiserving.PendingKinds,
		url.Values{apiserving.IDParameter: {id}, apiserving.LimitParameter: {strconv.Itoa(limit)}})
}

// NodeAllocations implements dashboard.Source.
func (s *uiSource) NodeAllocations(ctx context.Context,
	pod types.NamespacedName) (*v1alpha1.NodeAllocationList, error) {
	query := url.Values{}
	if pod.Name != "" {
		query = url.Values{apiserving.NamespaceParameter: {pod.Namespace}, apiserving.PodParameter: {pod.Name}}
	}
	return get[*v1alpha1.NodeAllocationList](ctx, s, apiserving.NodeAllocations, query)
}

// LoadSamples implements dashboard.Source.
func (s *uiSource) LoadSamples(ctx context.Context, last time.Duration) (*v1alpha1.LoadSampleList, error) {
	return get[*v1alpha1.LoadSampleList](ctx, s, apiserving.LoadSamples,
		url.Values{apiserving.LastParameter: {last.String()}})
}

// Explain implements dashboard.Source.
func (s *uiSource) Explain(ctx context.Context, pod types.NamespacedName, node string,
	maxAge time.Duration) (*v1alpha1.PodExplanation, error) {
	query := url.Values{apiserving.MaxAgeParameter: {maxAge.String()}}
	if node != "" {
		query.Set(apiserving.NodeParameter, node)
	}
	path := inNamespace(pod.Namespace) + apiserving.PodExplanations + "/" + pod.Name
	return get[*v1alpha1.PodExplanation](ctx, s, path, query)
}

// Decisions implements dashboard.Source.
func (s *uiSource) Decisions(ctx context.Context, query url.Values) (*v1alpha1.DecisionList, error) {
	parameters := url.Values{}
	for name, values := range query {
		if name != apiserving.NamespaceParameter {
			parameters[name] = values
		}
	}
	path := inNamespace(query.Get(apiserving.NamespaceParameter)) + apiserving.Decisions
	return get[*v1alpha1.DecisionList](ctx, s, path, parameters)
}

// Simulate implements dashboard.Source.
func (s *uiSource) Simulate(ctx context.Context,
	simulation *v1alpha1.Simulation) (*v1alpha1.SimulationStatus, error) {
	body, err := json.Marshal(simulation)
	if err != nil {
		return nil, err
	}
	target := url.URL{Path: apiserving.Path + inNamespace(simulation.Metadata.Namespace) + apiserving.Simulations}
	answer, err := ask[*v1alpha1.Simulation](ctx, s, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return &answer.Status, nil
}

// Profiles implements dashboard.Source. livesched may list profiles; its user may not.
func (s *uiSource) Profiles(ctx context.Context) ([]v1alpha1.SchedulerProfile, error) {
	resource := v1alpha1.GroupVersion.WithResource("schedulerprofiles")
	allowed, err := s.guard.Allows(ctx, authorizer.AttributesRecord{ResourceRequest: true, Verb: "list",
		APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource})
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, apierrors.NewForbidden(resource.GroupResource(), "",
			errors.New("you need the permission to list them"))
	}
	var list v1alpha1.SchedulerProfileList
	err = s.objects.List(ctx, &list)
	return list.Items, err
}

// inNamespace returns the part of a path that names a namespace, "" for all.
func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return "namespaces/" + namespace + "/"
}
