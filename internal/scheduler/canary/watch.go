// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package canary watches how the owners of pods fare with each of the two revisions of a profile
// that is rolled out.
//
//	loop: a pod was decided --> Watch.Note --> counts by owner
//	controllers             --> Watch.Observed
package canary

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/rollout/evidence"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// maxOwners limits the owners that are remembered of one roll-out.
const maxOwners = 200_000

// Watch counts owners. Its methods may be called by any goroutine; the scheduling loop calls Note.
type Watch struct {
	profiles *profile.Store
	groups   *podgroup.Registry

	mu sync.Mutex // guards rollouts and their values
	// rollouts are by scheduler name.
	rollouts map[string]*counts
}

// NewWatch returns a Watch of the canaries of a Store.
func NewWatch(profiles *profile.Store, groups *podgroup.Registry) *Watch {
	return &Watch{profiles: profiles, groups: groups, rollouts: map[string]*counts{}}
}

// counts are those of one roll-out.
type counts struct {
	revision string
	owners   map[string]*fate
	seen     rollout.Observed
}

// fate is what is known of an owner.
type fate struct {
	// isNew means that it has had the new revision.
	isNew bool
	// failed are the metrics by which it failed. An owner counts once: what it does afterwards tells
	// nothing new about which of the revisions makes owners fail.
	failed map[rollout.Metric]bool
}

// Note counts a decision about a pod, and by which metrics it was a failure. It does nothing unless
// a share of the pods of the profile's scheduler name gets another revision.
func (w *Watch) Note(p *profile.Instance, pod *corev1.Pod, failed ...rollout.Metric) {
	current := w.profiles.Current()
	canary, share := current.Canary(p.SchedulerName())
	if canary == nil || share <= 0 || share >= queue.Whole || p != canary && p != current.Get(p.SchedulerName()) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.rollouts[p.SchedulerName()]
	if c == nil || c.revision != canary.Config.Revision {
		c = &counts{revision: canary.Config.Revision, owners: map[string]*fate{}}
		c.seen.Owners = map[rollout.Metric]*evidence.Owners{}
		w.rollouts[p.SchedulerName()] = c
	}
	c.note(w.groups.OwnerOf(pod), float64(share)/queue.Whole, p == canary, failed)
}

func (c *counts) note(owner string, share float64, isNew bool, failed []rollout.Metric) {
	f := c.owners[owner]
	switch {
	case f == nil && len(c.owners) >= maxOwners:
		return
	case f == nil:
		f = &fate{failed: map[rollout.Metric]bool{}}
		c.owners[owner] = f
		if !isNew {
			c.seen.Stable++
		}
	}
	if isNew && !f.isNew {
		c.seen.New++
		f.isNew = true
	}
	for _, metric := range failed {
		if !f.failed[metric] {
			f.failed[metric] = true
			c.fail(metric, share, isNew)
		}
	}
}

// fail counts an owner that fails for the first time. The split draws owners by a hash, so it has
// the new revision with the probability of the present share, unless that revision makes a
// difference.
func (c *counts) fail(metric rollout.Metric, share float64, isNew bool) {
	if c.seen.Owners[metric] == nil {
		c.seen.Owners[metric] = &evidence.Owners{}
	}
	c.seen.Owners[metric].Add(share, isNew)
}

// Observed returns what was observed of a revision that gets a share of the pods of a scheduler
// name.
func (w *Watch) Observed(schedulerName, revision string) *rollout.Observed {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.rollouts[schedulerName]; c != nil && c.revision == revision {
		return c.seen.Clone()
	}
	return &rollout.Observed{}
}
