// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/test/workload"
)

// TestDecisionExaminesFewNodes counts the nodes that a decision about a pod of a known class
// examines. With 20 classes in turn, 20 nodes have changed since the last pod of the class: the
// twins and groups examine at most these, and one node of each group.
func TestDecisionExaminesFewNodes(t *testing.T) {
	const classes, most = 20, 100
	for _, kind := range []string{"basic", "owned", "spread", "anti", "affinity", "mixed", "pulled", workload.Limited,
		workload.InTree} {
		for _, nodes := range []int{400, 2000} {
			t.Run(fmt.Sprintf("%s/%d", kind, nodes), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 1, 0)
				service := workload.Service()
				service.ResourceVersion = "1"
				w.must(w.handle.SharedInformerFactory().Core().V1().Services().Informer().GetIndexer().Add(service))
				place := w.decider(nodes)
				for i := range 10 * classes {
					w.addClaimOf(kind, i)
					examined := place(podOf(kind, i))
					// For the first pod of a class, there may be nothing to keep away from. The
					// second takes a pass over all nodes, and the third makes the groups.
					if i >= 3*classes && examined > most {
						t.Fatalf("the decision about pod %d examined %d nodes, want %d at most", i, examined, most)
					}
				}
			})
		}
	}
}

// TestDecisionExaminesFewNodesBesideNominatedPods is TestDecisionExaminesFewNodes while the nodes
// of 300 nominated pods wait for their victims to end, and one pod more is nominated, or no more,
// before each decision. The nominated pods keep away from each other.
func TestDecisionExaminesFewNodesBesideNominatedPods(t *testing.T) {
	const classes, most, nominated = 20, 100, 300
	for _, kind := range []string{"basic", "spread", "anti", "affinity"} {
		for _, nodes := range []int{800, 2000} {
			t.Run(fmt.Sprintf("%s/%d", kind, nodes), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 1, 0)
				place := w.decider(nodes)
				for i := range 10 * classes {
					if i == 2*classes {
						for n := range nominated {
							w.handle.nominated[workload.NodeName(n)] = []*corev1.Pod{nominatedPod(n)}
						}
					}
					if node := workload.NodeName(nominated + 1); i%2 == 0 {
						w.handle.nominated[node] = []*corev1.Pod{nominatedPod(i)}
					} else {
						delete(w.handle.nominated, node)
					}
					examined := place(podOf(kind, i))
					if i >= 4*classes && examined > most {
						t.Fatalf("the decision about pod %d examined %d nodes, want %d at most", i, examined, most)
					}
				}
			})
		}
	}
}

// TestDecisionExaminesFewNodesIfDomainsAreSmall has two nodes with one hostname, and racks of four
// nodes.
func TestDecisionExaminesFewNodesIfDomainsAreSmall(t *testing.T) {
	const classes, most = 20, 100
	own := func(pod *corev1.Pod) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}
	}
	hard := func(key string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key,
				WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own(pod)}}
		}
	}
	prefers := func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 10, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: rack, LabelSelector: own(pod)}},
			}}}
	}
	for name, edit := range map[string]func(*corev1.Pod){
		"anti-affinity to hostnames": func(pod *corev1.Pod) { avoiding(own(pod), hostname)(pod) },
		"anti-affinity to racks":     func(pod *corev1.Pod) { avoiding(own(pod), rack)(pod) },
		"preferred racks":            prefers,
		"spread over hostnames":      hard(hostname),
		"spread over racks":          hard(rack),
	} {
		for _, nodes := range []int{400, 2000} {
			t.Run(fmt.Sprintf("%s/%d", name, nodes), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 1, 0)
				place := w.deciderWith(nodes, func(i int, node *corev1.Node) {
					node.Labels[rack] = fmt.Sprint(i / 4)
					if i == 1 {
						node.Labels[hostname] = workload.NodeName(0)
					}
				})
				for i := range 4 * classes {
					pod := podOf("basic", i)
					edit(pod)
					if examined := place(pod); i >= 3*classes && examined > most {
						t.Fatalf("the decision about pod %d examined %d nodes, want %d at most", i, examined, most)
					}
				}
			})
		}
	}
}

// nominatedPod returns a pod to nominate, which keeps away from others of its series.
func nominatedPod(i int) *corev1.Pod {
	pod := podOf("anti", i)
	pod.UID = types.UID(fmt.Sprint("nominated-", i))
	return pod
}

// addClaimOf adds the claim of the i-th pod of a kind, if its pods have claims, and a CSINode.
func (w *world) addClaimOf(kind string, i int) {
	if !slices.Contains(workload.ClaimKinds, kind) {
		return
	}
	claim, volume := workload.Pods{Kind: kind}.Claim(i)
	w.put(w.volumeIndexer(), volume)
	w.put(w.claimIndexer(), claim)
	w.put(w.indexer(w.handle.SharedInformerFactory().Storage().V1().CSINodes().Informer()), workload.CSINode(i))
}

// podOf returns the i-th pod of a kind.
func podOf(kind string, i int) *corev1.Pod {
	return workload.Admit(workload.Pods{Kind: kind}.Pod(i))
}

// decider adds nodes, and returns a function that decides about a pod, assumes it, and returns the
// number of nodes that the fast path has examined.
func (w *world) decider(nodes int) func(*corev1.Pod) int {
	return w.deciderWith(nodes, func(int, *corev1.Node) {})
}

// deciderWith changes the nodes before it adds them.
func (w *world) deciderWith(nodes int, edit func(i int, node *corev1.Node)) func(*corev1.Pod) int {
	logger := klog.FromContext(w.ctx)
	for i := range nodes {
		node := workload.Node(i)
		edit(i, node)
		w.cache.AddNode(logger, node)
	}
	profile := w.profile("default-scheduler", func(*schedconfig.KubeSchedulerProfile) {})
	return func(pod *corev1.Pod) int {
		w.must(w.cache.UpdateSnapshot(logger, w.snapshot))
		fast := w.ours.tryFast(w.ctx, profile, schedframework.NewCycleState(), pod)
		assumed := *pod
		if fast.reason != fastpath.None {
			result, err := w.ours.newScalar(request{profile, schedframework.NewCycleState(), pod}).decide(w.ctx)
			w.must(err)
			assumed.Spec.NodeName = result.SuggestedHost
			w.must(w.cache.AddPod(logger, &assumed))
			return 0
		}
		assumed.Spec.NodeName = fast.NodeName
		w.must(w.cache.AssumePodOfClass(logger, &assumed, fast.Class))
		return fast.Examined()
	}
}
