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

// Map is the set of instances that schedule pods at one time, with their shadows. Immutable.
type Map struct {
	// profiles holds the instances that schedule pods, by scheduler name.
	profiles map[string]*Instance
	// shadows holds the instances of shadow profiles, by resolve.Profile.ID, and shadowsOf the same
	// by the scheduler name of the profile that they follow.
	shadows   map[string]*Instance
	shadowsOf map[string][]*Instance
	// canaries holds the instances that are tried, by scheduler name, and shares the share of
	// owners that each gets.
	canaries map[string]*Instance
	shares   map[string]Share
	// sortedBy is the instance whose queue sort orders the queue. nil means kube-scheduler's
	// default: by priority, then by time.
	sortedBy *Instance
}

// Share is the share of the owners of pods that a canary gets.
type Share struct {
	// Owners is from 0 to queue.Whole.
	Owners int
	// Salt decides which owners come first.
	Salt string
}

// Percent returns the share as a percentage.
func (s Share) Percent() int { return s.Owners * 100 / queue.Whole }

// of returns the share as the queue needs it.
func (s Share) of(canary *Instance) queue.Canary {
	return queue.Canary{Settings: canary.Queue, Share: s.Owners, Salt: s.Salt}
}

// NewMap returns a Map of instances by resolve.Profile.ID. The one with the scheduler name
// sortedBy, if there is one, orders the queue.
func NewMap(instances map[string]*Instance, sortedBy string) *Map {
	m := &Map{
		profiles: map[string]*Instance{}, shadows: map[string]*Instance{}, shadowsOf: map[string][]*Instance{},
		canaries: map[string]*Instance{}, sortedBy: instances[sortedBy],
	}
	for _, id := range slices.Sorted(maps.Keys(instances)) {
		instance := instances[id]
		switch name := instance.SchedulerName(); {
		case instance.IsShadow():
			m.shadows[id] = instance
			m.shadowsOf[name] = append(m.shadowsOf[name], instance)
		case instance.IsCanary():
			m.canaries[name] = instance
		default:
			m.profiles[id] = instance
		}
	}
	return m
}

// WithShares sets the share of owners that each canary gets, by scheduler name, and returns m. It
// must be called before m is swapped in.
func (m *Map) WithShares(shares map[string]Share) *Map {
	m.shares = shares
	return m
}

// Canary returns the instance that is tried under a scheduler name, nil if there is none, and its
// share of the owners.
func (m *Map) Canary(schedulerName string) (*Instance, Share) {
	return m.canaries[schedulerName], m.shares[schedulerName]
}

// Decides returns the instance that decides the pods of an owner (podgroup.Registry.OwnerOf) with a
// scheduler name, nil if there is none. The caller holds no reference to it.
func (m *Map) Decides(schedulerName, owner string) *Instance {
	stable := m.profiles[schedulerName]
	canary, share := m.Canary(schedulerName)
	if stable != nil && canary != nil && share.of(canary).Takes(owner) {
		return canary
	}
	return stable
}

// Get returns the instance of a scheduler name, nil if there is none. The caller holds no reference
// to it.
func (m *Map) Get(schedulerName string) *Instance { return m.profiles[schedulerName] }

// ByID returns the instance of a profile or shadow by its resolve.Profile.ID, nil if there is none.
// The caller holds no reference to it.
func (m *Map) ByID(id string) *Instance {
	if shadow := m.shadows[id]; shadow != nil {
		return shadow
	}
	for _, canary := range m.canaries {
		if canary.Config.ID() == id {
			return canary
		}
	}
	return m.profiles[id]
}

// everything iterates over all instances: those that schedule pods, canaries and shadows.
func (m *Map) everything() iter.Seq[*Instance] {
	return func(yield func(*Instance) bool) {
		for _, instances := range []map[string]*Instance{m.profiles, m.canaries, m.shadows} {
			for _, instance := range instances {
				if !yield(instance) {
					return
				}
			}
		}
	}
}

// All iterates over the instances that schedule pods, in the order of their scheduler names. It
// leaves out canaries.
func (m *Map) All() iter.Seq[*Instance] {
	return func(yield func(*Instance) bool) {
		for _, name := range m.Names() {
			if !yield(m.profiles[name]) {
				return
			}
		}
	}
}

// Deciding iterates over the instances that schedule pods, in the order of their scheduler names,
// each with its canary, if there is one, after it.
func (m *Map) Deciding() iter.Seq[*Instance] {
	return func(yield func(*Instance) bool) {
		for p := range m.All() {
			canary, _ := m.Canary(p.SchedulerName())
			if !yield(p) || canary != nil && !yield(canary) {
				return
			}
		}
	}
}

// HasShadows reports whether any profile has a shadow.
func (m *Map) HasShadows() bool { return len(m.shadows) > 0 }

// Names returns the scheduler names of the instances that schedule pods, in alphabetical order.
func (m *Map) Names() []string { return slices.Sorted(maps.Keys(m.profiles)) }

// Len returns the number of instances that schedule pods.
func (m *Map) Len() int { return len(m.profiles) }

// SameInstances reports whether two maps hold the same instances and sort the queue by the same
// one. The shares of canaries may differ.
func (m *Map) SameInstances(other *Map) bool {
	return maps.Equal(m.profiles, other.profiles) && maps.Equal(m.shadows, other.shadows) &&
		maps.Equal(m.canaries, other.canaries) && m.sortedBy == other.sortedBy
}

// SameShares reports whether the canaries of two maps get the same shares.
func (m *Map) SameShares(other *Map) bool { return maps.Equal(m.shares, other.shares) }

// QueueSettings returns the settings of the scheduling queue for all instances that schedule pods.
func (m *Map) QueueSettings() *queue.Settings {
	s := &queue.Settings{Profiles: make(map[string]*queue.ProfileSettings, len(m.profiles)),
		Canaries: map[string]queue.Canary{}}
	if m.sortedBy != nil {
		s.Less, s.Order = m.sortedBy.QueueSort().Less, m.sortedBy.Config.QueueSort.String()
	}
	for name, p := range m.profiles {
		s.Profiles[name] = p.Queue
	}
	for name, p := range m.canaries {
		s.Canaries[name] = m.shares[name].of(p)
	}
	return s
}

// changeSince returns the scheduler names whose instance is not the one in old: added, replaced or
// removed. It leaves out shadows.
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
