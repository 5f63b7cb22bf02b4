// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/scheduler/simulate"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// important returns a pending pod that may preempt others.
func important(number int, cpu string) *corev1.Pod {
	p := pod("important", number, cpu, "1Mi")
	p.Spec.Priority = ptr.To[int32](100)
	return p
}

// pending selects the pods without a node.
func pending() simulate.Selection {
	return simulate.Selection{Type: v1alpha1.PodsPending, Limit: 10, Labels: labels.Everything()}
}

func TestPreemptionsAreCounted(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	c.node("b", "z", "p")
	for i := range 8 {
		p := pod("web", i, "2", "1Gi")
		if i%2 == 1 {
			p.Spec.Priority = ptr.To[int32](10) // those on b cost more
		}
		c.run(p, []string{"a", "b"}[i%2])
	}
	waiting := important(8, "4")
	run := func(r simulate.Request) v1alpha1.SimulationOutcome {
		r.Pending = []*corev1.Pod{waiting}
		return c.simulate(r).Current
	}
	got := run(simulate.Request{Pods: pending()})
	if got.Preemptions != 1 || got.Victims != 2 || len(got.VictimPods) != 2 || got.Unplaced != 0 ||
		got.PreemptionsLimited {
		t.Errorf("a pod that preempts two: %+v", got)
	}
	for _, victim := range got.VictimPods {
		if want := (v1alpha1.VictimPod{Namespace: "default", Name: victim.Name, Node: "a",
			PreemptorNamespace: "default", PreemptorName: "important-abc-8"}); victim != want {
			t.Errorf("got %+v, want %+v", victim, want)
		}
	}
	// Those that are decided again have no node then.
	got = run(simulate.Request{Pods: all()})
	if got.Preemptions != 1 || got.Victims != 2 || got.Unplaced != 2 ||
		got.UnplacedPods[0].Message != "Preempted by default/important-abc-8." {
		t.Errorf("all pods: %+v", got)
	}
	// A simulation in a namespace does not name pods of others.
	other := *waiting
	other.Namespace = "other"
	waiting = &other
	in := pending()
	in.Namespace = "other"
	if got := run(simulate.Request{Pods: in}); got.Preemptions != 1 || got.Victims != 2 || len(got.VictimPods) != 0 {
		t.Errorf("in a namespace: %+v", got)
	}
	never := other
	never.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	waiting = &never
	if got := run(simulate.Request{Pods: pending()}); got.Preemptions != 0 || got.Victims != 0 || got.Unplaced != 1 {
		t.Errorf("a pod that must not preempt: %+v", got)
	}
	member := other
	member.Labels = map[string]string{podgroup.Label: "group"}
	waiting = &member
	if got := run(simulate.Request{Pods: pending()}); got.Preemptions != 1 || got.Unplaced != 0 {
		t.Errorf("a pod that names a group where none are served: %+v", got)
	}
	waiting = important(9, "9")
	if got := run(simulate.Request{Pods: pending()}); got.Preemptions != 0 || got.Victims != 0 || got.Unplaced != 1 {
		t.Errorf("a pod that preemption does not help: %+v", got)
	}
}

func TestAProfileWithoutPreemptionPreemptsNothing(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	c.run(pod("web", 1, "8", "1Gi"), "a")
	without := resolved(t, `{"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}`)
	status := c.simulate(simulate.Request{
		Pods: pending(), Pending: []*corev1.Pod{important(2, "1")},
		Changes: map[string]*resolve.Profile{"mine": without},
	})
	if status.Current.Preemptions != 1 || status.New.Preemptions != 0 || status.New.Unplaced != 1 {
		t.Errorf("with preemption %+v, without %+v", status.Current, status.New)
	}
}

func TestPodsThatAreBeingDeletedAreNoVictims(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	ending := pod("web", 1, "8", "1Gi")
	ending.DeletionTimestamp = ptr.To(metav1.Now())
	c.run(ending, "a")
	got := c.simulate(simulate.Request{Pods: pending(), Pending: []*corev1.Pod{important(2, "1")}}).Current
	if got.Preemptions != 0 || got.Victims != 0 || got.Unplaced != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestPreemptionEndsNominationsOfLessImportantPods(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	c.run(pod("web", 1, "4", "1Mi"), "a")
	nominated := pod("nominated", 2, "2", "1Mi")
	nominated.Spec.Priority, nominated.Status.NominatedNodeName = ptr.To[int32](10), "a"
	c.must(c.objects.Put(nominated))
	info, err := schedframework.NewPodInfo(nominated)
	c.must(err)
	c.Queue.Nominator().AddNominatedPod(logr.Discard(), info, nil)
	late, chosen := pod("late", 4, "2", "1Mi"), pending()
	run := func(pods ...*corev1.Pod) v1alpha1.SimulationOutcome {
		return c.simulate(simulate.Request{Pods: chosen, Pending: pods}).Current
	}
	// 2 of 8 CPUs are free besides those of web and of the nominated pod.
	if got := run(late, pod("later", 5, "2", "1Mi")); got.Unplaced != 1 {
		t.Errorf("without preemption: %+v", got)
	}
	if got := run(important(3, "6"), late); got.Victims != 1 || got.Unplaced != 0 {
		t.Errorf("with preemption: %+v", got)
	}
	if got := run(late, pod("later", 5, "2", "1Mi")); got.Unplaced != 1 {
		t.Errorf("after the preemption: %+v", got)
	}
}

// crowd fills nodes with pods of different priorities, which were started one after the other.
func (c *cluster) crowd(random *rand.Rand, nodes int) {
	c.Helper()
	for i := range nodes {
		name := fmt.Sprintf("n%03d", i)
		c.node(name, fmt.Sprintf("z%d", i%3), "pool")
		for j := range 8 {
			p := randomPod(random, 8*i+j)
			p.Spec.Containers[0].Resources = objects.Requests(fmt.Sprintf("%dm", 700+random.IntN(300)), "1Gi")
			p.Spec.Priority = ptr.To(int32(random.IntN(4)))
			p.Status.StartTime = ptr.To(metav1.Unix(int64(1700000000+random.IntN(1e6)), 0))
			c.run(p, name)
		}
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app-0"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app-0"}}},
	}
	c.must(c.objects.Put(budget))
}

// TestPreemptionsAreThoseOfTheScheduler lets a simulation and the scheduler itself preempt for the
// same pod in the same cluster. The scheduler evicts its victims, which shows who they are; the
// simulation sends nothing.
func TestPreemptionsAreThoseOfTheScheduler(t *testing.T) {
	for _, path := range []sidebyside.Path{sidebyside.FastPath, sidebyside.ScalarPath} {
		t.Run(string(path), func(t *testing.T) {
			g := gomega.NewWithT(t)
			random := rand.New(rand.NewPCG(7, 7))
			c := newCluster(t, path)
			c.crowd(random, 30)
			preempted := 0
			for i := range 40 {
				p := randomPod(random, 1000+i)
				p.Spec.Containers[0].Resources = objects.Requests(fmt.Sprintf("%dm", 1000+random.IntN(4000)), "1Mi")
				p.Spec.Priority = ptr.To(int32(random.IntN(5)))
				c.must(c.objects.Put(p))
				got := c.simulate(simulate.Request{Pods: pending(), Pending: []*corev1.Pod{p}}).Current
				if writes := c.Requests.Take(); len(writes) != 0 {
					t.Fatalf("the simulation writes: %v", writes)
				}
				d := c.Decide(p)
				node := ""
				if d.Nominating != nil {
					node = d.Nominating.NominatedNodeName
				}
				if node == "" {
					if got.Preemptions != 0 {
						t.Errorf("%s preempts %+v, in the scheduler nothing", p.Name, got.VictimPods)
					}
					continue
				}
				preempted++
				var victims []string
				for _, victim := range got.VictimPods {
					victims = append(victims, "delete pods default/"+victim.Name)
					if victim.Node != node {
						t.Errorf("%s preempts pods on %s, in the scheduler on %s", p.Name, victim.Node, node)
					}
				}
				slices.Sort(victims)
				g.Eventually(c.Requests.Deleted).WithTimeout(time.Minute).Should(gomega.Equal(int(got.Victims)))
				evicted := slices.DeleteFunc(c.Requests.Take(),
					func(write string) bool { return !strings.HasPrefix(write, "delete") })
				if diff := cmp.Diff(evicted, victims); diff != "" {
					t.Errorf("%s: victims (-scheduler +simulation): %s", p.Name, diff)
				}
			}
			if preempted < 10 {
				t.Errorf("only %d of the pods preempt others", preempted)
			}
		})
	}
}

// TestPreemptionsAreReproducible decides pods again that preempt each other, twice.
func TestPreemptionsAreReproducible(t *testing.T) {
	for _, path := range []sidebyside.Path{sidebyside.FastPath, sidebyside.ScalarPath} {
		t.Run(string(path), func(t *testing.T) {
			random := rand.New(rand.NewPCG(8, 8))
			c := newCluster(t, path)
			c.crowd(random, 12)
			var waiting []*corev1.Pod
			for i := range 30 {
				p := randomPod(random, 1000+i)
				p.Spec.Containers[0].Resources = objects.Requests("2", "1Mi")
				p.Spec.Priority = ptr.To(int32(random.IntN(6)))
				waiting = append(waiting, p)
			}
			same := *c.Profile.Config
			r := simulate.Request{Pods: all(), Pending: waiting, Changes: map[string]*resolve.Profile{"mine": &same}}
			status := c.simulate(r)
			if status.Current.Preemptions < 5 || status.Current.Victims < status.Current.Preemptions {
				t.Errorf("the pods should preempt others: %+v", status.Current)
			}
			current := status.Current
			current.Moved, current.MovedByOwner = 0, nil // compared with where the pods are
			if diff := cmp.Diff(current, *status.New); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(status, c.simulate(r)); diff != "" {
				t.Errorf("a second simulation differs: %s", diff)
			}
		})
	}
}
