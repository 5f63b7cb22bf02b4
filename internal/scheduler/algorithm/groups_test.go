// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/test/workload"
)

// alike is a cluster of equal nodes, in which both paths must agree about pods.
type alike struct {
	*world
	profile Params
}

func newAlike(t *testing.T, nodes int) *alike {
	w := newWorld(t, 1, 0)
	for i := range nodes {
		node := workload.Node(i)
		w.nodes = append(w.nodes, node)
		w.cache.AddNode(klog.FromContext(w.ctx), node)
	}
	w.setNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	return &alike{world: w, profile: w.profile("mine", func(*schedconfig.KubeSchedulerProfile) {})}
}

// agree makes both paths decide about a pod often enough for groups to exist, and returns the
// number of nodes that fit.
func (a *alike) agree(pod *corev1.Pod) int {
	a.t.Helper()
	var fast outcome
	for range 3 {
		a.must(a.cache.UpdateSnapshot(klog.FromContext(a.ctx), a.snapshot))
		fast = a.ours.tryFast(a.ctx, a.profile, schedframework.NewCycleState(), pod)
		if fast.reason != fastpath.None {
			a.t.Fatalf("the reason is %q", fast.reason)
		}
		scalar := a.ours.newScalar(request{a.profile, schedframework.NewCycleState(), pod})
		if _, err := scalar.decide(a.ctx); err != nil {
			a.t.Fatal(err)
		}
		if err := a.ours.compare(a.ctx, fast.Attempt, scalar, nil); err != nil {
			a.t.Fatalf("%v (examined %d nodes)", err, fast.Examined())
		}
	}
	return fast.Feasible
}

// put puts a pod on a node, and returns it with the node set.
func (a *alike) put(pod *corev1.Pod, node int) *corev1.Pod {
	placed := pod.DeepCopy()
	a.made++
	placed.Name = fmt.Sprintf("placed-%d", a.made)
	placed.UID, placed.Spec.NodeName = types.UID(placed.Name), a.nodes[node].Name
	a.must(a.cache.AddPod(klog.FromContext(a.ctx), placed))
	return placed
}

func (a *alike) change(node int, edit func(*corev1.Node)) {
	changed := a.nodes[node].DeepCopy()
	edit(changed)
	a.cache.UpdateNode(klog.FromContext(a.ctx), a.nodes[node], changed)
	a.nodes[node] = changed
}

func TestGroupsAfterTheLogHasAGap(t *testing.T) {
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	gap := func(a *alike, happens func()) {
		before := a.snapshot.Log().End()
		// the snapshot is used with another cache in between
		a.must(cache.New().UpdateSnapshot(klog.FromContext(a.ctx), a.snapshot))
		happens()
		a.must(a.cache.UpdateSnapshot(klog.FromContext(a.ctx), a.snapshot))
		if _, ok := a.snapshot.Log().Since(before); ok {
			a.t.Fatal("the log has no gap")
		}
	}
	t.Run("while other nodes were tainted", func(t *testing.T) {
		a := newAlike(t, 20)
		a.noTrackers = true // they would discard the groups, too
		a.profile = a.world.profile("mine", func(*schedconfig.KubeSchedulerProfile) {})
		for i := range 5 {
			a.change(i, tainted)
		}
		pod := podOf("basic", 0)
		a.agree(pod)
		gap(a, func() {
			for i := range 5 {
				a.change(10+i, tainted)
			}
		})
		a.agree(pod)
	})
	t.Run("while pods were added that the class has anti-affinity to", func(t *testing.T) {
		a := newAlike(t, 20)
		pod := podOf("anti", 0)
		a.put(pod, 0)
		a.agree(pod)
		gap(a, func() { a.put(pod, 5) })
		if fit := a.agree(pod); fit != 18 {
			t.Errorf("%d nodes fit", fit)
		}
	})
	t.Run("as more changed than it holds", func(t *testing.T) {
		a := newAlike(t, 20)
		pod := podOf("anti", 0)
		a.put(pod, 0)
		a.agree(pod)
		before := a.snapshot.Log().End()
		a.put(pod, 5)
		for i := range 9_000 {
			other := a.put(podOf("basic", 1), i%len(a.nodes))
			a.must(a.cache.UpdateSnapshot(klog.FromContext(a.ctx), a.snapshot))
			a.must(a.cache.RemovePod(klog.FromContext(a.ctx), other))
		}
		if _, ok := a.snapshot.Log().Since(before); ok {
			t.Fatal("the log has no gap")
		}
		if fit := a.agree(pod); fit != 18 {
			t.Errorf("%d nodes fit", fit)
		}
	})
}

// TestGroupsWhenImagesCome changes scores of nodes without an entry in the change log.
func TestGroupsWhenImagesCome(t *testing.T) {
	a := newAlike(t, 20)
	a.change(0, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
	})
	pod := podOf("basic", 0)
	image := []corev1.ContainerImage{{Names: []string{pod.Spec.Containers[0].Image}, SizeBytes: 900 << 20}}
	for _, images := range [][]corev1.ContainerImage{nil, image, nil} {
		for _, node := range []int{3, 4} {
			a.change(node, func(n *corev1.Node) { n.Status.Images = images })
			a.agree(pod)
		}
	}
}

// TestGroupsWhenHostnamesAreShared has groups that depend on the pods of a node, until two nodes
// share a hostname.
func TestGroupsWhenHostnamesAreShared(t *testing.T) {
	for _, kind := range []string{"anti", "hard"} {
		t.Run(kind, func(t *testing.T) {
			a := newAlike(t, 20)
			pod := podOf("anti", 0)
			if kind == "hard" {
				pod.Spec.Affinity = nil
				pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: hostname, WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
				}}
			}
			expect := func(want int) {
				t.Helper()
				if fit := a.agree(pod); fit != want {
					t.Fatalf("%d nodes fit, want %d", fit, want)
				}
			}
			placed := a.put(pod, 1)
			expect(19)
			a.change(2, func(n *corev1.Node) { n.Labels[hostname] = a.nodes[1].Name })
			expect(18)
			a.must(a.cache.RemovePod(klog.FromContext(a.ctx), placed))
			expect(20)
			a.put(pod, 2)
			expect(18)
			a.change(2, func(n *corev1.Node) { n.Labels[hostname] = n.Name })
			expect(19)
		})
	}
}

func TestGroupsWhenATermAddsATopologyKey(t *testing.T) {
	a := newAlike(t, 21)
	pod := podOf("anti", 0)
	a.put(pod, 0)
	if fit := a.agree(pod); fit != 20 {
		t.Fatalf("%d nodes fit", fit)
	}
	guard := podOf("anti", 0)
	guard.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = zone
	guarding := a.put(guard, 1)
	if fit := a.agree(pod); fit != 13 {
		t.Fatalf("%d nodes fit, 7 in the zone of the guard and one more do not", fit)
	}
	a.must(a.cache.RemovePod(klog.FromContext(a.ctx), guarding))
	if fit := a.agree(pod); fit != 20 {
		t.Fatalf("%d nodes fit without the guard", fit)
	}
}

// TestClassesThatShareATwinPart spreads two versions of an app as one until one of them gets a
// service.
func TestClassesThatShareATwinPart(t *testing.T) {
	a := newAlike(t, 20)
	service := func(name string, selector map[string]string) {
		a.versions++
		a.must(a.handle.SharedInformerFactory().Core().V1().Services().Informer().GetIndexer().Add(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: fmt.Sprint(a.versions)},
			Spec:       corev1.ServiceSpec{Selector: selector},
		}))
	}
	version := func(version string) *corev1.Pod {
		pod := podOf("owned", 0)
		pod.Labels["version"] = version
		return pod
	}
	first, second := version("1"), version("2")
	service("all", map[string]string{"kind": "owned"})
	for i := range 6 {
		a.put(first, i)
	}
	a.agree(first)
	a.agree(second)
	service("second", map[string]string{"version": "2"})
	a.agree(second)
	a.put(second, 7)
	a.agree(first)
	a.agree(second)
}
