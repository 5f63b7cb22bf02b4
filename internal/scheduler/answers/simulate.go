// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/admission"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/scheduler/simulate"
)

// Simulate implements apiserving.Answers, in the goroutine of the caller.
func (a *Answers) Simulate(ctx context.Context, in *v1alpha1.Simulation,
	hideNodes bool) (*v1alpha1.SimulationStatus, error) {
	r, err := simulate.Parse(in)
	if err != nil {
		return nil, asStatus("Simulation", err)
	}
	r.HideNodes = hideNodes
	if r.Changes, err = a.changes(ctx, &in.Spec); err != nil {
		return nil, err
	}
	k, err := a.Forker.Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	if r.Pending, err = a.unassigned(); err != nil {
		return nil, err
	}
	now := a.Clock.Now()
	status, err := simulate.Run(ctx, k, r)
	if err != nil {
		return nil, asStatus("Simulation", err)
	}
	status.Time = metav1.NewTime(now)
	return status, nil
}

// unassigned returns the pods that are on no node.
func (a *Answers) unassigned() ([]*corev1.Pod, error) {
	pods, err := a.Pods.List(labels.Everything())
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }), err
}

// Count implements apiserving.Answers.
func (a *Answers) Count(ctx context.Context, in *v1alpha1.Capacity, hideNodes bool) (*v1alpha1.CapacityStatus, error) {
	r, err := simulate.ParseCapacity(in)
	if err != nil {
		return nil, asStatus("Capacity", err)
	}
	r.HideNodes = hideNodes
	k, err := a.Forker.Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	now := a.Clock.Now()
	status, err := simulate.Count(ctx, k, r)
	if err != nil {
		return nil, asStatus("Capacity", err)
	}
	status.Time = metav1.NewTime(now)
	return status, nil
}

// changes returns the profiles that the objects of a simulation change, nil without objects.
func (a *Answers) changes(ctx context.Context, spec *v1alpha1.SimulationSpec) (map[string]*resolve.Profile, error) {
	if len(spec.Profiles)+len(spec.Policies) == 0 {
		return nil, nil
	}
	current, err := a.objects(ctx)
	if err != nil {
		return nil, err
	}
	before, after := resolve.Objects(current),
		resolve.Objects(current.With(spec.Profiles, spec.Policies, a.Clock.Now()))
	for i := range spec.Profiles {
		if err := rejected("SchedulerProfile", spec.Profiles[i].Name, after.ProfileResults); err != nil {
			return nil, err
		}
	}
	for i := range spec.Policies {
		if err := rejected("SchedulingPolicy", spec.Policies[i].Name, after.PolicyResults); err != nil {
			return nil, err
		}
	}
	return simulate.Changes(before, after, spec.Profiles), nil
}

// rejected returns the errors of an object that livesched would not accept, in the words of the
// webhook.
func rejected(kind, name string, results map[string]resolve.Result) error {
	result := results[name]
	if result.Accepted {
		return nil
	}
	return admission.Invalid(kind, name, append(result.Problems, result.Obstacles...))
}

// asStatus turns the error of an invalid request into a Status.
func asStatus(kind string, err error) error {
	var invalid *simulate.InvalidError
	if errors.As(err, &invalid) {
		return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), "", invalid.Fields)
	}
	return err
}
