// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// dryRuns remembers the results of preemption dry runs. When many pods of a class fit nowhere,
// kube-scheduler does a dry run on a tenth of the nodes for each of them; here only the nodes that
// have changed since need one.
//
// Only pods with a class (framework.Refusals) are looked up: for these, only the node matters. A
// dry run then depends on the preemptor's class and priority, and on
//
//   - the node and its pods: cache.Snapshot.Log has all changes that plugins notice
//   - the start times of the pods, by which preemption compares them: cache.Snapshot.Starts
//   - the pods that are nominated to the node: framework.Nominator
//   - the disruption budgets that select a possible victim, as far as it reads them: budgetRead
//   - how groups are evicted; if a group with a pod on the node is evicted as a whole, the result
//     is not reused
//
// The results only decide on which node upstream's evaluator does its own dry run, which finds the
// victims. If they leave no node, the evaluator is not called.
//
// The Plugins of a process share one. It belongs to the goroutine of the scheduling loop, or to the
// one of a Trial.
type dryRuns struct {
	// limit is how much memory classes may take, in bytes, and bytes is how much they do. The class
	// of the latest preemptor may be larger.
	limit, bytes int
	classes      map[dryRunKey]*classDryRuns
	// keys are those of classes, in no order.
	keys []dryRunKey
}

// dryRunKey says for which preemptors dry runs have the same result.
type dryRunKey struct {
	// finder is the number of the finder: class numbers of one profile mean nothing to others.
	finder, class uint64
	priority      int32
}

// maxDryRunBytes is the memory for the results of all profiles: those for more than a hundred
// classes on 5,000 nodes, or about ten on 100,000.
const maxDryRunBytes = 64 << 20

var finders atomic.Uint64

func newDryRuns() *dryRuns {
	return &dryRuns{limit: maxDryRunBytes, classes: map[dryRunKey]*classDryRuns{}}
}

// of returns the dry runs for preemptors. There are none for a pod without a class.
func (d *dryRuns) of(key dryRunKey) *classDryRuns {
	if key.class == 0 {
		return &classDryRuns{}
	}
	known := d.classes[key]
	if known == nil {
		known = &classDryRuns{}
		d.classes[key] = known
		d.keys = append(d.keys, key)
	}
	return known
}

// account makes room after the memory of a class has changed. It drops any other classes. If more
// classes come in turn than there is room for, the least recently used one would be the one that is
// needed next, and none would ever be found.
func (d *dryRuns) account(key dryRunKey) {
	known := d.classes[key]
	if known == nil {
		return
	}
	d.bytes -= known.accounted
	known.accounted = known.size()
	d.bytes += known.accounted
	for d.bytes > d.limit && len(d.keys) > 1 {
		i := rand.IntN(len(d.keys))
		if d.keys[i] == key {
			continue
		}
		d.bytes -= d.classes[d.keys[i]].accounted
		delete(d.classes, d.keys[i])
		last := len(d.keys) - 1
		d.keys[i] = d.keys[last]
		d.keys = d.keys[:last]
	}
}

// classDryRuns are the dry runs for pods of one class and priority.
type classDryRuns struct {
	// accounted is the size that dryRuns counts.
	accounted int
	// seen is up to where the results are up to date.
	seen positions
	// potential holds the slots of the nodes on which preemption may help, by the statuses of this
	// version (framework.Refusals), and ring the results on them in this order. stale means that
	// they must be found again.
	potential []cache.Slot
	version   uint64
	stale     bool
	ring      ring
	// at has the position of a potential node by its slot, none for all others.
	at []int32
	// reads are what the results have read of budgets, by the names of the budgets, and readBytes
	// is the memory of it.
	reads     budgetReads
	readBytes int
	// spanning are the slots with results that must not be reused.
	spanning []cache.Slot
	// message is upstream's message if there is no candidate, empty if it is not known.
	message string
}

// dryRun is the result of a dry run.
type dryRun struct {
	// victims are nil if preemption does not help on the node. status then has the reason.
	victims []victimRef
	merit   merit
	status  *fwk.Status
	// spans means that it depends on pods on other nodes, too, so that it must not be reused.
	spans bool
	reads []budgetRead
}

// Estimates of memory, in bytes: of a potential node, of a result and its victims, and of what it
// reads of a budget.
const (
	nodeBytes   = 4 + 4 + 8 + 4*16
	resultBytes = 320
	readBytes   = 160
)

func (c *classDryRuns) size() int {
	known := c.ring.len()
	if known > 0 {
		known -= int(c.ring.tree[1].counts[unknown])
	}
	return nodeBytes*c.ring.len() + resultBytes*known + c.readBytes
}

// findPotential finds the nodes on which preemption may help, unless it knows them for this version
// of the statuses. It keeps the results on nodes that were potential before.
func (c *classDryRuns) findPotential(version uint64, statuses fwk.NodeToStatusReader, f *finder) error {
	if c.version == version && version != 0 && !c.stale {
		return nil
	}
	nodes, err := statuses.NodesForStatusCode(f.snapshot.NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return err
	}
	if f.byName { // the statuses are in no order
		nodes = slices.SortedFunc(slices.Values(nodes), compareNames) // the list may be that of the snapshot
	}
	before := make(map[cache.Slot]*dryRun, len(c.potential))
	for position, slot := range c.potential {
		if result := c.ring.results[position]; result != nil {
			before[slot] = result
		}
	}
	c.version, c.stale, c.message = version, false, ""
	c.potential = slices.Grow(c.potential[:0], len(nodes))
	c.at = slices.Repeat([]int32{none}, f.snapshot.Slots())
	results := make([]*dryRun, 0, len(nodes))
	for _, node := range nodes {
		slot, ok := f.snapshot.SlotOf(node.Node().Name)
		if !ok {
			continue
		}
		c.at[slot] = int32(len(results))
		c.potential = append(c.potential, slot)
		results = append(results, before[slot])
		delete(before, slot)
	}
	c.ring.reset(results)
	for slot, result := range before {
		c.unread(slot, result)
	}
	return nil
}

func compareNames(a, b fwk.NodeInfo) int {
	return cmp.Compare(a.Node().Name, b.Node().Name)
}

// resultOn returns the result on a potential node, nil if it is not known.
func (c *classDryRuns) resultOn(slot cache.Slot) *dryRun { return c.ring.results[c.at[slot]] }

// set stores the result of a dry run.
func (c *classDryRuns) set(slot cache.Slot, result *dryRun) {
	c.ring.set(int(c.at[slot]), result)
	c.read(slot, result)
	if result.spans {
		c.spanning = append(c.spanning, slot)
	}
	c.message = ""
}

// forget drops the result on a node. The node may not be a potential one.
func (c *classDryRuns) forget(slot cache.Slot) {
	if int(slot) >= len(c.at) || c.at[slot] == none {
		return
	}
	if result := c.ring.results[c.at[slot]]; result != nil {
		c.unread(slot, result)
		c.ring.set(int(c.at[slot]), nil)
	}
}

// forgetAll drops all results.
func (c *classDryRuns) forgetAll() {
	c.reads, c.readBytes, c.spanning, c.message = nil, 0, nil, ""
	if c.ring.len() > 0 {
		c.ring.reset(make([]*dryRun, c.ring.len()))
	}
}

// noCandidateMessage returns upstream's message about the pod of a search that found no candidate.
func (c *classDryRuns) noCandidateMessage(s *search) string {
	if c.message == "" {
		statuses := make(map[string]*fwk.Status, len(c.potential))
		for position, slot := range c.potential {
			statuses[s.nameOf(slot)] = c.ring.results[position].status
		}
		c.message = noCandidateMessage(s.pod, statuses, s.snapshot.NumNodes())
	}
	return c.message
}
