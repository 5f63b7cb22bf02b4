// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Map is the set of instances that schedule pods at one time. Immutable.
type Map struct {
	profiles map[string]*Instance
	// sortedBy is the instance whose queue sort orders the queue. nil means kube-scheduler's
	// default: by priority, then by time.
	sortedBy *Instance
}

// NewMap returns a Map of instances by scheduler name. The one named sortedBy, if there is one,
// orders the queue.
func NewMap(profiles map[string]*Instance, sortedBy string) *Map {
	return &Map{profiles: maps.Clone(profiles), sortedBy: profiles[sortedBy]}
}

// Get returns the instance of a scheduler name, nil if there is none. The caller holds no reference
// to it.
func (m *Map) Get(schedulerName string) *Instance { return m.profiles[schedulerName] }

// All iterates over the instances in the order of their scheduler names.
func (m *Map) All() iter.Seq[*Instance] {
	return func(yield func(*Instance) bool) {
		for _, name := range m.Names() {
			if !yield(m.profiles[name]) {
				return
			}
		}
	}
}

// Names returns the scheduler names of the instances in alphabetical order.
func (m *Map) Names() []string { return slices.Sorted(maps.Keys(m.profiles)) }

// Len returns the number of instances.
func (m *Map) Len() int { return len(m.profiles) }

// Equal reports whether two maps hold the same instances and sort the queue by the same one.
func (m *Map) Equal(other *Map) bool {
	return maps.Equal(m.profiles, other.profiles) && m.sortedBy == other.sortedBy
}

// QueueSettings returns the settings of the scheduling queue for all instances together.
func (m *Map) QueueSettings() *queue.Settings {
	s := &queue.Settings{Profiles: make(map[string]*queue.ProfileSettings, len(m.profiles))}
	if m.sortedBy != nil {
		s.Less, s.Order = m.sortedBy.QueueSort().Less, m.sortedBy.Config.QueueSort.String()
	}
	for name, p := range m.profiles {
		s.Profiles[name] = p.Queue
	}
	return s
}

// changeSince returns the scheduler names whose instance is not the one in old: added, replaced or
// removed.
func (m *Map) changeSince(old *Map) Change {
	change := Change{Names: sets.New[string](), Added: sets.New[string]()}
	for name, p := range m.profiles {
		switch old.profiles[name] {
		case p:
		case nil:
			change.Names.Insert(name)
			change.Added.Insert(name)
		default:
			change.Names.Insert(name)
		}
	}
	for name := range old.profiles {
		if m.profiles[name] == nil {
			change.Names.Insert(name)
		}
	}
	return change
}
