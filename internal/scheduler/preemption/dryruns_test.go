// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	// nominees are pods to nominate.
	nominees []*corev1.Pod
	// version counts the replaced nodes.
	version uint64
	// grouped means that pods are in groups, which are evicted as a whole at times.
	grouped bool
}

func newCrowd(t testing.TB, nodes int) *crowd {
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

// prepared returns a cycle state as the algorithm leaves it for a preemptor: PreFilter is deferred.
func (c *crowd) prepared(pod *corev1.Pod, version uint64) fwk.CycleState {
	c.t.Helper()
	return c.preparedOf(pod, 1, version)
}

// preparedOf is prepared for a pod of a class.
func (c *crowd) preparedOf(pod *corev1.Pod, class, version uint64) fwk.CycleState {
	c.t.Helper()
	must(c.t, c.cache.UpdateSnapshot(logr.Discard(), c.snapshot))
	state := schedframework.NewCycleState()
	c.framework.DeferPreFilter(state, pod)
	framework.WriteRefusals(state, &framework.Refusals{Class: class, Version: version})
	return state
}

// preFilterHasRun reports whether the plugins have written to a state for which PreFilter was
// deferred.
func preFilterHasRun(state fwk.CycleState) bool {
	_, err := state.Read("PreFilterNodeResourcesFit")
	return err == nil
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
	case n < 20:
		c.residents = append(c.residents, c.add(node, int32(c.IntN(4)), pick(c.Rand, "1m", "100m", "300m")))
	case n < 40 && len(c.residents) > len(c.nodes):
		i := c.IntN(len(c.residents))
		must(c.t, c.cache.RemovePod(logr.Discard(), c.residents[i]))
		c.residents = slices.Delete(c.residents, i, i+1)
	case n < 60 && len(c.residents) > 0:
		c.changeResident()
	case n < 75:
		c.nominate(node)
	case n < 77:
		for _, name := range c.nodes {
			for _, nominated := range c.queue.Nominator().NominatedPodsForNode(name) {
				c.queue.Nominator().DeleteNominatedPodIfExists(nominated.GetPod())
			}
		}
	case n < 80:
		c.replaceNode(c.IntN(len(c.nodes)))
	default:
		c.changeBudget()
		if c.IntN(20) == 0 { // this change is not known any more, nor those before
			c.budgets.changes.Cut()
		}
	}
}

// nominate nominates a pod of any priority for a node. It may have been nominated for another one.
func (c *crowd) nominate(node string) {
	c.t.Helper()
	if len(c.nominees) < 8 {
		c.made++
		c.nominees = append(c.nominees, c.create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("nominated-%d", c.made)},
			Spec:       corev1.PodSpec{SchedulerName: "mine"}}))
	}
	pod := pick(c.Rand, c.nominees...).DeepCopy()
	pod.Spec.Priority = new(int32(c.IntN(5)))
	requests := pod.Spec.Containers[0].Resources.Requests
	// A preemptor has room beside the first of these, and beside none of the others.
	requests[corev1.ResourceCPU] = resource.MustParse(pick(c.Rand, "0", "1m", "600m"))
	info, err := schedframework.NewPodInfo(pod)
	must(c.t, err)
	c.queue.Nominator().AddNominatedPod(logr.Discard(), info,
		&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
}

// replaceNode puts a node with another name in the place of one, and its pods on it.
func (c *crowd) replaceNode(i int) {
	c.t.Helper()
	before := c.nodes[i]
	info, err := c.snapshot.Get(before)
	must(c.t, err)
	must(c.t, c.cache.RemoveNode(logr.Discard(), info.Node()))
	c.made++
	c.nodes[i] = fmt.Sprintf("n%d", c.made)
	for _, on := range c.residents {
		if on.Spec.NodeName == before {
			must(c.t, c.cache.RemovePod(logr.Discard(), on))
		}
	}
	c.residents = slices.DeleteFunc(c.residents, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == before })
	c.addNode(c.nodes[i])
	c.add(c.nodes[i], 1000, "400m")
	c.version++
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
	switch c.IntN(10) {
	case 0:
		delete(c.pdbs, key)
		c.budgets.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key.String(), Obj: before})
		return
	case 1, 5, 6:
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
	return pick(c.Rand, nil, &metav1.LabelSelector{}, app("c"),
		metav1.SetAsLabelSelector(map[string]string{"app": "a"}),
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
		state := c.preparedOf(pod, uint64(1+c.IntN(2)), 2*c.version+uint64(1+which))
		nodes := potential[which]
		statuses := c.full(nodes)
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
				must(t, framework.RunDeferredPreFilter(c.ctx, state))
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

// TestNominationsAreReadAgainAfterManyPriorities moves a nominated pod to another node. In between,
// what was known about nominations is forgotten, because pods of many priorities came.
func TestNominationsAreReadAgainAfterManyPriorities(t *testing.T) {
	c := newCrowd(t, 2)
	for _, node := range c.nodes {
		c.residents = append(c.residents, c.add(node, 0, "100m"))
	}
	preemptor, nominee := c.pending(2), c.pending(4)
	info, err := schedframework.NewPodInfo(nominee)
	must(t, err)
	for step, node := range c.nodes {
		c.queue.Nominator().AddNominatedPod(logr.Discard(), info,
			&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
		search, err := c.plugin.finder.newSearch(c.prepared(preemptor, 1), preemptor, c.full(c.nodes), nil)
		must(t, err)
		if _, found, ok := search.choose(c.ctx); !found || !ok {
			t.Fatalf("step %d: no node is chosen: %v, %v", step, found, ok)
		}
		c.checkResults(step, search, c.nodes)
		for priority := range int32(20) {
			other := preemptor.DeepCopy()
			other.Spec.Priority = new(100 + priority)
			search.nominations.Read(search.nominator, other)
		}
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
		must(c.t, framework.RunDeferredPreFilter(c.ctx, s.state))
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
		if ran := preFilterHasRun(state); ran != (tt.runs > 0) {
			t.Errorf("with %d nodes and %d dry runs PreFilter has run: %v", len(tt.potential), tt.runs, ran)
		}
	}
}

// TestDryRunsPerPreemptor bounds the dry runs of a preemptor by the nodes that have changed in a
// way that may change a result, and one on the node that is chosen, whatever else happens.
func TestDryRunsPerPreemptor(t *testing.T) {
	// status changes the status of every pod, but not when it was started.
	status := func(c *crowd) {
		for i, pod := range c.residents {
			now := pod.DeepCopy()
			now.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Reason: fmt.Sprint(c.Int())}}
			must(c.t, c.cache.UpdatePod(logr.Discard(), pod, now))
			c.residents[i] = now
		}
	}
	allow := func(c *crowd, key types.NamespacedName, allowed int32, disrupted ...string) {
		now := c.pdbs[key].DeepCopy()
		now.Status.DisruptionsAllowed, now.Status.DisruptedPods = allowed, map[string]metav1.Time{}
		for _, name := range disrupted {
			now.Status.DisruptedPods[name] = metav1.Time{}
		}
		c.budgets.OnUpdate(c.pdbs[key], now)
		c.pdbs[key] = now
	}
	const nodes, classes = 20, 8
	for name, tt := range map[string]struct {
		// change happens before each preemptor, with the budgets of all pods, of those on the first
		// node, of no pod, and of another namespace.
		change func(c *crowd, budgets []types.NamespacedName)
		runs   int32
	}{
		"quiet":          {func(*crowd, []types.NamespacedName) {}, 1},
		"status of pods": {func(c *crowd, _ []types.NamespacedName) { status(c) }, 1},
		"a budget allows enough": {func(c *crowd, of []types.NamespacedName) {
			allow(c, of[0], 5+int32(c.IntN(9)))
		}, 1},
		"an unknown pod is disrupted": {func(c *crowd, of []types.NamespacedName) {
			allow(c, of[0], 9, fmt.Sprint(c.Int()))
		}, 1},
		"the budget of a node": {func(c *crowd, of []types.NamespacedName) {
			allow(c, of[1], int32(c.IntN(2)))
		}, 2},
		"the budget of no pod": {func(c *crowd, of []types.NamespacedName) {
			allow(c, of[2], int32(c.IntN(9)))
		}, 1},
		"the budget of another namespace": {func(c *crowd, of []types.NamespacedName) {
			allow(c, of[3], int32(c.IntN(9)))
		}, 1},
		"a new budget of no pod": {func(c *crowd, _ []types.NamespacedName) {
			c.budget(namespace, app("x"), 0)
		}, 1},
		"a new budget of another namespace": {func(c *crowd, _ []types.NamespacedName) {
			c.budget("other", &metav1.LabelSelector{}, 0)
		}, 1},
		"a node": {func(c *crowd, _ []types.NamespacedName) { c.add(pick(c.Rand, c.nodes...), 5, "1m") }, 1 + classes},
		"a start": {func(c *crowd, _ []types.NamespacedName) {
			i := c.IntN(len(c.residents))
			now := c.residents[i].DeepCopy()
			now.Status.StartTime = c.startTime()
			must(c.t, c.cache.UpdatePod(logr.Discard(), c.residents[i], now))
			c.residents[i] = now
		}, 1 + classes},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, nodes)
			for _, node := range c.nodes {
				pod := c.add(node, 0, "600m").DeepCopy()
				pod.Labels = map[string]string{"app": node, "all": ""}
				must(t, c.cache.UpdatePod(logr.Discard(), pod, pod))
				c.residents = append(c.residents, pod)
			}
			budgets := []types.NamespacedName{
				c.budget(namespace, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "all", Operator: metav1.LabelSelectorOpExists}}}, 5),
				c.budget(namespace, app(c.nodes[0]), 1), c.budget(namespace, app("nobody"), 1),
				c.budget("other", &metav1.LabelSelector{}, 1),
			}
			c.evictor.mu.Lock()
			c.evictor.closed = true // nothing is evicted
			c.evictor.mu.Unlock()
			pod := c.pending(10)
			for i := range 5 * classes {
				if i >= classes {
					tt.change(c, budgets)
				}
				state, before := c.preparedOf(pod, uint64(1+i%classes), 1), c.runs.runs.Load()
				if _, status := c.plugin.PostFilter(c.ctx, state, pod, c.full(c.nodes)); !status.IsSuccess() {
					t.Fatal(status)
				}
				if runs := c.runs.runs.Load() - before; i >= classes && runs > tt.runs {
					t.Fatalf("%d dry runs for preemptor %d, want at most %d", runs, i, tt.runs)
				}
			}
		})
	}
}

// Classes in turn that do not all fit into the memory are found at times, and no more memory is
// used than is allowed.
func TestDryRunsOfManyClasses(t *testing.T) {
	c := newCrowd(t, 20)
	for _, node := range c.nodes {
		c.add(node, 0, "600m")
	}
	pod := c.pending(10)
	one := 0
	known, preemptors := 0, 0
	dryRuns := c.evictor.dryRuns
	for i := range 400 {
		state, before := c.preparedOf(pod, uint64(1+i%10), 1), c.runs.runs.Load()
		if node, _ := c.plugin.chooseNode(c.ctx, state, pod, c.full(c.nodes), nil); node == nil {
			t.Fatal("no node is chosen")
		}
		if i == 0 {
			one = dryRuns.bytes
			dryRuns.limit = 8 * one
		}
		if dryRuns.bytes > dryRuns.limit || len(dryRuns.classes) != len(dryRuns.keys) ||
			dryRuns.bytes != one*len(dryRuns.keys) {
			t.Fatalf("%d classes take %d bytes, one took %d, allowed are %d", len(dryRuns.classes), dryRuns.bytes, one,
				dryRuns.limit)
		}
		if preemptors++; c.runs.runs.Load() == before {
			known++
		}
	}
	if known < preemptors/4 {
		t.Errorf("of %d preemptors of 10 classes, of which 8 fit into the memory, %d needed no dry run",
			preemptors, known)
	}
}

// A node that is gone is not looked at, even if the statuses are said to be the same.
func TestDryRunsAfterANodeIsGone(t *testing.T) {
	c := newCrowd(t, 3)
	for i, node := range c.nodes {
		c.add(node, int32(i), "600m")
	}
	pod := c.pending(10)
	for _, want := range c.nodes[:2] {
		node, _ := c.plugin.chooseNode(c.ctx, c.prepared(pod, 1), pod, c.full(c.nodes), nil)
		if node == nil || node.Node().Name != want {
			t.Fatalf("chosen is %v, want %s", node, want)
		}
		must(t, c.cache.RemoveNode(logr.Discard(), node.Node()))
	}
}

// After more changes than the logs keep, all results are forgotten.
func TestDryRunsAfterManyChanges(t *testing.T) {
	c := newCrowd(t, 2)
	for _, node := range c.nodes {
		c.add(node, 0, "600m")
	}
	pod := c.pending(10)
	runs := func() int32 {
		t.Helper()
		state, before := c.prepared(pod, 1), c.runs.runs.Load()
		if node, _ := c.plugin.chooseNode(c.ctx, state, pod, c.full(c.nodes), nil); node == nil {
			t.Fatal("no node is chosen")
		}
		return c.runs.runs.Load() - before
	}
	resident := c.add("n0", 1, "1m")
	many := func(change func()) {
		for i := range 20_000 {
			if change(); i%100 == 0 {
				must(t, c.cache.UpdateSnapshot(logr.Discard(), c.snapshot))
			}
		}
	}
	if first, second := runs(), runs(); first != 2 || second != 0 {
		t.Fatalf("%d dry runs for the first preemptor, %d for the second", first, second)
	}
	many(func() {
		now := resident.DeepCopy()
		now.Status.StartTime = c.startTime()
		must(t, c.cache.UpdatePod(logr.Discard(), resident, now))
		resident = now
	})
	if got := runs(); got != 2 {
		t.Errorf("%d dry runs after many starts", got)
	}
	many(func() {
		must(t, c.cache.RemovePod(logr.Discard(), resident))
		must(t, c.cache.AddPod(logr.Discard(), resident))
	})
	if got := runs(); got != 2 {
		t.Errorf("%d dry runs after many changes", got)
	}
}

// The evictions that a group has planned count against budgets when it chooses again.
func TestDryRunsAfterPlannedEvictions(t *testing.T) {
	c := newCrowd(t, 3)
	for i, node := range c.nodes {
		pod := c.add(node, []int32{0, 0, 5}[i], "600m").DeepCopy()
		pod.Labels = map[string]string{"app": []string{"a", "a", "b"}[i]}
		must(t, c.cache.UpdatePod(logr.Discard(), pod, pod))
	}
	c.budget(namespace, app("a"), 1)
	pod := c.pending(10)
	trial := c.plugin.VictimsFor(func(podgroup.Key) bool { return false }).NewTrial(func(int) int { return 0 }, 100)
	for _, want := range []string{"n0 n1", "n2"} {
		choice, err := trial.Choose(c.ctx, c.prepared(pod, 1), pod, c.full(c.nodes))
		must(t, err)
		if choice == nil || !strings.Contains(want, choice.Node) {
			t.Fatalf("chosen is %+v, want %s", choice, want)
		}
		must(t, c.cache.RemovePod(logr.Discard(), choice.Victims[0]))
	}
}
