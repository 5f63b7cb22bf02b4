// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"

	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Map is the set of profiles that decide at one time. Immutable.
type Map struct {
	profiles map[string]*Instance
	// sortedBy is the profile whose queue sort orders the queue. nil: kube-scheduler's default
	// does, by priority, then by time.
	sortedBy *Instance
}

// NewMap makes a map of profiles by scheduler name. The one named sortedBy, if there is such a
// profile, lends the queue its sort.
func NewMap(profiles map[string]*Instance, sortedBy string) *Map {
	return &Map{profiles: maps.Clone(profiles), sortedBy: profiles[sortedBy]}
}

// Get returns the profile of a scheduler name, nil if there is none. The caller holds no reference
// to it: to schedule with it, use Store.Acquire.
func (m *Map) Get(schedulerName string) *Instance { return m.profiles[schedulerName] }

// All iterates over the profiles in the order of their scheduler names.
func (m *Map) All() iter.Seq[*Instance] {
	return func(yield func(*Instance) bool) {
		for _, name := range slices.Sorted(maps.Keys(m.profiles)) {
			if !yield(m.profiles[name]) {
				return
			}
		}
	}
}

// Len is the number of profiles.
func (m *Map) Len() int { return len(m.profiles) }

// Equal says whether two maps hold the same instances and sort the queue by the same one.
func (m *Map) Equal(other *Map) bool {
	return maps.Equal(m.profiles, other.profiles) && m.sortedBy == other.sortedBy
}

// QueueSettings returns what the scheduling queue needs of all profiles together.
func (m *Map) QueueSettings() *queue.Settings {
	s := &queue.Settings{Less: (&queuesort.PrioritySort{}).Less, Profiles: make(map[string]*queue.ProfileSettings, len(m.profiles))}
	if m.sortedBy != nil {
		s.Less, s.Order = m.sortedBy.QueueSort().Less, m.sortedBy.Config.QueueSort.String()
	}
	for name, p := range m.profiles {
		s.Profiles[name] = p.Queue
	}
	return s
}

// changedSince returns the scheduler names whose profile is another one than in old: added, rebuilt
// or removed.
func (m *Map) changedSince(old *Map) sets.Set[string] {
	changed := sets.New[string]()
	for name, p := range m.profiles {
		if old.profiles[name] != p {
			changed.Insert(name)
		}
	}
	for name := range old.profiles {
		if m.profiles[name] == nil {
			changed.Insert(name)
		}
	}
	return changed
}
