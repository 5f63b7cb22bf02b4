// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	dryRuns     dryRuns
	// intN draws the node at which a search begins. It returns a random number from 0 to n-1.
	intN func(n int) int
	// left is the number of dry runs that are allowed.
	left int
	// disruptions count against the budgets.
	disruptions disruptions
	// victims are the groups whose pods are evicted in their own way. nil: the groups, and their
	// pods, stay as they are.
	victims *victimGroups
	// groupExecutor collects victims as that of evaluator does. It has the gate for groups.
	groupExecutor *schedpreemption.Executor
	// groupPolicies means that the preemption policies of groups count.
	groupPolicies bool
}

// search is the search for the best candidate for one preemptor. It follows
// Evaluator.findCandidates and Evaluator.DryRunPreemption of Kubernetes 1.37
// (k8s.io/kubernetes/pkg/scheduler/framework/preemption/preemption.go), which cannot reuse known
// results.
type search struct {
	*finder
	state     fwk.CycleState
	pod       *corev1.Pod
	nominated *framework.NominatedNodes
	budgets   []*policyv1.PodDisruptionBudget
	known     *classDryRuns
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
	candidates, ok := s.candidates(ctx)
	switch {
	case !ok:
		return nil, ""
	case len(candidates) > 0:
		return s.nodeOf(s.evaluator.SelectCandidate(ctx, candidates)), ""
	case s.upstreamChecksEligibility():
		return nil, ""
	}
	return nil, s.known.noCandidateMessage(s)
}

// newSearch prepares a search that reuses the dry runs that are known for the class of the pod.
func (f *finder) newSearch(state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
	groups *units) (*search, error) {
	budgets, err := f.evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	budgets = f.disruptions.remaining(budgets)
	refusals := framework.ReadRefusals(state)
	s := &search{
		finder: f, state: state, pod: pod, nominated: f.nominations.Read(f.nominator, pod), budgets: budgets,
		evaluator: f.evaluatorFor(f.evaluator, groups), groups: groups,
		known: f.dryRuns.of(refusals.Class, corev1helpers.PodPriority(pod), budgetsSum(budgets), groups.versionOf()),
	}
	return s, s.known.findPotential(refusals.Version, statuses, s.snapshot.NodeInfos())
}

// allows counts dry runs. It returns false if they are too many.
func (f *finder) allows(dryRuns int) bool {
	f.left -= dryRuns
	return f.left >= 0
}

// nodeOf returns the node of a candidate.
func (s *search) nodeOf(c schedpreemption.Candidate) fwk.NodeInfo {
	slot, ok := s.snapshot.SlotOf(c.Name())
	if !ok {
		return nil
	}
	return s.snapshot.Info(slot)
}

// upstreamChecksEligibility reports whether upstream may refuse the pod with another message than
// that there is no candidate: the pod does not exist any more, or waits for the victims of an
// earlier preemption.
func (s *search) upstreamChecksEligibility() bool {
	latest, err := s.evaluator.PodLister.Pods(s.pod.Namespace).Get(s.pod.Name)
	return err != nil || latest.Status.NominatedNodeName != ""
}

// candidates returns the candidates in upstream's order. Beginning with some node, nodes are added
// until there are as many candidates as wanted and at least one of them violates no disruption
// budget. Those that violate none come first. ok is false if a dry run failed or there is no
// potential node.
//
// Unlike upstream, it keeps all candidates that violate budgets, not only as many as wanted: all
// were looked at, and the best of them is taken.
func (s *search) candidates(ctx context.Context) (found []schedpreemption.Candidate, ok bool) {
	potential := s.known.potential
	if len(potential) == 0 {
		return nil, false
	}
	_, wanted := s.evaluator.GetOffsetAndNumCandidates(int32(len(potential)))
	offset := s.intN(len(potential))
	var nonViolating, violating []schedpreemption.Candidate
	for looked := 0; looked < len(potential) &&
		(len(nonViolating) == 0 || len(nonViolating)+len(violating) < int(wanted)); {
		// At least as many nodes as candidates are missing, so that their dry runs run in parallel.
		next := make([]string, 0, wanted)
		for i := max(1, int(wanted)-len(nonViolating)-len(violating)); i > 0 && looked < len(potential); i-- {
			next = append(next, potential[(offset+looked)%len(potential)])
			looked++
		}
		if !s.update(ctx, next) {
			return nil, false
		}
		for _, name := range next {
			switch victims := s.known.byNode[name].victims; {
			case victims == nil:
			case victims.NumPDBViolations == 0:
				nonViolating = append(nonViolating, candidate{name, victims})
			default:
				violating = append(violating, candidate{name, victims})
			}
		}
	}
	return append(nonViolating, violating...), true
}

// update does the dry runs on the nodes for which the known result is out of date. It
// returns false if one failed, or if there may be no more.
func (s *search) update(ctx context.Context, nodes []string) bool {
	type task struct {
		name   string
		info   *schedframework.NodeInfo
		result dryRun
		failed bool
	}
	var outdated []task
	for _, name := range nodes {
		slot, ok := s.snapshot.SlotOf(name)
		if !ok {
			return false
		}
		version, nominated := s.snapshot.Version(slot), s.nominated.Number(name)
		if known, ok := s.known.byNode[name]; !ok || known.spans || known.version != version ||
			known.nominated != nominated {
			outdated = append(outdated,
				task{name: name, info: s.snapshot.Info(slot), result: dryRun{version: version, nominated: nominated,
					spans: s.victims != nil && s.groups.spans(name)}})
		}
	}
	if !s.allows(len(outdated)) {
		return false
	}
	s.evaluator.Handler.Parallelizer().Until(ctx, len(outdated), func(i int) {
		t := &outdated[i]
		t.failed = !s.dryRun(ctx, t.info, &t.result)
	}, s.evaluator.PluginName)
	if ctx.Err() != nil || slices.ContainsFunc(outdated, func(t task) bool { return t.failed }) {
		return false
	}
	for _, t := range outdated {
		s.known.set(t.name, t.result)
	}
	return true
}

// dryRun does a dry run on a copy of a node. It returns false if that failed.
func (s *search) dryRun(ctx context.Context, node *schedframework.NodeInfo, result *dryRun) bool {
	possible, err := s.evaluator.GetVictimsOnNode(ctx, s.groups.forUpstream(node))
	if err != nil {
		return false
	}
	pods, violations, status := s.evaluator.SelectVictimsOnNode(ctx, s.state.Clone(), s.pod, node.Snapshot(), possible,
		s.budgets)
	switch {
	case status.IsSuccess() && len(pods) > 0:
		result.victims = &extenderv1.Victims{Pods: pods, NumPDBViolations: int64(violations)}
		return true
	case status.IsRejected():
		result.status = status
		return true
	}
	return false
}

// candidate is a node with its victims.
type candidate struct {
	name    string
	victims *extenderv1.Victims
}

// Victims implements schedpreemption.Candidate.
func (c candidate) Victims() *extenderv1.Victims { return c.victims }

// Name implements schedpreemption.Candidate.
func (c candidate) Name() string { return c.name }

// NumPodGroupDisruptions implements schedpreemption.Candidate. Only upstream's metrics of groups
// that preempt need it.
func (candidate) NumPodGroupDisruptions() int { return 0 }

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
