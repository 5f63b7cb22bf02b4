// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

// TestDeferredResize has the cases of kube-scheduler's TestDeferredResizePodPreemption. The node n1
// has 4 CPUs, of which the pod is to have 3. The empty node n2 must play no part.
func TestDeferredResize(t *testing.T) {
	unschedulable := func(pod *corev1.Pod) { pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) }
	for name, test := range map[string]struct {
		others   map[string]int32 // their priorities; each has a CPU
		change   func(*corev1.Pod)
		disabled bool
		evicted  []string
		refusing []string
	}{
		"preempts a less important pod": {
			others: map[string]int32{"low": 0, "high": 20}, evicted: []string{"low"},
			refusing: []string{names.NodeName, names.NodeResourcesFit},
		},
		"preempts less important pods": {
			others: map[string]int32{"low-1": 0, "low-2": 5, "low-3": 1}, evicted: []string{"low-1", "low-3"},
			refusing: []string{names.NodeName, names.NodeResourcesFit},
		},
		"preempts no pod that is at least as important": {
			others:   map[string]int32{"same": 10, "high": 20},
			refusing: []string{names.NodeName, names.NodeResourcesFit},
		},
		"does not preempt if the pod must not": {
			others: map[string]int32{"low-1": 0, "low-2": 0}, change: unschedulable,
			refusing: []string{names.NodeName, names.NodeResourcesFit},
		},
		"does not preempt where the node forbids it": {
			others: map[string]int32{"low-1": 0, "low-2": 0}, disabled: true,
			refusing: []string{names.DeferredPodScheduling, names.NodeName},
		},
		"waits for the kubelet if it fits": {
			others: map[string]int32{"low": 0}, refusing: []string{names.DeferredPodScheduling, names.NodeResourcesFit},
		},
		"takes no heed of filters that the pod has passed": {
			others: map[string]int32{"low": 0}, change: objects.Selecting("no", "node"),
			refusing: []string{names.DeferredPodScheduling, names.NodeResourcesFit},
		},
	} {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
				features.InPlacePodVerticalScalingSchedulerPreemption, true)
			w := newGroupWorld(t)
			w.loop.Decisions = decisionlog.New(10)
			node := objects.Node("n1", "4", "8Gi", nil)
			if test.disabled {
				node.Spec.PodPreemptionPolicy = &corev1.NodePodPreemptionPolicy{DisableResizePreemption: []string{"x"}}
			}
			w.cluster.Cache.AddNode(logr.Discard(), node)
			w.addNode("n2", "4")
			for name, priority := range test.others {
				w.addRunning(name, "n1", "1", priority)
			}
			pod := w.addRunning("growing", "n1", "3", 10, func(pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending,
					Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred}}
				if test.change != nil {
					test.change(pod)
				}
			})
			w.cluster.Queue.Add(logr.Discard(), pod)

			popped := w.cluster.Queue.Pop(logr.Discard())
			w.Expect(w.loop.newCycle(w.loop.Profiles.Popped(popped.Settings), popped.Pod).run(w.ctx)).To(BeNil())
			state, _ := w.cluster.Queue.Get(pod.UID)
			w.Expect(state.Place).To(BeElementOf(queue.Unschedulable, queue.Gated))
			w.Expect(popped.Pod.UnschedulablePlugins.UnsortedList()).To(ConsistOf(test.refusing))
			w.Eventually(w.cluster.Requests.Deleted).Should(Equal(len(test.evicted)))
			var evictions []string
			for _, name := range test.evicted {
				evictions = append(evictions, "delete pods default/"+name)
			}
			w.Expect(w.cluster.Requests.Take()).To(ContainElements(evictions))
			w.Expect(w.cluster.Queue.Nominator().Empty()).To(BeTrue())
			w.Expect(w.loop.Decisions.Newest()).To(BeZero(), "the decision about its node was another one")
			w.Expect(w.ledger.reserved).To(BeEmpty())
			known, err := w.cluster.Cache.GetPod(pod)
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(known).To(BeIdenticalTo(pod))
		})
	}
}
