// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// finder finds candidates for one preemptor after the other, with the help of remembered dry runs.
// It belongs to the goroutine that decides on the snapshot.
type finder struct {
	evaluator *schedpreemption.Evaluator
	snapshot  *cache.Snapshot
	nominator framework.Nominator
	// nominations are the nodes with nominated pods, by the nominator.
	nominations framework.Nominations
	// dryRuns may be shared with other finders, from which number tells this one.
	dryRuns *dryRuns
	number  uint64
	// intN draws the node at which a search begins. It returns a random number from 0 to n-1.
	intN func(n int) int
	// byName means that nodes are in the order of their names, and not in any order.
	byName bool
	// left is the number of dry runs that are allowed.
	left        int
	disruptions *disruptions
	// victims are the groups whose pods are evicted in their own way. nil: the groups, and their
	// pods, stay as they are.
	victims *victimGroups
	// groupExecutor collects victims as that of evaluator does. It has the gate for groups.
	groupExecutor *schedpreemption.Executor
	// groupPolicies means that the preemption policies of groups count.
	groupPolicies bool
}

// search is the search for the best candidate for one preemptor. It follows
// Evaluator.findCandidates, Evaluator.DryRunPreemption and Evaluator.SelectCandidate of Kubernetes
// 1.37 (k8s.io/kubernetes/pkg/scheduler/framework/preemption/preemption.go), which cannot reuse
// known results.
type search struct {
	*finder
	state fwk.CycleState
	pod   *corev1.Pod
	key   dryRunKey
	known *classDryRuns
	// evaluator is that of the finder, or one like it that knows the groups.
	evaluator *schedpreemption.Evaluator
	groups    *units
}

// chooseNode returns the node that upstream's evaluator would choose, or its message if it would
// find no candidate. It returns neither if dry runs cannot be reused for the pod.
func (p *Plugin) chooseNode(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader, groups *units,
) (node fwk.NodeInfo, message string) {
	// Extenders that take part in preemption must see all candidates.
	if framework.ReadRefusals(state).Class == 0 || p.finder.preemptsNever(pod) ||
		slices.ContainsFunc(p.handle.Extenders(), fwk.Extender.SupportsPreemption) {
		return nil, ""
	}
	s, err := p.finder.newSearch(state, pod, statuses, groups)
	if err != nil {
		return nil, ""
	}
	slot, found, ok := s.choose(ctx)
	switch {
	case !ok:
		return nil, ""
	case found:
		return s.snapshot.Info(slot), ""
	case s.upstreamChecksEligibility():
		return nil, ""
	}
	return nil, s.known.noCandidateMessage(s)
}

// newSearch prepares a search that reuses the dry runs that are known for the class of the pod.
func (f *finder) newSearch(state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
	groups *units) (*search, error) {
	refusals := framework.ReadRefusals(state)
	s := &search{
		finder: f, state: state, pod: pod, evaluator: f.evaluatorFor(f.evaluator, groups), groups: groups,
		key: dryRunKey{finder: f.number, class: refusals.Class, priority: corev1helpers.PodPriority(pod)},
	}
	s.known = f.dryRuns.of(s.key)
	s.known.catchUp(s)
	return s, s.known.findPotential(refusals.Version, statuses, f)
}

// allows counts dry runs. It returns false if they are too many.
func (f *finder) allows(dryRuns int) bool {
	f.left -= dryRuns
	return f.left >= 0
}

func (s *search) nameOf(slot cache.Slot) string { return s.snapshot.Info(slot).Node().Name }

// upstreamChecksEligibility reports whether upstream may refuse the pod with another message than
// that there is no candidate: the pod does not exist any more, or waits for the victims of an
// earlier preemption.
func (s *search) upstreamChecksEligibility() bool {
	latest, err := s.evaluator.PodLister.Pods(s.pod.Namespace).Get(s.pod.Name)
	return err != nil || latest.Status.NominatedNodeName != ""
}

// choose returns the node of the best candidate. Beginning with some node, upstream adds nodes
// until there are as many candidates as wanted and at least one of them violates no disruption
// budget, and takes the best of them, or any of the best ones. This one takes the first of these.
// ok is false if a dry run failed or there is no potential node.
//
// Unlike upstream, it takes the best of all candidates that violate budgets, not only of as many as
// wanted: all were looked at.
func (s *search) choose(ctx context.Context) (slot cache.Slot, found, ok bool) {
	ring := &s.known.ring
	if ring.len() == 0 {
		return 0, false, false
	}
	defer s.dryRuns.account(s.key)
	_, wanted := s.evaluator.GetOffsetAndNumCandidates(int32(ring.len()))
	offset := s.intN(ring.len())
	// Nodes that are not known count as candidates until they are, so a window never holds a node
	// at which upstream would not look. Their dry runs run in parallel.
	length := ring.window(offset, wanted)
	for {
		outdated := ring.unknownIn(offset, length)
		if len(outdated) == 0 {
			break
		}
		if !s.update(ctx, outdated) {
			return 0, false, false
		}
		length = ring.window(offset, wanted)
	}
	best := ring.bestIn(offset, length)
	if best == none {
		return 0, false, true
	}
	return s.known.potential[best], true, true
}

// update does the dry runs on the nodes at these positions. It returns false if one failed, or if
// there may be no more.
func (s *search) update(ctx context.Context, outdated []int) bool {
	if !s.allows(len(outdated)) || framework.RunDeferredPreFilter(ctx, s.state) != nil {
		return false
	}
	results := make([]*dryRun, len(outdated))
	s.evaluator.Handler.Parallelizer().Until(ctx, len(outdated), func(i int) {
		results[i] = s.dryRun(ctx, s.snapshot.Info(s.known.potential[outdated[i]]))
	}, s.evaluator.PluginName)
	if ctx.Err() != nil || slices.Contains(results, nil) {
		return false
	}
	for i, result := range results {
		s.known.set(s.known.potential[outdated[i]], result)
	}
	return true
}

// dryRun does a dry run on a copy of a node. It returns nil if that failed.
func (s *search) dryRun(ctx context.Context, node *schedframework.NodeInfo) *dryRun {
	possible, err := s.evaluator.GetVictimsOnNode(ctx, s.groups.forUpstream(node))
	if err != nil {
		return nil
	}
	budgets, reads := s.disruptions.matching(possible, s.key.priority)
	pods, violations, status := s.evaluator.SelectVictimsOnNode(ctx, s.state.Clone(), s.pod, node.Snapshot(), possible,
		budgets)
	result := &dryRun{spans: s.victims != nil && s.groups.spans(node.Node().Name)}
	switch {
	case status.IsSuccess() && len(pods) > 0:
		result.victims, result.reads = refsTo(pods), reads
		result.merit = meritOf(&extenderv1.Victims{Pods: pods, NumPDBViolations: int64(violations)})
		return result
	case status.IsRejected(): // before it had read a budget
		result.status = status
		return result
	}
	return nil
}

// victimRef is a pod to evict. Its object may change after the dry run.
type victimRef struct {
	uid  types.UID
	node string
}

func refsTo(pods []*corev1.Pod) []victimRef {
	refs := make([]victimRef, len(pods))
	for i, pod := range pods {
		refs[i] = victimRef{uid: pod.UID, node: pod.Spec.NodeName}
	}
	return refs
}

// podsOf returns the victims of a result as they are now. It returns nil if one is not there, which
// does not happen while the result is valid.
func (s *search) podsOf(result *dryRun) []*corev1.Pod {
	pods := make([]*corev1.Pod, len(result.victims))
	for i, victim := range result.victims {
		if pods[i] = podOn(s.snapshot, victim.node, victim.uid); pods[i] == nil {
			return nil
		}
	}
	return pods
}

// onlyNode limits the nodes on which preemption may help to one.
type onlyNode struct {
	fwk.NodeToStatusReader
	node fwk.NodeInfo
}

// NodesForStatusCode implements fwk.NodeToStatusReader.
func (o onlyNode) NodesForStatusCode(nodes fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	if code != fwk.Unschedulable {
		return o.NodeToStatusReader.NodesForStatusCode(nodes, code)
	}
	return []fwk.NodeInfo{o.node}, nil
}
