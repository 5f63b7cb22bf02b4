// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// positions are up to where a classDryRuns has followed what its results depend on.
type positions struct {
	log, starts, budgets uint64
	// planned is the number of planned evictions.
	planned int
	// nominations are the nodes with nominated pods that count, and up to which change. own is the
	// node that the latest preemptor itself was nominated to.
	nominations struct {
		of  *framework.NominatedNodes
		pos uint64
		own string
	}
	// groups is the version of the groups.
	groups uint64
}

// catchUp forgets the results that may have changed.
func (c *classDryRuns) catchUp(s *search) {
	changes, ok := s.snapshot.Log().Since(c.seen.log)
	starts, started := s.snapshot.Starts().Since(c.seen.starts)
	budgets, end, listed := s.disruptions.since(c.seen.budgets)
	if !ok { // slots may be those of other nodes
		c.stale = true
		c.potential, c.at = nil, nil
		c.ring.reset(nil)
	}
	if !ok || !started || !listed || c.seen.groups != s.groups.versionOf() {
		c.forgetAll()
	}
	c.seen.log, c.seen.starts, c.seen.budgets = s.snapshot.Log().End(), s.snapshot.Starts().End(), end
	c.seen.groups = s.groups.versionOf()
	for _, change := range changes {
		c.stale = c.stale || change.Kind == cache.NodeAdded || change.Kind == cache.NodeRemoved
		c.forget(change.Slot)
	}
	for _, start := range starts {
		c.forget(start.Slot)
	}
	for _, slot := range c.spanning {
		c.forget(slot)
	}
	c.spanning = c.spanning[:0]
	c.followNominations(s)
	c.followBudgets(s, budgets)
}

// followNominations forgets the results on nodes to which other pods are nominated than before. The
// result on the node of the preemptor itself is for that preemptor only.
func (c *classDryRuns) followNominations(s *search) {
	now, seen := s.nominations.Read(s.nominator, s.pod), &c.seen.nominations
	names, ok := now.Since(seen.pos)
	if !ok || seen.of != now {
		c.forgetAll()
		names = nil
	}
	for _, name := range names {
		c.forgetNode(s, name)
	}
	c.forgetNode(s, seen.own)
	c.forgetNode(s, now.Own())
	seen.of, seen.pos, seen.own = now, now.End(), now.Own()
}

func (c *classDryRuns) forgetNode(s *search, name string) {
	if slot, ok := s.snapshot.SlotOf(name); ok {
		c.forget(slot)
	}
}

// followBudgets forgets the results that the changes of budgets may have changed.
func (c *classDryRuns) followBudgets(s *search, changes []budgetChange) {
	planned := s.disruptions.changed[min(c.seen.planned, len(s.disruptions.changed)):]
	c.seen.planned = len(s.disruptions.changed)
	if len(c.reads) == 0 || len(changes)+len(planned) == 0 {
		return
	}
	selects := make(map[types.NamespacedName]bool, len(changes)+len(planned))
	for _, name := range planned {
		selects[name] = false
	}
	for _, change := range changes {
		selects[change.name] = selects[change.name] || change.selects
	}
	for name, selects := range selects {
		c.followBudget(s, name, selects)
	}
}

// followBudget forgets the results that a change of a budget may have changed. selects means that
// it may select other pods than before.
func (c *classDryRuns) followBudget(s *search, name types.NamespacedName, selects bool) {
	now := s.disruptions.get(name)
	if by := c.reads[name]; by != nil {
		switch {
		case now == nil || selects:
			for slot := range by.slots {
				c.forget(slot)
			}
		default:
			object := s.disruptions.remaining(now)
			if by.enough && int(object.Status.DisruptionsAllowed) >= by.most {
				return // no pod violates it, as before
			}
			for slot, read := range by.slots {
				if read.differs(object) {
					c.forget(slot)
				}
			}
		}
	}
	if now == nil || !selects {
		return
	}
	if by := c.reads[types.NamespacedName{Namespace: name.Namespace}]; by != nil {
		for slot := range by.slots {
			if s.selectsOn(slot, now) {
				c.forget(slot)
			}
		}
	}
}

// selectsOn reports whether a budget selects a pod on a node.
func (s *search) selectsOn(slot cache.Slot, b *budget) bool {
	node := s.snapshot.Info(slot)
	return node == nil || slices.ContainsFunc(node.GetPods(), func(info fwk.PodInfo) bool {
		pod := info.GetPod()
		return pod.Namespace == b.object.Namespace && b.selector.Matches(labels.Set(pod.Labels))
	})
}

// budgetReads has the results that have read budgets, by the names of these.
type budgetReads map[types.NamespacedName]*readers

// readers are the results that have read a budget.
type readers struct {
	slots map[cache.Slot]*budgetRead
	// most is no less than the number of pods on any of the nodes. enough is true if the budget
	// allows to evict all pods on each of the nodes.
	most   int
	enough bool
}

// read notes what a result has read of budgets.
func (c *classDryRuns) read(slot cache.Slot, result *dryRun) {
	for i := range result.reads {
		read := &result.reads[i]
		by := c.reads[read.name]
		if by == nil {
			if c.reads == nil {
				c.reads = budgetReads{}
			}
			by = &readers{slots: map[cache.Slot]*budgetRead{}, enough: true}
			c.reads[read.name] = by
		}
		by.slots[slot] = read
		by.most, by.enough = max(by.most, len(read.pods)), by.enough && read.seen == enough
		c.readBytes += readBytes + 16*len(read.pods)
	}
}

// unread reverts read.
func (c *classDryRuns) unread(slot cache.Slot, result *dryRun) {
	for i := range result.reads {
		read := &result.reads[i]
		by := c.reads[read.name]
		if delete(by.slots, slot); len(by.slots) == 0 {
			delete(c.reads, read.name)
		}
		c.readBytes -= readBytes + 16*len(read.pods)
	}
}
