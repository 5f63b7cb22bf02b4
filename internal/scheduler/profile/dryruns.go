// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// dryRuns remembers what dry runs of preemption came to. When many pods of a class fit nowhere,
// kube-scheduler does a dry run on a tenth of the nodes for each; here those that have changed
// since are looked at.
//
// Such a pod is one with a [framework.Refusals.Class]: nothing matters to it but the node. A dry run
// then depends on the node and the pods on it (cache.Snapshot.Version), those nominated to it
// (Framework.NominatedNodes), the disruption budgets, the pod's class and its priority.
//
// What is remembered only tells upstream's evaluator on which node to do its dry run. Whom to
// preempt there it finds out itself. Where it would find nobody on any node, it is not asked.
//
// The scheduling loop's goroutine alone touches it.
type dryRuns struct {
	// classes that preemptors were of, the last one first, maxDryRunClasses at most.
	classes []*classDryRuns
}

const maxDryRunClasses = 4

// classDryRuns are those for pods of a class and priority.
type classDryRuns struct {
	class    uint64
	priority int32
	// budgets sums up the disruption budgets at the time.
	budgets uint64
	byNode  map[string]dryRun
	// potential are the nodes where statuses of this version (framework.Refusals) say that
	// preemption may help.
	potential []string
	version   uint64
	// inVain is upstream's message where there are no candidates, empty if it is not known.
	inVain string
}

// dryRun is what one came to.
type dryRun struct {
	version, nominated uint64
	// victims is nil where preemption does not help, which status says then.
	victims *extenderv1.Victims
	status  *fwk.Status
}

// candidate is a node with its victims.
type candidate struct {
	name    string
	victims *extenderv1.Victims
}

// Victims implements preemption.Candidate.
func (c candidate) Victims() *extenderv1.Victims { return c.victims }

// Name implements preemption.Candidate.
func (c candidate) Name() string { return c.name }

// slots is a snapshot that knows when a node has changed.
type slots interface {
	NumNodes() int
	SlotOf(nodeName string) (cache.Slot, bool)
	Info(slot cache.Slot) *schedframework.NodeInfo
	Version(slot cache.Slot) uint64
}

// rehearsal is the search for a node for one preemptor.
type rehearsal struct {
	*asyncPreemption
	state     fwk.CycleState
	pod       *corev1.Pod
	nodes     slots
	nominated map[string]uint64
	budgets   []*policyv1.PodDisruptionBudget
	known     *classDryRuns
}

// choose returns the node that upstream's evaluator would choose, or what it would say if there is
// none. Both are empty if that is not known.
func (a *asyncPreemption) choose(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
) (node fwk.NodeInfo, inVain string) {
	refusals := framework.ReadRefusals(state)
	nodes, versioned := a.handle.SnapshotSharedLister().(slots)
	if refusals.Class == 0 || !versioned || ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever ||
		slices.ContainsFunc(a.handle.Extenders(), fwk.Extender.SupportsPreemption) { // which is shown all candidates
		return nil, ""
	}
	nominated, _ := a.handle.NominatedNodes(pod)
	budgets, err := a.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, ""
	}
	r := rehearsal{asyncPreemption: a, state: state, pod: pod, nodes: nodes, nominated: nominated, budgets: budgets}
	r.known = a.dryRuns.of(refusals.Class, corev1helpers.PodPriority(pod), sumOf(budgets))
	if err := r.known.readPotential(refusals.Version, statuses, a.handle.SnapshotSharedLister().NodeInfos()); err != nil {
		return nil, ""
	}
	candidates, ok := r.candidates(ctx)
	switch {
	case !ok:
		return nil, ""
	case len(candidates) == 0:
		return nil, r.inVain()
	}
	slot, ok := nodes.SlotOf(a.Evaluator.SelectCandidate(ctx, candidates).Name())
	if !ok {
		return nil, ""
	}
	return nodes.Info(slot), ""
}

// inVain is what upstream says if there are no candidates, empty for a pod of which it may say
// something else.
func (r *rehearsal) inVain() string {
	if latest, err := r.Evaluator.PodLister.Pods(r.pod.Namespace).Get(r.pod.Name); err != nil || latest.Status.NominatedNodeName != "" {
		return ""
	}
	if r.known.inVain == "" {
		came := make(map[string]*fwk.Status, len(r.known.potential))
		for _, name := range r.known.potential {
			came[name] = r.known.byNode[name].status
		}
		r.known.inVain = inVain(r.pod, came, r.nodes.NumNodes())
	}
	return r.known.inVain
}

// of returns what is known for a class and priority, and forgets what is not right with these
// budgets.
func (d *dryRuns) of(class uint64, priority int32, budgets uint64) *classDryRuns {
	i := slices.IndexFunc(d.classes, func(c *classDryRuns) bool { return c.class == class && c.priority == priority })
	found := &classDryRuns{class: class, priority: priority, budgets: budgets, byNode: map[string]dryRun{}}
	if i >= 0 {
		found = d.classes[i]
		d.classes = slices.Delete(d.classes, i, i+1)
	}
	d.classes = slices.Insert(d.classes, 0, found)
	d.classes = slices.Delete(d.classes, min(len(d.classes), maxDryRunClasses), len(d.classes)) // which lets go of what they hold
	if found.budgets != budgets {
		found.budgets = budgets
		clear(found.byNode)
	}
	return found
}

// sumOf is a number that is another one when a budget, or its status, is.
func sumOf(budgets []*policyv1.PodDisruptionBudget) (sum uint64) {
	for _, budget := range budgets { // in no order
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(string(budget.UID) + "/" + budget.ResourceVersion))
		sum += hash.Sum64()
	}
	return sum
}

// readPotential finds the nodes where preemption may help, unless they are known.
func (c *classDryRuns) readPotential(version uint64, statuses fwk.NodeToStatusReader, nodes fwk.NodeInfoLister) error {
	if c.version == version && version != 0 {
		return nil
	}
	potential, err := statuses.NodesForStatusCode(nodes, fwk.Unschedulable)
	if err != nil {
		return err
	}
	c.version, c.potential, c.inVain = version, c.potential[:0], ""
	for _, node := range potential {
		c.potential = append(c.potential, node.Node().Name)
	}
	if len(c.byNode) > 2*len(potential) { // nodes that are gone
		clear(c.byNode)
	}
	return nil
}

// candidates are found as upstream's DryRunPreemption finds them: from some node on, as many as are
// asked for, more as long as each violates a budget, and those that violate none first. With false
// something has gone wrong.
func (r *rehearsal) candidates(ctx context.Context) (found []preemption.Candidate, ok bool) {
	potential := r.known.potential
	if len(potential) == 0 {
		return nil, false
	}
	offset, wanted := r.GetOffsetAndNumCandidates(int32(len(potential)))
	var kind, violating []preemption.Candidate
	for looked := 0; looked < len(potential) && (len(kind) == 0 || len(kind)+len(violating) < int(wanted)); {
		// As many nodes as are missing at least, so that they can be looked at in parallel.
		next := make([]string, 0, wanted)
		for i := max(1, int(wanted)-len(kind)-len(violating)); i > 0 && looked < len(potential); i-- {
			next = append(next, potential[(int(offset)+looked)%len(potential)])
			looked++
		}
		if !r.rehearse(ctx, next) {
			return nil, false
		}
		for _, name := range next {
			switch victims := r.known.byNode[name].victims; {
			case victims == nil:
			case victims.NumPDBViolations == 0:
				kind = append(kind, candidate{name, victims})
			default:
				violating = append(violating, candidate{name, victims})
			}
		}
	}
	return append(kind, violating...), true
}

// rehearse sees to it that what is known of nodes is right, and says whether it is.
func (r *rehearsal) rehearse(ctx context.Context, names []string) bool {
	type missing struct {
		name string
		info *schedframework.NodeInfo
		dryRun
		failed bool
	}
	var stale []missing
	for _, name := range names {
		slot, ok := r.nodes.SlotOf(name)
		if !ok {
			return false
		}
		version, nominated := r.nodes.Version(slot), r.nominated[name]
		if known, ok := r.known.byNode[name]; !ok || known.version != version || known.nominated != nominated {
			stale = append(stale, missing{name: name, info: r.nodes.Info(slot), dryRun: dryRun{version: version, nominated: nominated}})
		}
	}
	r.handle.Parallelizer().Until(ctx, len(stale), func(i int) {
		m := &stale[i]
		pods, violations, status := r.Evaluator.SelectVictimsOnNode(ctx, r.state.Clone(), r.pod, m.info.Snapshot(), r.budgets)
		switch {
		case status.IsSuccess() && len(pods) > 0:
			m.victims = &extenderv1.Victims{Pods: pods, NumPDBViolations: int64(violations)}
		case status.IsRejected():
			m.status = status
		default:
			m.failed = true
		}
	}, r.Name())
	if ctx.Err() != nil || slices.ContainsFunc(stale, func(m missing) bool { return m.failed }) {
		return false
	}
	for _, m := range stale {
		r.known.byNode[m.name], r.known.inVain = m.dryRun, ""
	}
	return true
}

// oneNode is the statuses of nodes with but one where preemption may help.
type oneNode struct {
	fwk.NodeToStatusReader
	node fwk.NodeInfo
}

// NodesForStatusCode implements fwk.NodeToStatusReader.
func (o oneNode) NodesForStatusCode(nodes fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	if code != fwk.Unschedulable {
		return o.NodeToStatusReader.NodesForStatusCode(nodes, code)
	}
	return []fwk.NodeInfo{o.node}, nil
}
