// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// spy is a plugin that remembers the nodes that passed all filters.
type spy struct{ nodes []fwk.NodeInfo }

const spyName = "Spy"

func (*spy) Name() string { return spyName }

func (s *spy) PreScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	s.nodes = slices.Clone(nodes)
	return fwk.NewStatus(fwk.Skip)
}

func (s *spy) registry() framework.Registry {
	return framework.Registry{spyName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return s,
			nil
	}}
}

// witness wraps the plugin of a preemption evaluator. It fixes the node at which dry runs begin,
// which is otherwise random, and records what was found.
type witness struct {
	preemption.Interface
	evaluator *preemption.Evaluator
	offset    int32

	mu sync.Mutex // guards the maps of preempted while dry runs are made
	preempted
}

// preempted records one preemption.
type preempted struct {
	// potential is the number of nodes that were searched for victims, wanted the number of
	// candidates that suffice.
	potential, wanted int32
	// dryRuns has the result of each dry run.
	dryRuns map[string]string
	// candidates is empty if there was only one.
	candidates []candidate
	// found are the victims by node.
	found map[string][]*corev1.Pod
}

// running returns the number of a node's victims that must be evicted.
func (p *preempted) running(node string) (n int) {
	for _, victim := range p.found[node] {
		if victim.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// candidate is a node with its victims, the most important one first.
type candidate struct {
	node string
	*extenderv1.Victims
}

func (c candidate) String() string {
	text := fmt.Sprintf("%s, %d violations:", c.node, c.NumPDBViolations)
	for _, pod := range c.Pods {
		text += " " + pod.Name
	}
	return text
}

// witnessOf makes the plugin's evaluator use a witness.
func witnessOf(pl *defaultpreemption.DefaultPreemption, offset int32) *witness {
	w := &witness{Interface: pl, offset: offset}
	w.evaluator = preemption.NewEvaluator(pl.Name(), pl.Evaluator.Handler, w, pl.Executor)
	pl.Evaluator = w.evaluator
	return w
}

func (w *witness) reset() {
	w.preempted = preempted{dryRuns: map[string]string{}, found: map[string][]*corev1.Pod{}}
}

// dryRunNodes returns the nodes with dry runs, sorted.
func (p *preempted) dryRunNodes() []string { return slices.Sorted(maps.Keys(p.dryRuns)) }

func (w *witness) GetOffsetAndNumCandidates(nodes int32) (offset, candidates int32) {
	_, candidates = w.Interface.GetOffsetAndNumCandidates(nodes)
	w.potential, w.wanted = nodes, candidates
	return w.offset % nodes, candidates
}

func (w *witness) SelectVictimsOnNode(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
	possible []*preemption.DomainVictim, budgets []*policyv1.PodDisruptionBudget,
) ([]*corev1.Pod, int, *fwk.Status) {
	budgets = slices.Clone(budgets)
	// Their order matters, and lists have none.
	slices.SortFunc(budgets, func(a, b *policyv1.PodDisruptionBudget) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, victim := range possible { // so does that of the pods of a group
		slices.SortFunc(victim.Pods(), func(a, b fwk.PodInfo) int {
			return strings.Compare(a.GetPod().Name, b.GetPod().Name)
		})
	}
	victims, violations, status := w.Interface.SelectVictimsOnNode(ctx, state, pod, node, possible, budgets)
	name := node.Node().Name
	text := describe(status)
	if status.IsSuccess() {
		text = candidate{name, &extenderv1.Victims{Pods: victims, NumPDBViolations: int64(violations)}}.String()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dryRuns[name], w.found[name] = text, victims
	return victims, violations, status
}

// rehearsal is a dry run on the potential nodes, sorted by name; a preemption takes them in no
// order.
type rehearsal struct {
	candidates []candidate
	statuses   *schedframework.NodeToStatus
	err        error
	chosen     candidate
}

func (w *witness) rehearse(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, fitError *schedframework.FitError,
	budgets []*policyv1.PodDisruptionBudget,
) (r rehearsal, err error) {
	potential, err := fitError.Diagnosis.NodeToStatus.NodesForStatusCode(w.evaluator.Handler.SnapshotSharedLister().
		NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return r, err
	}
	offset, wanted := w.GetOffsetAndNumCandidates(int32(len(potential)))
	found, statuses, err := w.evaluator.DryRunPreemption(ctx, state, pod, inOrder(potential), budgets, offset, wanted)
	r.statuses, r.err = statuses, err
	for _, c := range found {
		r.candidates = append(r.candidates, candidate{c.Name(), c.Victims()})
	}
	if best := w.evaluator.SelectCandidate(ctx, found); best != nil {
		r.chosen = candidate{best.Name(), best.Victims()}
	}
	return r, nil
}

// CandidatesToVictimsMap receives all candidates, in order, when there is a choice.
func (w *witness) CandidatesToVictimsMap(candidates []preemption.Candidate) map[string]*extenderv1.Victims {
	w.candidates = nil
	for _, c := range candidates {
		w.candidates = append(w.candidates, candidate{c.Name(), c.Victims()})
	}
	return w.Interface.CandidatesToVictimsMap(candidates)
}

func describe(s *fwk.Status) string {
	if s.IsSuccess() {
		return "Success"
	}
	// NodeResourcesFit lists the insufficient scalar resources in no order.
	return fmt.Sprintf("%s %q %q", s.Code(), s.Plugin(), slices.Sorted(slices.Values(s.Reasons())))
}
