// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"maps"
	"slices"

	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// active describes the current map of the Store.
type active struct {
	// profiles holds the profiles that schedule pods, and shadows, by resolve.Profile.ID. A profile
	// that was carried over can be newer than the configuration that its instance was built from,
	// but has the same revision.
	profiles map[string]*resolve.Profile
	// sortedBy is the scheduler name of the profile that orders the queue, "" at first.
	sortedBy string
}

// situation holds everything that a plan depends on.
type situation struct {
	resolution *resolve.Resolution
	// active describes the profiles that run now.
	active active
	// builds holds the outcomes of the builds of profiles that do not run yet.
	builds builds
	// reserved is the scheduler name of a profile that must not run because another scheduler uses
	// the name, and unclear one of which that is not known yet, "" if there is none.
	reserved, unclear string
}

// plan describes the profiles that run after the next swap, and why some resolved profiles do not.
type plan struct {
	next active
	// take holds the builds whose instances are swapped in, by resolve.Profile.ID, as in the maps
	// below. All other profiles of next keep their running instance.
	take map[string]*profile.Build
	// failed holds the errors of failed builds. The instance that runs under the name, if any,
	// keeps running.
	failed map[string]error
	// pending holds the reasons of builds that have not ended, and of those that wait for such a
	// build. The instance that runs under the name, if any, keeps running.
	pending map[string]string
	// reserved is the scheduler name of the profile that only another scheduler of that name keeps
	// from running, and unclear one of which that is not known yet, "" if there is none.
	reserved, unclear string
}

// Reasons of profiles that are pending.
const (
	stillBuilding = "is still being built"
	leaseUnread   = "waits until livesched has read the Lease of kube-scheduler"
)

// makePlan plans a swap. Profiles of the revision that runs are carried over and those that are
// built are swapped in together. A profile that could not be built, or is not built yet, stays as
// it is; neither holds up the others. Some profiles do not run, even if they do now: one whose
// scheduler name is reserved, with which this replica has not scheduled, and one that runs for all
// pods but is only to be tried, as the stored revisions tell.
func makePlan(s situation) *plan {
	p := &plan{
		next:    active{profiles: map[string]*resolve.Profile{}},
		take:    map[string]*profile.Build{},
		failed:  map[string]error{},
		pending: map[string]string{},
	}
	for name, cfg := range s.resolution.All() {
		outcome, wanted := s.builds.wanted[name]
		switch {
		case outcome.Err != nil:
			p.failed[name] = outcome.Err
		case name == s.reserved:
			p.reserved = name
		case name == s.unclear:
			p.unclear, p.pending[name] = name, leaseUnread
		case !wanted:
			p.next.profiles[name] = cfg
		case outcome.Pending():
			p.pending[name] = stillBuilding
		default:
			p.run(cfg, outcome.Built)
		}
	}
	held := p.holdTogether(s)
	for name, outcome := range s.builds.standIns {
		if outcome.Built != nil && name != s.reserved {
			p.run(s.builds.before[name], outcome.Built)
		}
	}
	for name := range s.resolution.All() {
		if name == s.reserved {
			continue
		}
		if before := s.active.profiles[name]; before != nil && p.next.profiles[name] == nil &&
			!s.resolution.Tries(before) {
			p.next.profiles[name] = before
		}
	}
	p.endTrials(s.resolution)
	p.next.sortedBy = p.sorter(s.resolution, s.active.profiles[s.active.sortedBy], held)
	return p
}

// endTrials removes what runs for a roll-out of another revision than the present one, canaries
// without a profile beside which they could run, and those whose revision runs for all pods.
func (p *plan) endTrials(resolution *resolve.Resolution) {
	for id, cfg := range p.next.profiles {
		if !cfg.Canary && (cfg.Shadow == nil || cfg.Shadow.Profile != cfg.Name) {
			continue
		}
		stable, wanted := p.next.profiles[cfg.SchedulerName], resolution.ByID(id)
		if stable == nil || stable.Revision == cfg.Revision || wanted == nil || wanted.Revision != cfg.Revision {
			delete(p.next.profiles, id)
			delete(p.take, id)
		}
	}
}

// run plans to swap in the instance of a build.
func (p *plan) run(cfg *resolve.Profile, built *profile.Build) {
	p.next.profiles[cfg.ID()] = cfg
	p.take[cfg.ID()] = built
}

// holdTogether keeps profiles that change the order of the queue together from changing one after
// the other: while one of them is being built, those that are built become pending, too. It reports
// whether there are such profiles.
func (p *plan) holdTogether(s situation) bool {
	reorders := func(name string) bool {
		before, after := s.active.profiles[name], s.resolution.Profiles[name]
		return before != nil && after != nil && before.QueueSort != after.QueueSort
	}
	for _, late := range slices.Sorted(maps.Keys(p.pending)) {
		if !reorders(late) {
			continue
		}
		for name := range p.take {
			if reorders(name) {
				delete(p.take, name)
				delete(p.next.profiles, name)
				p.pending[name] = fmt.Sprintf("is built, and waits for the profile with scheduler name %q, which "+
					"changes the order of the queue at the same time", late)
			}
		}
		return true
	}
	return false
}

// sorter returns the scheduler name of the profile whose queue sort orders the queue: the one that
// the resolution names or, if that could not be built, one with the same order. Otherwise, and
// while profiles that are to change the order together are held, the queue keeps its order. last is
// the profile that ordered it until now, nil at first.
func (p *plan) sorter(resolution *resolve.Resolution, last *resolve.Profile, held bool) string {
	first := resolution.SortedBy
	if first == "" {
		return ""
	}
	if !held {
		if p.failed[first] == nil && p.pending[first] == "" && p.reserved != first {
			return first
		}
		if name := p.sorting(resolution.Profiles[first].QueueSort); name != "" {
			return name
		}
	}
	next := p.next.profiles
	if last != nil {
		if now := next[last.SchedulerName]; now != nil && now.QueueSort == last.QueueSort {
			return last.SchedulerName
		}
		if name := p.sorting(last.QueueSort); name != "" {
			return name
		}
	}
	if next[first] != nil {
		return first
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		if next[name].Schedules() {
			return name
		}
	}
	return first
}

// sorting returns the first scheduler name whose profile has this order of the queue, "" if there
// is none.
func (p *plan) sorting(order resolve.QueueSort) string {
	for _, name := range slices.Sorted(maps.Keys(p.next.profiles)) {
		if cfg := p.next.profiles[name]; cfg.Schedules() && cfg.QueueSort == order {
			return name
		}
	}
	return ""
}
