// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

// LastGood remembers, by object name, the specs that go on where the present ones are invalid, the
// latest first. The first one that can run does: the others are for when livesched was restarted,
// and the latest can run no longer, since livesched itself was changed or a Secret is gone. It
// speaks of an object as long as that exists: one that was deleted and created again has another
// UID and no last good spec.
type LastGood struct {
	Profiles map[string][]GoodProfile
	Policies map[string][]GoodPolicy
}

// GoodProfile is a profile as it last ran: its spec together with the spec of the policy that it
// was resolved with.
type GoodProfile struct {
	UID        types.UID
	Generation int64
	Spec       v1alpha1.SchedulerProfileSpec
	// Policy is nil where the built-in defaults stood in for the policy "default".
	Policy *GoodPolicy
}

// GoodPolicy is a policy as it was last accepted.
type GoodPolicy struct {
	Name       string
	UID        types.UID
	Generation int64
	Spec       v1alpha1.SchedulingPolicySpec
	// Secrets that the spec names, as they were then. They are kept in memory only: nil is that the
	// present ones apply, from when the policy was read after a restart until it has been resolved
	// with them.
	Secrets map[types.NamespacedName]Secret `json:"-"`
}

// pinned is the policy with the Secrets that it is resolved with, to go on with them when they are
// gone.
func (p GoodPolicy) pinned(present map[types.NamespacedName]Secret) GoodPolicy {
	if p.Secrets == nil {
		p.Secrets = secretsOf(&p.Spec, present)
	}
	return p
}

// LastGood returns what is last good once the given profiles run. They are those that really run,
// which are not all of r.Profiles if some could not be built. What was last good of the other
// objects remains so while the objects exist.
func (r *Resolution) LastGood(running []*Profile) LastGood {
	next := LastGood{Profiles: maps.Clone(r.remembered.Profiles), Policies: maps.Clone(r.remembered.Policies)}
	for _, profile := range running {
		if object, exists := r.profiles[profile.Name]; exists && object.UID == profile.UID {
			next.Profiles[profile.Name] = profile.remembered(object.Generation, r.remembered.Profiles[profile.Name])
		}
	}
	return next
}

// remembered is what is last good of an object at some generation once the profile runs.
func (p *Profile) remembered(generation int64, before []GoodProfile) []GoodProfile {
	at := slices.IndexFunc(before, p.Source.same)
	switch {
	case p.Generation == generation:
		return []GoodProfile{p.Source} // the present spec: there is no way back to what was before but by applying it
	case at < 0:
		return append([]GoodProfile{p.Source}, before...)
	default:
		// One that is later may be able to run again.
		next := slices.Clone(before)
		next[at] = p.Source
		return next
	}
}

// same says whether two specs of an object are the same, by generation.
func (g GoodProfile) same(other GoodProfile) bool {
	if g.Generation != other.Generation || (g.Policy == nil) != (other.Policy == nil) {
		return false
	}
	return g.Policy == nil || g.Policy.Name == other.Policy.Name && g.Policy.UID == other.Policy.UID && g.Policy.Generation == other.Policy.Generation
}

// Before returns the last good profile of the object whose present spec is to run under a scheduler
// name, for the case that this cannot be built. It is nil if there is none. It does not change r.
func (r *Resolution) Before(schedulerName string) *Profile {
	next := r.Profiles[schedulerName]
	if next == nil || r.resolver == nil {
		return nil
	}
	object := r.profiles[next.Name]
	if next.Generation != object.Generation {
		return nil // it is the last good one itself
	}
	last := r.resolver.lastGood(object)
	if last == nil || last.SchedulerName != schedulerName || last.Revision == next.Revision {
		return nil
	}
	return last
}
