// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

// LastGood remembers, by object name, the specs that go on where the present ones are invalid. It speaks of an object as
// long as that exists: one that was deleted and created again has another UID and no last good spec.
type LastGood struct {
	Profiles map[string]GoodProfile
	Policies map[string]GoodPolicy
}

// GoodProfile is a profile as it last ran: its spec together with the spec of the policy that it was resolved with.
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
	// Secrets that the spec names, as they were then. They are kept in memory only.
	Secrets map[types.NamespacedName]Secret `json:"-"`
}

// LastGood returns what is last good once the given profiles run. They are those that really run, which are not all of
// r.Profiles if some could not be built. What was last good of the other objects remains so while the objects exist.
func (r *Resolution) LastGood(running []*Profile) LastGood {
	next := LastGood{Profiles: maps.Clone(r.remembered.Profiles), Policies: maps.Clone(r.remembered.Policies)}
	for _, profile := range running {
		if uid, exists := r.profileUIDs[profile.Name]; exists && uid == profile.UID {
			next.Profiles[profile.Name] = profile.Source
		}
	}
	return next
}
