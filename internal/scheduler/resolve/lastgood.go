// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

// LastGood holds, by object name, the specs that replace invalid ones, the latest first. The first
// one that still resolves runs. The others serve if, after a restart, the latest no longer resolves
// because livesched was updated or a Secret was deleted. An object that was deleted and re-created
// has another UID and no last good spec.
type LastGood struct {
	Profiles map[string][]GoodProfile
	Policies map[string][]GoodPolicy
}

// GoodProfile is the spec with which a profile last ran, together with the spec of its policy.
type GoodProfile struct {
	UID        types.UID
	Generation int64
	Spec       v1alpha1.SchedulerProfileSpec
	// Policy is nil if the built-in defaults were used for the policy "default".
	Policy *GoodPolicy
}

// GoodPolicy is the spec with which a policy was last accepted.
type GoodPolicy struct {
	Name       string
	UID        types.UID
	Generation int64
	Spec       v1alpha1.SchedulingPolicySpec
	// Secrets are the ones that the spec names, with their content at that time. They are kept in
	// memory only: nil means that the present ones apply, as after a restart, until the policy has
	// been resolved with them.
	Secrets map[types.NamespacedName]Secret `json:"-"`
}

// pinned returns the policy with the Secrets that it is resolved with, so that it keeps them when
// they are deleted.
func (g GoodPolicy) pinned(present map[types.NamespacedName]Secret) GoodPolicy {
	if g.Secrets == nil {
		g.Secrets = secretsOf(&g.Spec, present)
	}
	return g
}

// LastGood returns the last good specs once the given profiles run. These are not all of r.Profiles
// if some could not be built. Objects whose profiles are not among them keep their last good specs
// while they exist.
func (r *Resolution) LastGood(running []*Profile) LastGood {
	next := LastGood{Profiles: maps.Clone(r.remembered.Profiles), Policies: maps.Clone(r.remembered.Policies)}
	for _, profile := range running {
		if !profile.Schedules() {
			continue
		}
		if object, exists := r.profiles[profile.Name]; exists && object.UID == profile.UID {
			next.Profiles[profile.Name] = profile.remembered(object.Generation, r.remembered.Profiles[profile.Name])
		}
	}
	return next
}

// remembered returns the last good specs of an object with some metadata.generation once the
// profile runs.
func (p *Profile) remembered(generation int64, before []GoodProfile) []GoodProfile {
	at := slices.IndexFunc(before, p.Source.same)
	switch {
	case p.Generation == generation:
		return []GoodProfile{p.Source} // the present spec: earlier ones return only if the user applies them
	case at < 0:
		return append([]GoodProfile{p.Source}, before...)
	default:
		// A later one may resolve again.
		next := slices.Clone(before)
		next[at] = p.Source
		return next
	}
}

// same reports whether two specs of an object have the same metadata.generation.
func (g GoodProfile) same(other GoodProfile) bool {
	if g.Generation != other.Generation || (g.Policy == nil) != (other.Policy == nil) {
		return false
	}
	return g.Policy == nil || g.Policy.Name == other.Policy.Name && g.Policy.UID == other.Policy.UID &&
		g.Policy.Generation == other.Policy.Generation
}

// Before returns the last good profile of the object whose present spec resolved to the profile of
// a scheduler name, for the case that this one cannot be built. It returns nil if there is none. It
// does not modify r.
func (r *Resolution) Before(schedulerName string) *Profile {
	next := r.Profiles[schedulerName]
	if next == nil || r.resolver == nil {
		return nil
	}
	object := r.profiles[next.Name]
	if next.Generation != object.Generation {
		return nil // this is the last good one itself
	}
	last, _ := r.resolver.lastGood(object)
	if last == nil || last.SchedulerName != schedulerName || last.Revision == next.Revision {
		return nil
	}
	return last
}
