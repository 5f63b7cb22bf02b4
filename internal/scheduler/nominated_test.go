// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"errors"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/objects"
)

// nominateByHand writes a node, or none, into the status of a pod, as others than its scheduler may
// do (KEP-5278).
func nominateByHand(ctx context.Context, pod *corev1.Pod, node string) {
	GinkgoHelper()
	before := pod.DeepCopy()
	pod.Status.NominatedNodeName = node
	Expect(k8s.Status().Patch(ctx, pod, client.MergeFrom(before))).To(Succeed())
}

// createNominated creates a pod that somebody has nominated before it may be scheduled.
func createNominated(ctx context.Context, name, node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	GinkgoHelper()
	pod := createPod(ctx, "mine", name, append(changes, gated)...)
	nominateByHand(ctx, pod, node)
	update(ctx, pod, func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
	return pod
}

var _ = Describe("A pod that others nominate for a node", func() {
	BeforeEach(func(ctx context.Context) {
		startDefault(ctx)
		createClasses(ctx, priorityClass("low", 10), priorityClass("important", 1000))
	})

	It("goes there if it fits, though another node is better, and is nominated for none once it is bound", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		createPod(ctx, "somebody-else", "busy", cpu("2"), on("n1"))
		pod := createNominated(ctx, "pod", "n1")
		Expect(expectBound(ctx, pod)).To(Equal("n1"))
		Expect(pod.Status.NominatedNodeName).To(BeEmpty())
		Expect(expectBound(ctx, createPod(ctx, "mine", "free"))).To(Equal("n2"))
	})

	It("goes to another node if it does not fit there", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		createPod(ctx, "somebody-else", "busy", cpu("2"), on("n1"))
		Expect(expectBound(ctx, createNominated(ctx, "pod", "n1", cpu("3")))).To(Equal("n2"))
		Expect(expectBound(ctx, createNominated(ctx, "lost", "n0"))).To(Equal("n1"), "nominated for a node that there is not")
	})

	It("is nominated for none when it fits nowhere, and does not keep others away", func(ctx context.Context) {
		nodes(ctx, "n1")
		big := createNominated(ctx, "big", "n1", cpu("5"))
		expectUnscheduled(ctx, big, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		expectNominated(ctx, big, "")
		expectBound(ctx, createPod(ctx, "mine", "fits", cpu("3")))
	})

	It("is nominated for another node by its preemption", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		spared := []*corev1.Pod{
			createPod(ctx, "somebody-else", "first", cpu("2"), on("n1")), createPod(ctx, "somebody-else", "second", cpu("2"), on("n1")),
		}
		victim := createPod(ctx, "somebody-else", "third", cpu("4"), on("n2"), terminatesSlowly)
		pod := createNominated(ctx, "pod", "n1", cpu("4"), prioritized("important"))
		expectNominated(ctx, pod, "n2")
		expectTerminating(ctx, victim)
		terminate(ctx, victim)
		Expect(expectBound(ctx, pod)).To(Equal("n2"))
		expectStays(ctx, spared...)
	})

	It("has its room kept from less and equally important pods, until its nomination is taken back", func(ctx context.Context) {
		never := priorityClass("polite", 1000)
		never.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		createClasses(ctx, never, priorityClass("top", 2000))
		nodes(ctx, "n1")
		createPod(ctx, "somebody-else", "resident", cpu("1"), on("n1"))
		nominee := createPod(ctx, "mine", "nominee", cpu("4"), prioritized("polite"))
		expectUnscheduled(ctx, nominee, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		nominateByHand(ctx, nominee, "n1")
		var waiting []*corev1.Pod
		for _, class := range []string{"low", "polite"} {
			pod := createPod(ctx, "mine", class, cpu("1"), prioritized(class))
			expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
			waiting = append(waiting, pod)
		}
		expectBound(ctx, createPod(ctx, "mine", "top", cpu("1"), prioritized("top")))
		expectPending(ctx, waiting[1])
		nominateByHand(ctx, nominee, "")
		for _, pod := range waiting {
			expectBound(ctx, pod)
		}
		expectPending(ctx, nominee)
	})
})

var _ = Describe("A pod that is about to be bound", func() {
	var s *script
	BeforeEach(func(ctx context.Context) {
		s = &script{}
		start(s.register)
		create(ctx, quickRetries())
		nodes(ctx, "n1")
	})

	It("is announced on its node before it is prepared, and not once it is bound", func(ctx context.Context) {
		createProfile(ctx, "mine", "plugins: {preBind: {enabled: [{name: Alpha}]}}")
		announced := make(chan string, 1)
		s.perform(func(a *acts) {
			a.preBind = func(ctx context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
				now := &corev1.Pod{}
				if err := k8s.Get(ctx, client.ObjectKeyFromObject(pod), now); err != nil {
					return fwk.AsStatus(err)
				}
				announced <- now.Status.NominatedNodeName
				return nil
			}
		})
		pod := createPod(ctx, "mine", "pod")
		expectBound(ctx, pod)
		Expect(announced).To(Receive(Equal("n1")))
		Expect(pod.Status.NominatedNodeName).To(BeEmpty())
	})

	It("is not announced if there is nothing to wait for", func(ctx context.Context) {
		createProfile(ctx, "mine", "plugins: {bind: {enabled: [{name: Alpha}, {name: DefaultBinder}], disabled: [{name: \"*\"}]}}")
		announced := make(chan string, 1)
		s.perform(func(a *acts) {
			a.bind = func(ctx context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
				now := &corev1.Pod{}
				if err := k8s.Get(ctx, client.ObjectKeyFromObject(pod), now); err != nil {
					return fwk.AsStatus(err)
				}
				announced <- now.Status.NominatedNodeName
				return fwk.NewStatus(fwk.Skip)
			}
		})
		expectBound(ctx, createPod(ctx, "mine", "pod"))
		Expect(announced).To(Receive(BeEmpty()))
	})

	It("is nominated for none when its preparation fails, even if it preempted others for its node", func(ctx context.Context) {
		createProfile(ctx, "mine", "plugins: {preBind: {enabled: [{name: Alpha}]}}")
		createClasses(ctx, priorityClass("important", 1000))
		var attempts atomic.Int32
		s.perform(func(a *acts) {
			a.preBind = func(context.Context, *actor, *corev1.Pod, string) *fwk.Status {
				attempts.Add(1)
				return fwk.AsStatus(errors.New("not ready"))
			}
		})
		victim := createPod(ctx, "somebody-else", "victim", cpu("3"), on("n1"))
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		expectGone(ctx, victim)
		expectUnscheduled(ctx, high, corev1.PodReasonSchedulerError, Equal(`running PreBind plugin "Alpha": not ready`))
		expectNominated(ctx, high, "")
		Expect(attempts.Load()).To(BeNumerically(">=", 1))
		s.perform(func(a *acts) { a.preBind = nil })
		expectBound(ctx, high)
	})
})

var _ = Describe("A node that is promised to a pod", func() {
	BeforeEach(func(ctx context.Context) {
		createClasses(ctx, priorityClass("important", 1000))
		nodes(ctx, "n1")
	})

	// promised creates a pod that waits for the room of another on n1, and keeps it free.
	promised := func(ctx context.Context, changes ...func(*corev1.Pod)) *corev1.Pod {
		GinkgoHelper()
		victim := createPod(ctx, "somebody-else", "victim", cpu("2"), on("n1"), terminatesSlowly)
		DeferCleanup(func(ctx context.Context) { terminate(ctx, victim) })
		pod := createPod(ctx, "mine", "first", append(changes, cpu("4"), prioritized("important"))...)
		expectNominated(ctx, pod, "n1")
		return pod
	}
	// waits creates a pod for which there is no other room.
	waits := func(ctx context.Context, schedulerName string) *corev1.Pod {
		GinkgoHelper()
		pod := createPod(ctx, schedulerName, "second", cpu("2"), prioritized("important"), selecting(corev1.LabelHostname, "n1"))
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, ContainSubstring("1 Insufficient cpu"))
		return pod
	}

	It("is free for others when the pod is deleted", func(ctx context.Context) {
		startDefault(ctx)
		first := promised(ctx)
		second := waits(ctx, "mine")
		Expect(k8s.Delete(ctx, first)).To(Succeed())
		expectBound(ctx, second)
	})

	It("is free for others when the pod is to be deleted, though somebody keeps it", func(ctx context.Context) {
		start()
		createProfile(ctx, "mine", "")
		first := promised(ctx, witnessed)
		DeferCleanup(func(ctx context.Context) { release(ctx, first) })
		second := waits(ctx, "mine")
		Expect(k8s.Delete(ctx, first)).To(Succeed())
		expectBound(ctx, second)
	})

	It("is free for others when the pod goes to another node", func(ctx context.Context) {
		start()
		createProfile(ctx, "mine", "")
		n2 := objects.Node("n2", "4", "8Gi", map[string]string{"color": "red"})
		create(ctx, n2)
		first := promised(ctx, func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "color", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"red"}},
				}}},
			}}}
		})
		second := waits(ctx, "mine")
		update(ctx, n2, func(node *corev1.Node) { node.Labels["color"] = "green" })
		Expect(expectBound(ctx, first)).To(Equal("n2"))
		Expect(expectBound(ctx, second)).To(Equal("n1"))
	})

	It("is free for pods of other profiles when the profile of the pod is deleted", func(ctx context.Context) {
		start()
		createProfile(ctx, "mine", "")
		createProfile(ctx, "other", "")
		first := promised(ctx)
		second := waits(ctx, "other")
		Expect(k8s.Delete(ctx, profile("mine", ""))).To(Succeed())
		expectBound(ctx, second)
		expectPending(ctx, first)
	})
})
