// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package canary watches how the owners of pods fare with each of the two revisions of a profile
// that is rolled out.
//
//	loop: a pod was decided --> Watch.Note --> counts by owner
//	controllers             --> Watch.Observed
package canary

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/rollout/evidence"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// maxTimes is the number of decision times that are kept of each revision.
const maxTimes = 1000

// Watch counts owners. Its methods may be called by any goroutine.
type Watch struct {
	// profiles returns the current map.
	profiles func() *profile.Map
	groups   *podgroup.Registry

	mu sync.Mutex // guards counts and its values
	// counts are by scheduler name.
	counts map[string]*counts
}

// NewWatch returns a Watch of the canaries of the current map, which profiles returns.
func NewWatch(profiles func() *profile.Map, groups *podgroup.Registry) *Watch {
	return &Watch{profiles: profiles, groups: groups, counts: map[string]*counts{}}
}

// counts are those of one canary.
type counts struct {
	canary *profile.Instance
	owners map[string]*fate
	seen   rollout.Observed
	// stableTimes and newTimes are how long decisions took.
	stableTimes, newTimes times
}

// fate is what is known of an owner.
type fate struct {
	// isNew means that it has had the new revision.
	isNew bool
	// failed are the metrics by which it failed. An owner counts once: what it does afterwards
	// tells nothing new about which of the revisions makes owners fail.
	failed []rollout.Metric
}

// Decided is the outcome of an attempt at a pod, or at a group of pods.
type Decided struct {
	// Profile is the instance that decided.
	Profile *profile.Instance
	// Pod is the pod, or one of the group.
	Pod *corev1.Pod
	// Share is the share of the canary by which the owner was assigned, from 0 to queue.Whole: see
	// queue.Popped. The present one may be another one.
	Share int
	// Took is how long the decision about a pod took, 0 for a group.
	Took time.Duration
	// Failed are the metrics by which it was a failure.
	Failed []rollout.Metric
}

// Note counts a decision by one of the two revisions that share the pods of a scheduler name.
func (w *Watch) Note(d Decided) {
	name := d.Profile.SchedulerName()
	w.mu.Lock()
	defer w.mu.Unlock()
	current := w.profiles()
	canary, _ := current.Canary(name)
	if canary == nil || d.Share <= 0 || d.Profile != canary && d.Profile != current.Get(name) {
		return
	}
	c := w.counts[name]
	if c == nil || c.canary != canary {
		c = &counts{canary: canary, owners: map[string]*fate{},
			seen: rollout.Observed{Owners: map[rollout.Metric]*evidence.Owners{}}}
		w.counts[name] = c
	}
	c.note(w.groups.OwnerOf(d.Pod), float64(d.Share)/queue.Whole, d.Profile == canary, &d)
}

// Prune forgets canaries that are gone. It is to be called when another map has become the current
// one.
func (w *Watch) Prune() {
	w.mu.Lock()
	defer w.mu.Unlock()
	current := w.profiles()
	maps.DeleteFunc(w.counts, func(name string, c *counts) bool {
		canary, _ := current.Canary(name)
		return c.canary != canary
	})
}

func (c *counts) note(owner string, share float64, isNew bool, d *Decided) {
	if isNew {
		c.newTimes.add(d.Took)
	} else {
		c.stableTimes.add(d.Took)
	}
	f := c.owners[owner]
	switch {
	case f == nil && len(c.owners) >= rollout.MaxOwners:
		return
	case f == nil:
		f = &fate{}
		c.owners[owner] = f
		if !isNew {
			c.seen.Stable++
		}
	}
	if isNew && !f.isNew {
		c.seen.New++
		f.isNew = true
	}
	for _, metric := range d.Failed {
		if !slices.Contains(f.failed, metric) {
			f.failed = append(f.failed, metric)
			c.fail(metric, share, isNew)
		}
	}
}

// fail counts an owner that fails for the first time. The split draws owners by a hash, so it has
// the new revision with the probability of that share, unless that revision makes a difference.
func (c *counts) fail(metric rollout.Metric, share float64, isNew bool) {
	if c.seen.Owners[metric] == nil {
		c.seen.Owners[metric] = &evidence.Owners{}
	}
	c.seen.Owners[metric].Add(share, isNew)
}

// Observed returns what was observed of the canary of a scheduler name since it was built: nothing
// if there is none, or one of another revision.
func (w *Watch) Observed(schedulerName, revision string) *rollout.Observed {
	w.mu.Lock()
	defer w.mu.Unlock()
	canary, _ := w.profiles().Canary(schedulerName)
	c := w.counts[schedulerName]
	if c == nil || c.canary != canary || canary.Config.Revision != revision {
		return &rollout.Observed{}
	}
	seen := c.seen.Clone()
	seen.StableTime, seen.NewTime = c.stableTimes.median(), c.newTimes.median()
	return seen
}

// times are the latest durations of decisions.
type times struct {
	latest []time.Duration
	next   int
}

func (t *times) add(d time.Duration) {
	if d == 0 {
		return
	}
	if len(t.latest) < maxTimes {
		t.latest = append(t.latest, d)
		return
	}
	t.latest[t.next] = d
	t.next = (t.next + 1) % maxTimes
}

// median returns 0 if there are none.
func (t *times) median() time.Duration {
	if len(t.latest) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(t.latest))[len(t.latest)/2]
}
