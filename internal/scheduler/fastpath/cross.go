// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
)

// cross is the twin of a plugin with the weight of its score. Classes share those that are made
// from the same: of twins of PodTopologySpread, pods with equal rows and equal constraints,
// whatever their other labels.
type cross struct {
	topology.Cross
	filters bool
	weight  int64
	// key is its name in localRows.twins, "" if it is not to be shared. users is the number of
	// classes that have it.
	key   string
	users int
	// bytes is what it was last accounted with.
	bytes int

	// pos is the position in the log up to which it is right.
	pos uint64
	// relevant remembers of classes whether their pods change anything for it.
	relevant relevance
}

// sync brings the twin up to the snapshot, and says whether that can be done.
func (x *cross) sync(e *Engine) bool {
	log := e.snapshot.Log()
	changes, ok := log.Since(x.pos)
	if !ok || x.Stale() {
		return false
	}
	if len(changes) > 0 {
		e.beginMarks()
		for _, change := range changes {
			if x.cares(e, change) && e.mark(change.Slot) {
				x.Update(change.Slot)
				e.looked++
			}
		}
		x.pos = log.End()
	}
	return true
}

// cares says whether a change can change anything for the twin.
func (x *cross) cares(e *Engine, change cache.Change) bool {
	if change.Pod == 0 || change.Kind != cache.PodAdded && change.Kind != cache.PodRemoved {
		return true
	}
	if relevant, ok := x.relevant.of(change.Pod); ok {
		return relevant
	}
	other, known := e.byID[change.Pod]
	if !known {
		return true
	}
	relevant := x.Relevant(other.like)
	x.relevant.remember(change.Pod, relevant, len(e.byID))
	return relevant
}

// syncCrosses brings the twins of a class up to the snapshot.
func (c *class) syncCrosses(e *Engine, twins *topology.Factory) error {
	if !c.crossed || c.constraints != nil && c.constraints.Changed() {
		return c.makeCrosses(e, twins)
	}
	for _, x := range c.crosses {
		if !x.sync(e) {
			return c.makeCrosses(e, twins)
		}
	}
	return nil
}

// makeCrosses makes the twins anew, those that no other class has kept up.
func (c *class) makeCrosses(e *Engine, twins *topology.Factory) error {
	c.dropCrosses(e)
	g := c.local.gen
	if g.hasSpread {
		constraints, err := twins.Constraints(c.like.Pod)
		if err != nil {
			return err
		}
		c.constraints = constraints
		if constraints != nil {
			constraints.Mention(e.mentions)
			if err := c.shareTwin(e, constraints); err != nil {
				return err
			}
		}
	}
	if g.hasAffinity {
		made, err := twins.Affinity(c.like.Pod)
		if err != nil {
			return err
		}
		c.addCross(e, &cross{Cross: made, filters: g.affinityFilters, weight: g.affinityWeight})
	}
	c.crossed = true
	return nil
}

// shareTwin gives a class the twin for its constraints.
func (c *class) shareTwin(e *Engine, constraints *topology.Constraints) error {
	key := constraints.Key()
	if x, ok := c.local.twins[key]; ok && x.sync(e) {
		x.users++
		c.crosses = append(c.crosses, x)
		return nil
	}
	made, err := constraints.Twin()
	if err != nil {
		return err
	}
	x := &cross{Cross: made, filters: c.local.gen.spreadFilters, weight: c.local.gen.spreadWeight, key: key}
	if c.local.twins == nil {
		c.local.twins = map[string]*cross{}
	}
	c.local.twins[key] = x // in the place of one that its other classes will find to be of no use
	c.addCross(e, x)
	return nil
}

// addCross gives a class a twin that was just made.
func (c *class) addCross(e *Engine, x *cross) {
	x.users, x.pos = 1, e.snapshot.Log().End()
	c.crosses = append(c.crosses, x)
}

// dropCrosses takes a class's twins from it, and with them the groups that were made by these.
func (c *class) dropCrosses(e *Engine) {
	c.setGroups(e, nil)
	for _, x := range c.crosses {
		x.users--
		if x.users == 0 {
			e.bytes -= x.bytes
			if c.local.twins[x.key] == x {
				delete(c.local.twins, x.key)
			}
		}
	}
	c.crosses, c.constraints, c.crossed, c.unfit = nil, nil, false, unfit{}
}

// busy collects the twins that have something to say about nodes as things are.
func (c *class) busy(to []*cross) []*cross {
	for _, x := range c.crosses {
		if !x.Idle() {
			to = append(to, x)
		}
	}
	return to
}

// groupsOf returns the groups of a class's nodes, made if there are none for its rows and the twins
// that have something to say. nil: the nodes cannot be grouped.
func (c *class) groupsOf(e *Engine) *groups {
	if !c.local.groupable() {
		return nil
	}
	e.crosses = c.busy(e.crosses[:0])
	if c.groups == nil || !slices.Equal(c.groups.crosses, e.crosses) {
		c.setGroups(e, c.local.groupsBy(e.crosses))
	}
	return c.groups
}

// setGroups has a class use other groups, or none.
func (c *class) setGroups(e *Engine, to *groups) {
	if from := c.groups; from != nil {
		from.users--
		if from.users == 0 {
			e.bytes -= from.bytes
			c.local.groups = slices.DeleteFunc(c.local.groups, func(g *groups) bool { return g == from })
		}
	}
	if to != nil {
		to.users++
	}
	c.groups = to
}
