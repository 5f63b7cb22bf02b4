// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/test/workload"
)

// TestDecisionsBesideNominatedPodsMatchTheScalarPath uses small clusters of equal nodes in which
// pods with terms and constraints of their own, of three priorities, come beside nominated ones.
func TestDecisionsBesideNominatedPodsMatchTheScalarPath(t *testing.T) {
	for world := range uint64(8) {
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			t.Parallel()
			const nodes, steps = 40, 200
			w, g := newAlike(t, nodes), newGenerator(world, 99)
			var waiting []*corev1.Pod
			for step := range steps {
				switch node := workload.NodeName(g.IntN(nodes)); g.IntN(6) {
				case 0, 1:
					pod := w.constrained(g)
					if g.chance(60) {
						pod.Status.NominatedNodeName = node
					}
					waiting = append(waiting, pod)
					w.handle.nominated[node] = append(w.handle.nominated[node], pod)
				case 2:
					delete(w.handle.nominated, node)
				case 3:
					w.place(w.constrained(g), node, cache.Class{})
				case 4:
					if len(w.pods) > 0 {
						w.removePod()
					}
				}
				pod := w.constrained(g)
				if len(waiting) > 0 && g.chance(30) {
					pod, waiting = waiting[0], waiting[1:]
				}
				w.decide(fmt.Sprintf("world %d, step %d", world, step), w.profile, pod)
			}
			t.Logf("%s", w.seen)
			// The nodes fill up, so most pods fit nowhere in some worlds.
			if w.seen["path "] < steps/20 || w.seen["beside nominated pods"] < steps/20 {
				t.Errorf("few decisions took the fast path: %s", w.seen)
			}
		})
	}
}

// constrained returns a pod of one of three priorities and three series, which may depend on the
// pods of one of the series, and may fill a node.
func (a *alike) constrained(g *generator) *corev1.Pod {
	series := []string{"a", "b", "c"}
	pod := a.another(podOf("basic", 0))
	pod.Labels = map[string]string{"app": pick(g, series)}
	pod.Spec.Priority = ptr.To(int32(g.IntN(3)))
	selector := metav1.SetAsLabelSelector(map[string]string{"app": pick(g, series)})
	key := pick(g, []string{hostname, zone})
	terms := []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: selector}}
	switch g.IntN(5) {
	case 0:
		pod.Spec.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	case 1:
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key,
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector}}
	case 2:
		pod.Spec.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
	if g.chance(15) {
		pod.Spec.Containers = fullPod().Spec.Containers
	}
	return pod
}

// TestAReloadAmidNominatedPods builds a profile anew, with the same or with other plugins and
// arguments, between decisions beside nominated pods.
func TestAReloadAmidNominatedPods(t *testing.T) {
	without := func(filter string) func(*schedconfig.KubeSchedulerProfile) {
		return func(p *schedconfig.KubeSchedulerProfile) {
			p.Plugins.PreFilter.Disabled = []schedconfig.Plugin{{Name: filter}}
			p.Plugins.Filter.Disabled = []schedconfig.Plugin{{Name: filter}}
		}
	}
	for name, scene := range map[string]struct {
		change func(*schedconfig.KubeSchedulerProfile)
		// plain, averse and even are the numbers of nodes that such pods fit after the change.
		plain, averse, even int
		kept                bool
	}{
		"nothing has changed": {unchanged, 3, 2, 2, true},
		"other arguments":     {otherArgs, 3, 2, 2, false},
		"without resources":   {without("NodeResourcesFit"), 4, 3, 3, false},
		"without affinity":    {without("InterPodAffinity"), 3, 3, 2, false},
		"without constraints": {without("PodTopologySpread"), 3, 2, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAlike(t, 4)
			pod := func(app string) *corev1.Pod {
				pod := w.another(podOf("basic", 0))
				pod.Labels = map[string]string{"app": app}
				return pod
			}
			nominate := func(node int, pod *corev1.Pod) {
				w.handle.nominated[workload.NodeName(node)] = []*corev1.Pod{pod}
			}
			// The first three nodes have no room for any other pod, for averse, and for even.
			full, foe, like := w.another(fullPod()), pod("foe"), pod("even")
			nominate(0, full)
			nominate(1, foe)
			nominate(2, like)
			plain, averse, even := pod("plain"), repels(pod("averse"), corev1.LabelHostname, "app", "foe"), pod("even")
			even.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1,
				TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: metav1.SetAsLabelSelector(map[string]string{"app": "even"})}}
			expect := func(when string, wantPlain, wantAverse, wantEven int) {
				t.Helper()
				got := [...]int{w.agree(plain), w.agree(averse), w.agree(even)}
				if want := [...]int{wantPlain, wantAverse, wantEven}; got != want {
					t.Errorf("%s: the pods fit %d nodes, want %d", when, got, want)
				}
			}
			expect("before", 3, 2, 2)
			class := w.classOf(w.profile, plain)
			w.profile = w.world.profile("mine", scene.change)
			expect("after the reload", scene.plain, scene.averse, scene.even)
			if kept := w.classOf(w.profile, plain) == class; kept != scene.kept {
				t.Errorf("the class is the one before the reload: %v", kept)
			}
			nominate(0, foe)
			nominate(1, like)
			nominate(2, full)
			expect("after other nominations", scene.plain, scene.averse, scene.even)
			w.profile = w.world.profile("mine", unchanged)
			clear(w.handle.nominated)
			nominate(3, full)
			expect("as at first, with one nominated pod", 3, 3, 3)
		})
	}
}

// TestNominatedPodsForManyPriorities has a pod of one class and priority come before and after pods
// of another class with more priorities than nominated nodes are kept for, while more pods are
// nominated.
func TestNominatedPodsForManyPriorities(t *testing.T) {
	w := newAlike(t, 6)
	pod, other := w.another(podOf("basic", 0)), w.another(podOf("basic", 0))
	other.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("7m")
	for node := range 3 {
		full := w.another(fullPod())
		full.Spec.Priority = ptr.To(int32(1000))
		w.handle.nominated[workload.NodeName(node)] = []*corev1.Pod{full}
		if got, want := w.agree(pod), 5-node; got != want {
			t.Errorf("the pod fits %d nodes, want %d", got, want)
		}
		for priority := range int32(20) {
			other.Spec.Priority = &priority
			w.agree(other)
		}
	}
}

// TestTheNamespaceOfANominatedPodMoves has pods that keep away from those of some namespaces, and
// one of another namespace that is nominated. Then the labels of that namespace change, without a
// change of a node or a nomination.
func TestTheNamespaceOfANominatedPodMoves(t *testing.T) {
	w := newAlike(t, 4)
	team := func(labels map[string]string) {
		w.setNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "their", Labels: labels}})
	}
	pod := repels(w.another(podOf("basic", 0)), corev1.LabelHostname, "app", "foe")
	terms := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	terms[0].NamespaceSelector = metav1.SetAsLabelSelector(map[string]string{"team": "a"})
	foe := w.another(podOf("basic", 0))
	foe.Namespace, foe.Labels = "their", map[string]string{"app": "foe"}
	w.handle.nominated[workload.NodeName(0)] = []*corev1.Pod{foe}
	for i, test := range []struct {
		labels map[string]string
		want   int
	}{{nil, 4}, {map[string]string{"team": "a"}, 3}, {map[string]string{"team": "b"}, 4}} {
		team(test.labels)
		if got := w.agree(pod); got != test.want {
			t.Errorf("after %d changes the pod fits %d nodes, want %d", i, got, test.want)
		}
	}
}

// TestAPodKeepsAwayFromANominatedOneIfNoneRuns: no running pod concerns InterPodAffinity.
func TestAPodKeepsAwayFromANominatedOneIfNoneRuns(t *testing.T) {
	w := newAlike(t, 2)
	other := w.another(podOf("basic", 1))
	other.Labels = map[string]string{"app": "other"}
	w.handle.nominated[workload.NodeName(0)] = []*corev1.Pod{other}
	pod := repels(w.another(podOf("basic", 0)), corev1.LabelHostname, "app", "other")
	if reason := w.decide("beside the other", w.profile, pod); reason != fastpath.None {
		t.Errorf("the pod takes the scalar path: %s", reason)
	}
}

// TestTheTermsOfAPodWithoutClassCountForOthers nominates a pod that reads so many labels that it
// had no class, and tries it again before others.
func TestTheTermsOfAPodWithoutClassCountForOthers(t *testing.T) {
	w := newAlike(t, 2)
	w.place(repels(w.another(podOf("basic", 1)), corev1.LabelHostname, "guarded", "yes"), workload.NodeName(1),
		cache.Class{})
	odd := repels(w.another(podOf("basic", 0)), corev1.LabelHostname, "special", "yes")
	terms := &odd.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for i := range 70 {
		*terms = append(*terms, corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname,
			LabelSelector: metav1.SetAsLabelSelector(map[string]string{fmt.Sprint("key-", i): "yes"})})
	}
	if reason := w.decide("at first", w.profile, odd); reason != fastpath.Selectors {
		t.Fatalf("the reason is %q", reason)
	}
	for len(w.pods) > 1 {
		w.must(w.cache.RemovePod(klog.FromContext(w.ctx), w.pods[1]))
		w.pods = w.pods[:1]
	}
	w.handle.nominated[workload.NodeName(0)] = []*corev1.Pod{odd}
	w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
	w.ours.tryFast(w.ctx, w.profile, schedframework.NewCycleState(), odd)
	for _, special := range []string{"no", "yes"} {
		pod := w.another(podOf("basic", 0))
		pod.Labels = map[string]string{"guarded": "yes", "special": special}
		w.decide("special: "+special, w.profile, pod)
	}
}

// TestAPluginIsNotAskedFirstAboutARepellingNode: a plugin is run node by node for pods that keep
// away from a nominated one.
func TestAPluginIsNotAskedFirstAboutARepellingNode(t *testing.T) {
	w := newAlike(t, 3)
	other := w.another(podOf("basic", 1))
	other.Labels, other.Spec.Priority = map[string]string{"app": "other"}, ptr.To(int32(1000))
	w.handle.nominated[workload.NodeName(0)] = []*corev1.Pod{other}
	profile := w.world.profile("whims", samenessProfiles[len(samenessProfiles)-1])
	for range 60 {
		pod := repels(w.another(podOf("basic", 0)), corev1.LabelHostname, "app", "other")
		w.decide("beside the other", profile, pod)
	}
	if n := w.seen["rest "+string(fastpath.UnknownPlugin)]; n < 20 {
		t.Errorf("the plugin was run for %d pods", n)
	}
}
