// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/admission"
	"github.com/livesched/livesched/internal/scheduler"
	resolve "github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/simulate"
)

// simulator simulates changes of the profiles and policies in the manager's cache.
type simulator struct {
	sched      *scheduler.Scheduler
	reader     client.Reader
	registered sets.Set[string]
	allowed    resolve.AllowedHosts
	clock      clock.PassiveClock
}

// Simulate implements apiserving.Simulator.
func (s simulator) Simulate(ctx context.Context, in *v1alpha1.Simulation, hideNodes bool) (*v1alpha1.SimulationStatus, error) {
	r, err := simulate.Parse(in)
	if err != nil {
		return nil, asStatus("Simulation", err)
	}
	if err := ready(s.sched); err != nil {
		return nil, err
	}
	r.HideNodes = hideNodes
	if len(in.Spec.Profiles)+len(in.Spec.Policies) > 0 {
		if r.Changes, err = s.changes(ctx, &in.Spec); err != nil {
			return nil, err
		}
	}
	status, err := s.sched.Simulate(ctx, r)
	return status, asStatus("Simulation", err)
}

// Count implements apiserving.Simulator.
func (s simulator) Count(ctx context.Context, in *v1alpha1.Capacity, hideNodes bool) (*v1alpha1.CapacityStatus, error) {
	r, err := simulate.ParseCapacity(in)
	if err != nil {
		return nil, asStatus("Capacity", err)
	}
	if err := ready(s.sched); err != nil {
		return nil, err
	}
	r.HideNodes = hideNodes
	status, err := s.sched.CountPods(ctx, r)
	return status, asStatus("Capacity", err)
}

// changes returns the profiles that the objects of a simulation change. It does not read Secrets,
// since extenders are not called.
func (s simulator) changes(ctx context.Context, spec *v1alpha1.SimulationSpec) (map[string]*resolve.Profile, error) {
	var profiles v1alpha1.SchedulerProfileList
	var policies v1alpha1.SchedulingPolicyList
	if err := errors.Join(s.reader.List(ctx, &profiles), s.reader.List(ctx, &policies)); err != nil {
		return nil, fmt.Errorf("listing SchedulerProfiles and SchedulingPolicies: %w", err)
	}
	current := resolve.Input{
		Profiles: profiles.Items, Policies: policies.Items, SecretsUnknown: true, AllowedHosts: s.allowed, Registered: s.registered,
	}
	before, after := resolve.Resolve(current), resolve.Resolve(current.With(spec.Profiles, spec.Policies, s.clock.Now()))
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
	return simulate.Changes(before, after), nil
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

// ready returns an error while a replica has not read the cluster.
func ready(sched *scheduler.Scheduler) error {
	select {
	case <-sched.Ready():
		return nil
	default:
		return apierrors.NewServiceUnavailable("this replica has not read the cluster yet")
	}
}

// asStatus turns the error of an invalid request into a Status.
func asStatus(kind string, err error) error {
	var invalid *simulate.InvalidError
	if errors.As(err, &invalid) {
		return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), "", invalid.Fields)
	}
	return err
}
