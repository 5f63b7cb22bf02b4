// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"container/list"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
)

// DefaultMaxBytes bounds the memory that classes take: that of a thousand classes in a cluster of
// 10,000 nodes, about.
const DefaultMaxBytes = 128 << 20

// Reason says why a pod has to take the scalar path. It is the label of a metric.
type Reason string

// The reasons. None is that the fast path has decided.
const (
	None Reason = ""
	// UnknownPlugin: the profile runs a plugin on nodes of which it is not known what it goes by
	// (which has the plugin asked on the fast path), does not score, or has taken a plugin apart.
	UnknownPlugin Reason = "unknown_plugin"
	// Volumes: the pod has volumes that not every node can mount. The plugins for these are asked
	// on the fast path.
	Volumes Reason = "volumes"
	// Devices: a plugin has something to do for the pod that has to be done pod by pod, such as
	// allocating devices. It is asked on the fast path, unless the devices stand behind a resource
	// that the pod requests.
	Devices Reason = "devices"
	// NodeNames: the pod names the nodes it may run on.
	NodeNames Reason = "node_names"
	// Nominated: room is reserved for the pod, or for one that is at least as important and has to
	// be reckoned with in more than what it takes.
	Nominated Reason = "nominated"
	// Topology: PodTopologySpread or InterPodAffinity has something to do for the pod, and no twin.
	Topology Reason = "topology"
	// NoFit: no node is left. The scalar path says why, unless Unfit knows.
	NoFit Reason = "no_fit"
	// Failed: a plugin has failed or refused the pod as such. The scalar path says how.
	Failed Reason = "failed"
	// Verbose: decisions are being logged plugin by plugin.
	Verbose Reason = "verbose"
)

// Request is one pod to decide about.
type Request struct {
	// Plan is that of the instance of the pod's profile.
	Plan *Plan
	// State is the pod's, and new.
	State fwk.CycleState
	Pod   *corev1.Pod
	// Enough ends the search of plugins that have to be asked node by node, once they let the pod
	// on so many nodes. Rows and trackers look at all nodes in any case. 0: they are asked about
	// all nodes that are left.
	Enough int
}

// Decision is what the fast path came to.
type Decision struct {
	// Best are the nodes with the highest total, one at least. Valid until the next decision.
	Best *Ties
	// Feasible is the number of nodes that the pod fits, Evaluated of those that were looked at.
	Feasible, Evaluated int
	// Class is that of the pod.
	Class cache.Class
	// Rest says why plugins had to be asked about the nodes that were left: UnknownPlugin, Volumes
	// or Devices. None: they were not.
	Rest Reason
}

// Engine decides on the fast path. It belongs to the goroutine of the scheduling loop, as the
// snapshot does.
type Engine struct {
	snapshot *cache.Snapshot
	maxBytes int

	instances map[string]*instance // by profile name
	byID      map[cache.ClassID]*class
	lastID    cache.ClassID
	// used lists the classes, the one used last in front; bytes is what they and their rows hold.
	used  *list.List
	bytes int

	// nodes has what the nodes have and what is requested of them. tableBytes is what it was last
	// accounted with.
	nodes      nodeTable
	tableBytes int
	// borrower are the rows that were last lent columns, and spare are columns that nobody has; see
	// lend.
	borrower *localRows
	spare    columns

	// mentions are the keys of the labels that tell classes apart, those of all profiles: a class
	// is asked about by the selectors of others.
	mentions *topology.Mentions
	key      keyWriter
	// record says that the durations of plugin calls are to be recorded in this decision.
	record bool
	marks  []uint32 // by slot: the round in which it was marked
	round  uint32

	// last is the class of the last decision, nominated the nodes with room that was reserved then
	// (by name, with a number for which pods it is for), and chosen those that were best. lastNamed
	// says that the pod named the nodes that came into question.
	last      *class
	lastNamed bool
	nominated map[string]uint64
	chosen    Ties
	// unfitVersion is the last version that was given to an unfit.
	unfitVersion uint64
	// rest is what the plugins did in the last decision that rows and twins do not stand in for.
	// next is the slot from which they are asked the next time that not all nodes are needed.
	rest rest
	next cache.Slot
	// claims are those of the last pod for which it was of use to read them, claimed has how many
	// the nodes have.
	claims  claims
	claimed claimTable
	// looked is the number of nodes that the last decision has looked at one by one, other than for
	// a new class.
	looked int
	// Of the last pass: the nodes that fit, for how many nodes each of them stands (nil: for
	// itself), their totals, and the best of them.
	feasible []cache.Slot
	sizes    []int32
	totals   []int64
	best     []cache.Slot
	// Scratch space.
	sizesOf   []int32
	scores    []int64
	crosses   []*cross
	nodeList  fwk.NodeScoreList
	rowScores []int64
	allScores []int64
	asked     []cache.Slot
	passed    []bool
}

// New returns an Engine that decides on a snapshot, and keeps what it has worked out up to so many
// bytes (0: DefaultMaxBytes).
func New(snapshot *cache.Snapshot, maxBytes int) *Engine {
	if maxBytes == 0 {
		maxBytes = DefaultMaxBytes
	}
	return &Engine{
		snapshot: snapshot, maxBytes: maxBytes,
		instances: map[string]*instance{}, byID: map[cache.ClassID]*class{}, used: list.New(), nodes: newNodeTable(),
		mentions: topology.NewMentions(0),
	}
}

// Decide finds the best nodes for a pod among all. With a Reason other than None the pod has to
// take the scalar path, with what State returns, unless there is a Failure. Otherwise one of the
// best nodes is to be chosen, and Settle called for it.
func (e *Engine) Decide(ctx context.Context, r Request) (Decision, Reason) {
	e.rest = rest{}
	decision, reason := e.decide(ctx, r)
	if reason != None {
		e.rest.undo()
	}
	return decision, reason
}

func (e *Engine) decide(ctx context.Context, r Request) (Decision, Reason) {
	start := time.Now()
	g, state, pod := e.instanceOf(r.Plan), r.State, r.Pod
	switch {
	case g.scalar:
		return Decision{}, UnknownPlugin
	case reported(pod):
		return Decision{}, Devices
	case pod.Status.NominatedNodeName != "" || !e.nominatedElsewhere(g.framework, pod):
		return Decision{}, Nominated
	case klog.FromContext(ctx).V(10).Enabled():
		return Decision{}, Verbose
	}
	e.record = state.ShouldRecordPluginMetrics()
	e.looked = 0
	if g.namesNodes && namesNodes(pod) {
		return e.decideNamed(ctx, g, state, pod)
	}
	c, prepared, reason := e.ready(ctx, g, state, pod, pod)
	if reason != None {
		return Decision{}, reason
	}
	e.last, e.lastNamed = c, false
	// The best nodes of a plain class are simply those with the highest sum.
	plain := !e.rest.active() && len(e.nominated) == 0 && c.plain()
	feasible, evaluated, sorted, err := c.local.feasible, e.NumNodes(), (*groups)(nil), error(nil)
	if !plain {
		feasible, evaluated, sorted, err = e.filterNodes(ctx, c, r.Enough, pod)
	}
	if err != nil {
		return Decision{}, Failed
	}
	e.account(c)
	filtered := time.Now()
	if feasible == 0 {
		return Decision{}, NoFit
	}
	if plain {
		e.chosen.reset(c.local.byFixed.best())
	} else if err := e.score(ctx, c, pod); err != nil {
		return Decision{}, Failed
	} else {
		e.choose(sorted)
	}
	// The device classes may have changed since prepare, and with them what NodeResourcesFit has
	// just said.
	if c.local.extended && !g.devicesSkip(ctx, pod) {
		e.dropRows(c.local)
		return Decision{}, Devices
	}
	g.preFilterDuration.Observe(prepared.Sub(start).Seconds())
	g.filterDuration.Observe(filtered.Sub(prepared).Seconds())
	g.scoreDuration.Observe(time.Since(filtered).Seconds())
	return Decision{
		Best: &e.chosen, Feasible: feasible, Evaluated: evaluated, Class: cache.Class{ID: c.id, Like: c.like}, Rest: e.rest.reason,
	}, None
}

// filterNodes collects the nodes that a class's pod fits, by groups if it can, and returns how many
// fit and how many were looked at.
func (e *Engine) filterNodes(
	ctx context.Context, c *class, enough int, pod *corev1.Pod,
) (feasible, evaluated int, sorted *groups, err error) {
	switch {
	case e.rest.active():
		feasible, evaluated, err = e.filterWithRest(ctx, c, enough, pod)
		return feasible, evaluated, nil, err
	case len(e.nominated) > 0:
		// Groups know nodes by what they have in common.
		e.filter(c, nil)
		err = e.leaveOutReserved(ctx, c, pod)
		return len(e.feasible), e.NumNodes(), nil, err
	}
	if sorted = c.groupsOf(e); sorted != nil && !sorted.sync(e) {
		sorted = nil
	}
	return e.filter(c, sorted), e.NumNodes(), sorted, nil
}

// Totals returns the nodes that fitted in the last decision and, in the same order, their totals;
// nil if there was but one. Both are valid until the next decision. They are those of a pass over
// all nodes.
func (e *Engine) Totals(ctx context.Context, pod *corev1.Pod) (feasible []cache.Slot, totals []int64) {
	e.chosen.reset(slices.Collect(e.chosen.All())) // which the pass may overwrite
	if e.lastNamed {
		return slices.Collect(e.chosen.All()), nil
	}
	if e.rest.flat {
		if len(e.feasible) > 1 {
			totals = e.totals
		}
		return e.feasible, totals
	}
	e.filter(e.last, nil)
	if err := e.leaveOutReserved(ctx, e.last, pod); err != nil {
		return nil, nil
	}
	if err := e.score(ctx, e.last, pod); err != nil || len(e.feasible) == 1 {
		totals = nil
	} else {
		totals = e.totals
	}
	return e.feasible, totals
}

// Best returns the nodes that were best in the last decision.
func (e *Engine) Best() *Ties { return &e.chosen }

// Looked returns how many nodes the last decision has looked at one by one, for themselves or for
// their group: the twins that were brought up to the snapshot, groups, filters and scores. What is
// worked out for a class that is new, and what plugins were asked about (plugin_evaluation_total),
// is not in it.
func (e *Engine) Looked() int { return e.looked }

// NumNodes is the number of nodes that decisions are made among.
func (e *Engine) NumNodes() int { return e.snapshot.NumNodes() }

// NumPods returns the number of pods on the node in a slot, assumed ones included.
func (e *Engine) NumPods(slot cache.Slot) int { return len(e.snapshot.Info(slot).GetPods()) }

// NodeName returns the name of the node in a slot.
func (e *Engine) NodeName(slot cache.Slot) string { return e.snapshot.Info(slot).Node().Name }

// ready finds the class of a pod and brings what is known of it up to the snapshot. like is the
// pod, or what its class has of it. prepared is when what has to be done for each pod was done.
func (e *Engine) ready(
	ctx context.Context, g *instance, state fwk.CycleState, pod, like *corev1.Pod,
) (c *class, prepared time.Time, reason Reason) {
	e.readMentions(g.topology, like)
	for again := true; again; again = e.forgetIfGrown() { // once more if a selector that was just found asks for more
		if c, reason = e.classOf(ctx, g, like); reason == None {
			reason = e.prepare(ctx, c, g.topology, pod)
		}
	}
	if reason == None {
		reason = e.prepareRest(ctx, c, state, pod)
	}
	if reason != None {
		return nil, prepared, reason
	}
	if len(e.nominated) > 0 && c.minds() {
		return nil, prepared, Nominated
	}
	prepared = time.Now()
	if err := c.local.sync(ctx, e, like); err != nil {
		klog.FromContext(ctx).V(5).Info("The rows of a class are dropped", "pod", klog.KObj(pod), "err", err)
		e.dropRows(c.local)
		return nil, prepared, Failed
	}
	return c, prepared, None
}

// prepare brings the twins of a pod's class up to the snapshot.
func (e *Engine) prepare(ctx context.Context, c *class, twins *topology.Factory, pod *corev1.Pod) Reason {
	g := c.local.gen
	switch {
	case c.local.named:
		return NodeNames
	case c.local.extended && g.devices == "":
		return Devices
	case twins == nil && !e.alone(ctx, c, pod):
		return Topology
	case twins != nil && c.syncCrosses(e, twins) != nil:
		e.dropClass(c)
		return Failed
	}
	return None
}

// beginMarks begins a round in which no slot is marked.
func (e *Engine) beginMarks() {
	e.round++
	if e.round == 0 {
		clear(e.marks)
		e.round = 1
	}
	for len(e.marks) < e.snapshot.Slots() {
		e.marks = append(e.marks, 0)
	}
}

// mark marks a slot, and says whether it was not marked in this round.
func (e *Engine) mark(slot cache.Slot) bool {
	if e.marks[slot] == e.round {
		return false
	}
	e.marks[slot] = e.round
	return true
}
