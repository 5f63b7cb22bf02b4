// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
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
	// grouped means that pods are in groups, which are evicted as a whole at times.
	grouped bool
}

func newCrowd(t *testing.T, nodes int) *crowd {
	c := &crowd{environment: newEnvironment(t), Rand: rand.New(rand.NewPCG(20261122, 0))}
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
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name),
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
	must(c.t, c.cache.UpdateSnapshot(logr.Discard(), c.snapshot))
	state := schedframework.NewCycleState()
	if _, status, _ := c.framework.RunPreFilterPlugins(c.ctx, state, pod); !status.IsSuccess() {
		c.t.Fatalf("PreFilter: %v", status)
	}
	framework.WriteRefusals(state, &framework.Refusals{Class: 1, Version: version})
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

// disturb changes something that a dry run depends on.
func (c *crowd) disturb(budgets []*policyv1.PodDisruptionBudget) {
	node := pick(c.Rand, c.nodes...)
	if c.grouped && c.IntN(20) == 0 {
		c.setWhole(pick(c.Rand, "g1", "g2", "g3"), c.IntN(3) > 0)
	}
	switch n := c.IntN(100); {
	case n < 35:
		c.residents = append(c.residents, c.add(node, int32(c.IntN(4)), pick(c.Rand, "1m", "100m", "300m")))
	case n < 60 && len(c.residents) > len(c.nodes):
		i := c.IntN(len(c.residents))
		must(c.t, c.cache.RemovePod(logr.Discard(), c.residents[i]))
		c.residents = slices.Delete(c.residents, i, i+1)
	case n < 80 && len(c.residents) > 0:
		i := c.IntN(len(c.residents))
		updated := c.residents[i].DeepCopy()
		if updated.Status.StartTime = c.startTime(); c.IntN(3) == 0 {
			updated.Labels["app"] = pick(c.Rand, "a", "b")
		}
		must(c.t, c.cache.UpdatePod(logr.Discard(), c.residents[i], updated))
		c.residents[i] = updated
	case n < 90:
		c.made++
		name := fmt.Sprintf("nominated-%d", c.made)
		pod := c.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{SchedulerName: "mine"}})
		pod.Spec.Priority = ptr.To(int32(c.IntN(5)))
		info, err := schedframework.NewPodInfo(pod)
		must(c.t, err)
		c.queue.Nominator().AddNominatedPod(logr.Discard(), info,
			&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
	case n < 95:
		for _, name := range c.nodes {
			for _, nominated := range c.queue.Nominator().NominatedPodsForNode(name) {
				c.queue.Nominator().DeleteNominatedPodIfExists(nominated.GetPod())
			}
		}
	default:
		c.allow(pick(c.Rand, budgets...), int32(c.IntN(3)))
	}
}

// allow sets the disruptions that a budget allows, and waits until the informer has the change.
func (c *crowd) allow(budget *policyv1.PodDisruptionBudget, disruptions int32) {
	budget.Status.DisruptionsAllowed = disruptions
	updated, err := c.admin.PolicyV1().PodDisruptionBudgets(namespace).
		UpdateStatus(c.ctx, budget, metav1.UpdateOptions{})
	must(c.t, err)
	*budget = *updated
	c.knows(budget)
}

func (c *crowd) knows(budget *policyv1.PodDisruptionBudget) {
	eventually(c.t, func() bool {
		known, err := c.plugin.Evaluator.PdbLister.PodDisruptionBudgets(namespace).Get(budget.Name)
		return err == nil && known.ResourceVersion == budget.ResourceVersion
	}).Should(gomega.BeTrue())
}

// budget creates a budget for the pods of an app.
func (c *crowd) budget(app string) *policyv1.PodDisruptionBudget {
	budgets := c.admin.PolicyV1().PodDisruptionBudgets(namespace)
	budget, err := budgets.Create(c.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{GenerateName: app + "-"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}, metav1.CreateOptions{})
	must(c.t, err)
	c.t.Cleanup(func() { must(c.t, budgets.Delete(context.Background(), budget.Name, metav1.DeleteOptions{})) })
	c.knows(budget)
	return budget
}

// Whatever happens between preemptors, a remembered result equals that of a new dry run.
func TestCachedDryRunsMatchFreshOnes(t *testing.T) { cachedMatchFresh(t, newCrowd(t, 6), 500) }

func TestCachedDryRunsMatchFreshOnesWithGroups(t *testing.T) {
	c := newCrowd(t, 6)
	c.grouped = true
	cachedMatchFresh(t, c, 100) // those of nodes with pods of whole groups are not
}

// cachedMatchFresh expects that so many dry runs are remembered.
func cachedMatchFresh(t *testing.T, c *crowd, least int) {
	t.Helper()
	budgets := []*policyv1.PodDisruptionBudget{c.budget("a"), c.budget("b")}
	potential := [][]string{c.nodes, c.nodes[1:3]}
	full := []*schedframework.NodeToStatus{c.full(potential[0]), c.full(potential[1])}
	preemptors := []*corev1.Pod{c.pending(2), c.pending(3), c.pending(4)}
	chosen, refused, remembered := 0, 0, 0
	for step := range 500 {
		for c.IntN(3) > 0 {
			c.disturb(budgets)
		}
		pod := pick(c.Rand, preemptors...)
		which, before := c.IntN(2), c.runs.runs.Load()
		state := c.prepared(pod, uint64(1+which))
		statuses, nodes := full[which], potential[which]
		groups := c.plugin.finder.victims.current()
		node, message := c.plugin.chooseNode(c.ctx, state, pod, statuses, groups)
		remembered += len(nodes) - int(c.runs.runs.Load()-before)
		pdbs, err := c.plugin.Evaluator.PdbLister.PodDisruptionBudgets(namespace).List(labels.Everything())
		must(t, err)
		known := c.plugin.finder.dryRuns.classes[0].byNode
		evaluator := c.plugin.finder.evaluatorFor(c.plugin.Evaluator, groups)
		var candidates []schedpreemption.Candidate
		for _, name := range nodes {
			info, err := c.snapshot.Get(name)
			must(t, err)
			possible, err := evaluator.GetVictimsOnNode(c.ctx, groups.forUpstream(info))
			must(t, err)
			pods, violations, status := evaluator.SelectVictimsOnNode(c.ctx, state.Clone(), pod, info.Snapshot(),
				possible, pdbs)
			got := known[name].victims
			switch {
			case !status.IsSuccess():
				if got != nil {
					t.Fatalf("step %d: %d pods of %s are remembered, there is nobody to preempt: %v", step,
						len(got.Pods), name, status)
				}
			case got == nil || !slices.Equal(got.Pods, pods) || got.NumPDBViolations != int64(violations):
				t.Fatalf("step %d, %s: to be preempted are %d pods with %d violations, remembered is something else "+
					"(nothing: %v)",
					step, name, len(pods), violations, got == nil)
			default:
				candidates = append(candidates, candidate{name, got})
			}
		}
		if (node == nil) != (len(candidates) == 0) {
			t.Fatalf("step %d: chosen is %v of %d candidates", step, node, len(candidates))
		}
		if node == nil {
			refused++
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
		want := c.plugin.Evaluator.SelectCandidate(c.ctx, candidates).Victims()
		if got := known[node.Node().Name].victims; rank(got) != rank(want) {
			t.Fatalf("step %d: chosen is a node of rank %v, the best is %v", step, rank(got), rank(want))
		}
	}
	if chosen < 100 || refused < 20 || remembered < least {
		t.Errorf("%d times a node was chosen, %d times none, %d dry runs were remembered", chosen, refused, remembered)
	}
}

// rank returns what nodes are compared by, except what depends on the order of victims.
func rank(victims *extenderv1.Victims) [3]int64 {
	var sum int64
	for _, pod := range victims.Pods {
		sum += int64(*pod.Spec.Priority)
	}
	return [3]int64{victims.NumPDBViolations, sum, int64(len(victims.Pods))}
}

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
