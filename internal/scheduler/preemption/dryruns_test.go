// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// countedDryRuns counts the dry runs of an evaluator.
type countedDryRuns struct {
	schedpreemption.Interface
	runs atomic.Int32
}

func (c *countedDryRuns) SelectVictimsOnNode(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
	possible []*schedpreemption.DomainVictim, budgets []*policyv1.PodDisruptionBudget,
) ([]*corev1.Pod, int, *fwk.Status) {
	c.runs.Add(1)
	return c.Interface.SelectVictimsOnNode(ctx, state, pod, node, possible, budgets)
}

// crowd is a cluster of full nodes.
type crowd struct {
	*environment
	*rand.Rand
	runs  *countedDryRuns
	nodes []string
	made  int
	// residents are the pods on the nodes, except for one pod at the bottom of each node, which is
	// never preempted.
	residents []*corev1.Pod
	// namespaces are those of the pods on the nodes.
	namespaces []string
	// pdbs are the budgets. Informers know none.
	pdbs map[types.NamespacedName]*policyv1.PodDisruptionBudget
	// grouped means that pods are in groups, which are evicted as a whole at times.
	grouped bool
}

func newCrowd(t *testing.T, nodes int) *crowd {
	c := &crowd{environment: newEnvironment(t), Rand: rand.New(rand.NewPCG(20261122, 0)),
		namespaces: []string{namespace}, pdbs: map[types.NamespacedName]*policyv1.PodDisruptionBudget{}}
	evaluator := c.plugin.Evaluator
	c.runs = &countedDryRuns{Interface: evaluator.Interface}
	evaluator.Interface = c.runs
	for i := range nodes {
		c.nodes = append(c.nodes, fmt.Sprintf("n%d", i))
		c.addNode(c.nodes[i])
		c.add(c.nodes[i], 1000, "400m")
	}
	return c
}

// add puts a pod on a node.
func (c *crowd) add(node string, priority int32, cpu string) *corev1.Pod {
	c.made++
	name := fmt.Sprintf("resident-%d", c.made)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pick(c.Rand, c.namespaces...), Name: name, UID: types.UID(name),
			Labels: map[string]string{"app": pick(c.Rand, "a", "b")}},
		Spec: corev1.PodSpec{NodeName: node, Priority: &priority,
			Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}}},
		Status: corev1.PodStatus{StartTime: c.startTime()},
	}
	if c.grouped {
		pod.Labels[podgroup.Label] = pick(c.Rand, "g1", "g2", "g3", "")
	}
	must(c.t, c.cache.AddPod(logr.Discard(), pod))
	return pod
}

// setWhole makes a group one that is evicted as a whole, or as single pods.
func (c *crowd) setWhole(name string, whole bool) {
	c.groups.SetGroup(podgroup.Group{Key: podgroup.Key{Namespace: namespace, Name: name}, MinMember: 1,
		EvictedWhole: whole})
}

func (c *crowd) startTime() *metav1.Time {
	return &metav1.Time{Time: time.Unix(int64(c.IntN(1e6)), 0)}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// prepared returns a cycle state as the algorithm leaves it for a preemptor.
func (c *crowd) prepared(pod *corev1.Pod, version uint64) fwk.CycleState {
	c.t.Helper()
	return c.preparedOf(pod, 1, version)
}

// preparedOf is prepared for a pod of a class.
func (c *crowd) preparedOf(pod *corev1.Pod, class, version uint64) fwk.CycleState {
	c.t.Helper()
	must(c.t, c.cache.UpdateSnapshot(logr.Discard(), c.snapshot))
	state := schedframework.NewCycleState()
	if _, status, _ := c.framework.RunPreFilterPlugins(c.ctx, state, pod); !status.IsSuccess() {
		c.t.Fatalf("PreFilter: %v", status)
	}
	framework.WriteRefusals(state, &framework.Refusals{Class: class, Version: version})
	return state
}

// full returns statuses of nodes where preemption may help.
func (c *crowd) full(nodes []string) *schedframework.NodeToStatus {
	statuses := schedframework.NewDefaultNodeToStatus()
	for _, name := range nodes {
		statuses.Set(name, fwk.NewStatus(fwk.Unschedulable, "full"))
	}
	return statuses
}

// disturb changes something that a dry run depends on, or something like it on which it does not.
func (c *crowd) disturb() {
	node := pick(c.Rand, c.nodes...)
	if c.grouped && c.IntN(20) == 0 {
		c.setWhole(pick(c.Rand, "g1", "g2", "g3"), c.IntN(3) > 0)
	}
	switch n := c.IntN(100); {
	case n < 25:
		c.residents = append(c.residents, c.add(node, int32(c.IntN(4)), pick(c.Rand, "1m", "100m", "300m")))
	case n < 45 && len(c.residents) > len(c.nodes):
		i := c.IntN(len(c.residents))
		must(c.t, c.cache.RemovePod(logr.Discard(), c.residents[i]))
		c.residents = slices.Delete(c.residents, i, i+1)
	case n < 65 && len(c.residents) > 0:
		c.changeResident()
	case n < 70:
		c.made++
		name := fmt.Sprintf("nominated-%d", c.made)
		pod := c.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{SchedulerName: "mine"}})
		pod.Spec.Priority = ptr.To(int32(c.IntN(5)))
		info, err := schedframework.NewPodInfo(pod)
		must(c.t, err)
		c.queue.Nominator().AddNominatedPod(logr.Discard(), info,
			&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
	case n < 75:
		for _, name := range c.nodes {
			for _, nominated := range c.queue.Nominator().NominatedPodsForNode(name) {
				c.queue.Nominator().DeleteNominatedPodIfExists(nominated.GetPod())
			}
		}
	default:
		c.changeBudget()
	}
}

// changeResident changes the status of a pod on a node, the time of its start, or its labels.
func (c *crowd) changeResident() {
	i := c.IntN(len(c.residents))
	updated := c.residents[i].DeepCopy()
	switch c.IntN(4) {
	case 0:
		updated.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Reason: fmt.Sprint(c.Int())}}
	case 1:
		updated.Status.StartTime = c.startTime()
	case 2:
		updated.Status.StartTime = c.startTime()
		updated.Labels = nil
	default:
		updated.Labels = map[string]string{"app": pick(c.Rand, "a", "b")}
		if c.grouped {
			updated.Labels[podgroup.Label] = pick(c.Rand, "g1", "g2", "g3")
		}
	}
	must(c.t, c.cache.UpdatePod(logr.Discard(), c.residents[i], updated))
	c.residents[i] = updated
}

// changeBudget creates, changes or deletes a budget.
func (c *crowd) changeBudget() {
	key := types.NamespacedName{Namespace: pick(c.Rand, namespace, "other"), Name: pick(c.Rand, "p", "q", "r")}
	before := c.pdbs[key]
	if before == nil {
		c.made++
		created := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
			UID: types.UID(fmt.Sprintf("budget-%d", c.made))}}
		created.Spec.Selector = c.selector()
		created.Status.DisruptionsAllowed = int32(c.IntN(4))
		c.pdbs[key] = created
		c.budgets.OnAdd(created, false)
		return
	}
	now := before.DeepCopy()
	switch c.IntN(8) {
	case 0:
		delete(c.pdbs, key)
		c.budgets.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key.String(), Obj: before})
		return
	case 1:
		now.Spec.Selector = c.selector()
	case 2:
		now.Status.CurrentHealthy++
	case 3, 4:
		now.Status.DisruptedPods = map[string]metav1.Time{}
		for range c.IntN(3) {
			if len(c.residents) > 0 {
				now.Status.DisruptedPods[pick(c.Rand, c.residents...).Name] = metav1.Time{}
			}
		}
	default:
		now.Status.DisruptionsAllowed = int32(c.IntN(5) - 1)
	}
	c.pdbs[key] = now
	c.budgets.OnUpdate(before, now)
}

func (c *crowd) selector() *metav1.LabelSelector {
	return pick(c.Rand, nil, &metav1.LabelSelector{}, metav1.SetAsLabelSelector(map[string]string{"app": "a"}),
		metav1.SetAsLabelSelector(map[string]string{"app": "b"}))
}

// budget creates a budget.
func (c *crowd) budget(namespace string, selector *metav1.LabelSelector, allowed int32) types.NamespacedName {
	c.made++
	key := types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("budget-%d", c.made)}
	c.pdbs[key] = &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: key.Name, UID: types.UID(key.Name)},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
	c.budgets.OnAdd(c.pdbs[key], false)
	return key
}

// allBudgets returns the budgets as upstream needs them.
func (c *crowd) allBudgets() []*policyv1.PodDisruptionBudget {
	budgets := []*policyv1.PodDisruptionBudget{}
	for _, budget := range c.pdbs {
		budget = budget.DeepCopy()
		if s := budget.Spec.Selector; s != nil && len(s.MatchLabels) == 0 {
			s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "nobody",
				Operator: metav1.LabelSelectorOpDoesNotExist}}
		}
		budgets = append(budgets, budget)
	}
	slices.SortFunc(budgets, func(a, b *policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return budgets
}

// Whatever happens between preemptors, a remembered result equals that of a new dry run.
func TestCachedDryRunsMatchFreshOnes(t *testing.T) { cachedMatchFresh(t, newCrowd(t, 6), 1500) }

func TestCachedDryRunsMatchFreshOnesWithGroups(t *testing.T) {
	c := newCrowd(t, 6)
	c.grouped = true
	cachedMatchFresh(t, c, 300) // those of nodes with pods of whole groups are not
}

// cachedMatchFresh expects that so many dry runs are remembered.
func cachedMatchFresh(t *testing.T, c *crowd, least int) {
	t.Helper()
	c.namespaces = []string{namespace, "other"}
	potential := [][]string{c.nodes, c.nodes[1:]}
	full := []*schedframework.NodeToStatus{c.full(potential[0]), c.full(potential[1])}
	preemptors := []*corev1.Pod{c.pending(2), c.pending(3), c.pending(4)}
	chosen, refused, remembered := 0, 0, 0
	which := 0
	for step := range 2000 {
		for c.IntN(3) > 0 {
			c.disturb()
		}
		pod := pick(c.Rand, preemptors...)
		if c.IntN(8) == 0 {
			which = 1 - which
		}
		before := c.runs.runs.Load()
		state := c.preparedOf(pod, uint64(1+c.IntN(2)), uint64(1+which))
		statuses, nodes := full[which], potential[which]
		groups := c.plugin.finder.victims.current()
		search, err := c.plugin.finder.newSearch(state, pod, statuses, groups)
		must(t, err)
		slot, found, ok := search.choose(c.ctx)
		if !ok {
			t.Fatalf("step %d: a dry run failed", step)
		}
		remembered += len(nodes) - int(c.runs.runs.Load()-before)
		candidates := c.checkResults(step, search, nodes)
		if found != (len(candidates) > 0) {
			t.Fatalf("step %d: one is chosen: %v, of %d candidates", step, found, len(candidates))
		}
		if !found {
			refused++
			message := search.known.noCandidateMessage(search)
			_, want := c.plugin.preempt(c.ctx, state, pod, statuses, groups)
			if groups == nil {
				_, want = c.plugin.DefaultPreemption.PostFilter(c.ctx, state, pod, statuses)
			}
			if want.Code() != fwk.Unschedulable || message != want.Message() {
				t.Fatalf("step %d: there is nobody to preempt:\n got %q\nwant %q", step, message, want.Message())
			}
			continue
		}
		chosen++
		want := meritOf(c.plugin.Evaluator.SelectCandidate(c.ctx, candidates).Victims())
		if got := search.known.resultOn(slot).merit; got.compare(&want) != 0 {
			t.Fatalf("step %d: chosen is a node with %+v, the best has %+v", step, got, want)
		}
	}
	if chosen < 400 || refused < 50 || remembered < least {
		t.Errorf("%d times a node was chosen, %d times none, %d dry runs were remembered", chosen, refused, remembered)
	}
}

// checkResults compares the results that a search knows with those of new dry runs, and returns the
// candidates.
func (c *crowd) checkResults(step int, s *search, nodes []string) (candidates []schedpreemption.Candidate) {
	c.t.Helper()
	pdbs := c.allBudgets()
	for _, name := range nodes {
		slot, _ := c.snapshot.SlotOf(name)
		info := c.snapshot.Info(slot)
		possible, err := s.evaluator.GetVictimsOnNode(c.ctx, s.groups.forUpstream(info))
		must(c.t, err)
		pods, violations, status := s.evaluator.SelectVictimsOnNode(c.ctx, s.state.Clone(), s.pod, info.Snapshot(),
			possible, pdbs)
		known := s.known.resultOn(slot)
		switch {
		case known == nil:
			c.t.Fatalf("step %d: the result on %s is not known", step, name)
		case !status.IsSuccess():
			if known.victims != nil || known.status.Message() != status.Message() {
				c.t.Fatalf("step %d: %d pods of %s are remembered, and %v, but there is nobody to preempt: %v", step,
					len(known.victims), name, known.status, status)
			}
			continue
		}
		victims := &extenderv1.Victims{Pods: pods, NumPDBViolations: int64(violations)}
		if want := meritOf(victims); !slices.Equal(known.victims, refsTo(pods)) || known.merit != want {
			c.t.Fatalf("step %d: to be preempted on %s are\n%v, %+v, remembered is\n%v, %+v", step, name, refsTo(pods),
				want, known.victims, known.merit)
		}
		if got := s.podsOf(known); !slices.Equal(got, pods) {
			c.t.Fatalf("step %d: the victims on %s are other objects", step, name)
		}
		candidates = append(candidates, candidate{name, victims})
	}
	return candidates
}

// candidate is a node with its victims.
type candidate struct {
	name    string
	victims *extenderv1.Victims
}

func (c candidate) Victims() *extenderv1.Victims { return c.victims }
func (c candidate) Name() string                 { return c.name }
func (candidate) NumPodGroupDisruptions() int    { return 0 }

func TestPreemptorsOfAClassShareDryRunsOfUnchangedNodes(t *testing.T) {
	c := newCrowd(t, 20)
	for _, node := range c.nodes {
		c.residents = append(c.residents, c.add(node, 0, "600m"))
	}
	statuses := c.full(c.nodes)
	preempt := func() (node string, runs int32) {
		t.Helper()
		pod := c.pending(10)
		state, before := c.prepared(pod, 1), c.runs.runs.Load()
		result, status := c.framework.RunPostFilterPlugins(c.ctx, state, pod, statuses)
		if !status.IsSuccess() {
			t.Fatalf("preemption: %v", status)
		}
		c.ended()
		return result.NominatedNodeName, c.runs.runs.Load() - before
	}
	// All nodes are candidates: at least a hundred.
	node, runs := preempt()
	if runs != 21 {
		t.Errorf("for the first preemptor there were %d dry runs, want one on each of 20 nodes and another on the "+
			"one that is chosen", runs)
	}
	if _, runs := preempt(); runs != 1 {
		t.Errorf("for the second preemptor there were %d dry runs, want that on the node that is chosen", runs)
	}
	c.add(node, 5, "1m")
	if _, runs := preempt(); runs != 2 {
		t.Errorf("after one node has changed there were %d dry runs, want that and the one on the node that is chosen",
			runs)
	}
	// Without a version from the algorithm, nothing is remembered.
	pod := c.pending(10)
	must(t, c.cache.UpdateSnapshot(logr.Discard(), c.snapshot))
	state := schedframework.NewCycleState()
	if _, status, _ := c.framework.RunPreFilterPlugins(c.ctx, state, pod); !status.IsSuccess() {
		t.Fatal(status)
	}
	if node, message := c.plugin.chooseNode(c.ctx, state, pod, statuses, nil); node != nil || message != "" {
		t.Errorf("%v, %q for a pod of which nothing is known", node, message)
	}
}

func TestFailedPreemptionRunsNoDryRunUntilAChange(t *testing.T) {
	c := newCrowd(t, 3)
	for _, node := range c.nodes {
		c.add(node, 10, "600m")
	}
	pod := c.pending(10)
	for i, tt := range []struct {
		potential []string
		runs      int32
		want      string
	}{
		{c.nodes, 3, "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."},
		{c.nodes, 0, "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."},
		{c.nodes[:2], 0, "preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No " +
			"preemption victims found for incoming pod."},
	} {
		state, before := c.prepared(pod, uint64(1+i/2)), c.runs.runs.Load()
		if node, message := c.plugin.chooseNode(c.ctx, state, pod, c.full(tt.potential), nil); node != nil ||
			message != tt.want {
			t.Errorf("with %d nodes: %v, %q, want %q", len(tt.potential), node, message, tt.want)
		}
		if runs := c.runs.runs.Load() - before; runs != tt.runs {
			t.Errorf("with %d nodes there were %d dry runs, want %d", len(tt.potential), runs, tt.runs)
		}
	}
}
