// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/scheduler/simulate"
)

// buildProfiles resolves and builds the profiles. Forks of them have no extenders.
func (s *State) buildProfiles(ctx context.Context) error {
	s.input = resolve.Input{
		Profiles: s.snapshot.Profiles, Policies: s.snapshot.Policies, SecretsUnknown: true,
		AllowedHosts: resolve.AnyHost(),
		Registered:   sets.KeySet(s.registry),
	}
	s.resolution = resolve.Objects(s.input)
	for name, result := range s.resolution.ProfileResults {
		if !result.Accepted {
			s.unusable[name] = errors.New(result.Message)
		}
	}
	builder := profile.NewBuilder(s.env, 0, clock.RealClock{})
	instances := map[string]*profile.Instance{}
	for _, schedulerName := range slices.Sorted(maps.Keys(s.resolution.Profiles)) {
		resolved := s.resolution.Profiles[schedulerName]
		instance, err := builder.Build(ctx, resolved)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			s.unusable[resolved.Name] = err
			continue
		}
		instances[schedulerName] = instance
	}
	s.store.Swap(klog.FromContext(ctx), profile.NewMap(instances, s.resolution.SortedBy), s.queue)
	return nil
}

// Unusable returns the errors of the profiles of the snapshot that cannot be used, by their names.
func (s *State) Unusable() map[string]error { return s.unusable }

// Changes returns the profiles that objects change if they are applied: see simulate.Changes. The
// error is the reason why an object would not be accepted, or that none of them changes a profile
// of the snapshot.
func (s *State) Changes(profiles []v1alpha1.SchedulerProfile,
	policies []v1alpha1.SchedulingPolicy) (map[string]*resolve.Profile, error) {
	after := resolve.Objects(s.input.With(profiles, policies, s.snapshot.Header.Time))
	var errs []error
	check := func(kind, name string, result resolve.Result) {
		for _, problem := range append(slices.Clone(result.Problems), result.Obstacles...) {
			errs = append(errs, fmt.Errorf("%s %s: %s", kind, name, problem))
		}
	}
	for i := range profiles {
		check("SchedulerProfile", profiles[i].Name, after.ProfileResults[profiles[i].Name])
	}
	for i := range policies {
		check("SchedulingPolicy", policies[i].Name, after.PolicyResults[policies[i].Name])
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	changes := simulate.Changes(s.resolution, after, profiles)
	for schedulerName := range changes {
		if s.resolution.Profiles[schedulerName] != nil {
			return changes, nil
		}
	}
	var names []string
	for i := range s.snapshot.Profiles {
		names = append(names, s.snapshot.Profiles[i].Name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("the objects change no profile of the snapshot, which are: %s", strings.Join(names, ", "))
}
