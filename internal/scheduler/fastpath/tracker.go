// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
)

// tracker is a topology.Tracker that replaces PodTopologySpread or InterPodAffinity, with the
// weight of its score.
//
// Classes share trackers. That of PodTopologySpread depends on the spread constraints and, for the
// nodes that count, on the inputs of eligibilityRows, whatever the other labels of the pods. That
// of InterPodAffinity depends on the cross part of the key alone.
type tracker struct {
	topology.Tracker
	plugin  string
	filters bool
	weight  int64
	// in is the map that it is in, under key. users is the number of classes that use it.
	in    map[string]*tracker
	key   string
	users int
	// bytes is its size when it was last accounted.
	bytes int

	// pos is the position in the log up to which it is up to date.
	pos uint64
	// relevant remembers for each class whether its pods change anything for the tracker.
	relevant relevance
}

// sync brings the tracker up to date with the snapshot. It returns false if the tracker must be
// replaced.
func (t *tracker) sync(r *refresher) bool {
	log := r.snapshot.Log()
	changes, ok := log.Since(t.pos)
	if !ok || t.Stale() {
		return false
	}
	if len(changes) > 0 {
		r.seen.reset(r.snapshot.Slots())
		for _, change := range changes {
			if t.cares(r.classes, change) && r.seen.add(change.Slot) {
				t.Update(change.Slot)
				r.examined++
			}
		}
		t.pos = log.End()
	}
	return true
}

// cares reports whether a change may affect the tracker.
func (t *tracker) cares(classes *classTable, change cache.Change) bool {
	if change.Pod == 0 || change.Kind != cache.PodAdded && change.Kind != cache.PodRemoved {
		return true
	}
	if relevant, ok := t.relevant.of(change.Pod); ok {
		return relevant
	}
	other, known := classes.byID[change.Pod]
	if !known {
		return true
	}
	relevant := t.Relevant(other.like)
	t.relevant.remember(change.Pod, relevant, len(classes.byID))
	return relevant
}

// syncTrackers brings the trackers of a class up to date with the snapshot, or replaces them.
func (c *class) syncTrackers(r *refresher, mentions *topology.Mentions) error {
	if !c.tracked || c.spread != nil && c.spread.Changed() {
		return c.makeTrackers(r, mentions)
	}
	for _, x := range c.trackers {
		if !x.sync(r) {
			return c.makeTrackers(r, mentions)
		}
	}
	return nil
}

// makeTrackers replaces the trackers that no other class has kept up to date.
func (c *class) makeTrackers(r *refresher, mentions *topology.Mentions) error {
	plan, constraints := r.plan, c.spread
	c.dropTrackers(&r.classes.budget)
	if plan.hasSpread {
		if constraints == nil || constraints.Changed() {
			var err error
			if constraints, err = plan.spreadConstraints(mentions, c.like.Pod); err != nil {
				return err
			}
		}
		if c.spread = constraints; constraints != nil {
			c.shareTracker(r, c.local.eligibility.trackers, constraints.Key(), func() *tracker {
				return &tracker{Tracker: constraints.Tracker(), plugin: podtopologyspread.Name,
					filters: plan.spreadFilters, weight: plan.spreadWeight}
			})
		}
	}
	if plan.hasAffinity {
		var err error
		c.shareTracker(r, c.local.setup.affinityTrackers, c.cross(), func() *tracker {
			var made topology.Tracker
			if made, err = plan.topology.Sources.Affinity(plan.topology.AffinityArgs, c.like.Pod); err != nil {
				return nil
			}
			return &tracker{Tracker: made, plugin: interpodaffinity.Name, filters: plan.affinityFilters,
				weight: plan.affinityWeight}
		})
		if err != nil {
			return err
		}
	}
	c.tracked = true
	return nil
}

// spreadConstraints returns the spread constraints that apply to a pod, nil if there are none, and
// adds the labels that they read to mentions.
func (p *Plan) spreadConstraints(mentions *topology.Mentions, pod *corev1.Pod) (*topology.SpreadConstraints, error) {
	constraints, err := p.topology.Sources.SpreadConstraints(p.topology.SpreadArgs, pod)
	if constraints != nil {
		constraints.Mention(mentions)
	}
	return constraints, err
}

// shareTracker gives a class the tracker with a key, and makes the tracker if there is none. It
// does nothing if it cannot be made.
func (c *class) shareTracker(r *refresher, in map[string]*tracker, key string, made func() *tracker) {
	x, ok := in[key]
	if !ok || !x.sync(r) {
		if x = made(); x == nil {
			return
		}
		x.in, x.key, x.pos = in, key, r.snapshot.Log().End()
		// This may replace a tracker that other classes still hold; they will find it stale.
		in[key] = x
	}
	x.users++
	c.trackers = append(c.trackers, x)
}

// dropTrackers removes the trackers of a class, and the groups that depend on them.
func (c *class) dropTrackers(b *budget) {
	c.setGroups(b, nil)
	for _, x := range c.trackers {
		x.users--
		if x.users == 0 {
			b.bytes -= x.bytes
			if x.in[x.key] == x {
				delete(x.in, x.key)
			}
		}
	}
	c.trackers, c.spread, c.tracked, c.explanation, c.besides = nil, nil, false, explanation{}, nil
}

// active appends the trackers that currently affect nodes.
func (c *class) active(to []*tracker) []*tracker {
	for _, x := range c.trackers {
		if !x.Idle() {
			to = append(to, x)
		}
	}
	return to
}

// groupsOf returns the groups for the rows and the active trackers of a class, and creates them if
// they do not exist. It returns nil if the nodes cannot be grouped.
func (c *class) groupsOf(r *refresher) *groups {
	if !c.local.groupable() {
		return nil
	}
	r.active = c.active(r.active[:0])
	if c.groups == nil || !slices.Equal(c.groups.trackers, r.active) {
		c.setGroups(&r.classes.budget, c.local.groupsBy(r.active))
	}
	return c.groups
}

// setGroups makes a class use other groups, or none.
func (c *class) setGroups(b *budget, to *groups) {
	if from := c.groups; from != nil {
		from.users--
		if from.users == 0 {
			b.bytes -= from.bytes
			c.local.groups = slices.DeleteFunc(c.local.groups, func(g *groups) bool { return g == from })
		}
	}
	if to != nil {
		to.users++
	}
	c.groups = to
}

// refusal returns the status with which the first tracker refuses a node, nil if all accept it.
func (c *class) refusal(slot cache.Slot) *fwk.Status {
	for _, x := range c.trackers {
		if x.filters {
			if status := x.Refusal(slot); status != nil {
				return status
			}
		}
	}
	return nil
}

// acceptsAll reports whether the trackers accept every node for the class's pods, so that the
// answer for a node depends on that node alone.
func (c *class) acceptsAll() bool {
	for _, x := range c.trackers {
		if x.filters && !x.LetsAll() {
			return false
		}
	}
	return true
}
