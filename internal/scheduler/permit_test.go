// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/testcluster"
)

// waits has pods with the label "wait" wait on Permit for a plugin.
func waits(timeout time.Duration) func(*acts) {
	return func(a *acts) {
		a.permit = func(_ *actor, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
			if pod.Labels["wait"] == "" {
				return nil, 0
			}
			return fwk.NewStatus(fwk.Wait, "not yet"), timeout
		}
	}
}

// expectWaiting waits until a pod waits on Permit, and returns what plugins see of it.
func (s *script) expectWaiting(ctx context.Context, pod *corev1.Pod) fwk.WaitingPod {
	GinkgoHelper()
	var waiting fwk.WaitingPod
	Eventually(func() fwk.WaitingPod {
		for _, a := range s.actors() {
			waiting = a.handle.GetWaitingPod(pod.UID)
		}
		return waiting
	}).WithContext(ctx).ShouldNot(BeNil())
	return waiting
}

var _ = Describe("A pod that waits on Permit", func() {
	var (
		s   *script
		run *testcluster.Running
	)
	const permits = "plugins: {multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}}"
	held := func(name string) *corev1.Pod { return podOf("mine", name, labelled("wait", "yes"), cpu("3")) }

	BeforeEach(func(ctx context.Context) {
		s = &script{}
		run = start(s.register)
		create(ctx, quickRetries())
		nodes(ctx, "n1")
		s.perform(waits(10 * time.Minute))
		createProfile(ctx, "mine", permits)
	})

	It("has its node to itself, is announced there, and is bound when all plugins have allowed it", func(ctx context.Context) {
		pod := held("pod")
		create(ctx, pod)
		waiting := s.expectWaiting(ctx, pod)
		Expect(waiting.GetPendingPlugins()).To(Equal([]string{alpha, beta}))
		Expect(waiting.GetPod().Spec.NodeName).To(Equal("n1"))
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			g.Expect(pod.Status.NominatedNodeName).To(Equal("n1"))
		}).WithContext(ctx).Should(Succeed())
		expectUnscheduled(ctx, createPod(ctx, "mine", "late", cpu("3")), corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))

		waiting.Allow(alpha)
		expectPending(ctx, pod)
		Expect(waiting.GetPendingPlugins()).To(Equal([]string{beta}))
		waiting.Allow(beta)
		expectBound(ctx, pod)
		Expect(s.at(pod, "Unreserve")).To(BeEmpty())
	})

	It("is unschedulable when a plugin rejects it, and gives its room to another pod", func(ctx context.Context) {
		pod := held("pod")
		create(ctx, pod)
		waiting := s.expectWaiting(ctx, pod)
		late := createPod(ctx, "mine", "late", cpu("3"))
		expectUnscheduled(ctx, late, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		Expect(waiting.Reject(alpha, "not today")).To(BeTrue())
		expectUnschedulable(ctx, pod, "0/1 nodes are available: 1 not today.")
		Expect(s.at(pod, "Unreserve")).To(Equal([]string{beta, alpha}))
		expectBound(ctx, late)
	})

	It("is unschedulable when the time of a plugin is over", func(ctx context.Context) {
		s.perform(waits(50 * time.Millisecond))
		pod := held("pod")
		create(ctx, pod)
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable,
			MatchRegexp(`^0/1 nodes are available: 1 rejected due to timeout after waiting 50ms at plugin (Alpha|Beta)\.$`))
	})

	It("is refused at once when a plugin does not want it to wait", func(ctx context.Context) {
		s.perform(func(a *acts) {
			a.permit = func(a *actor, _ *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
				if a.name == alpha {
					return fwk.NewStatus(fwk.Wait), time.Minute
				}
				return fwk.NewStatus(fwk.Unschedulable, "never"), 0
			}
		})
		pod := held("pod")
		create(ctx, pod)
		expectUnschedulable(ctx, pod, "0/1 nodes are available: 1 never.")
		Expect(s.actors()[0].handle.GetWaitingPod(pod.UID)).To(BeNil())
	})

	It("gives its room back at once when it is deleted", func(ctx context.Context) {
		pod := held("pod")
		create(ctx, pod)
		s.expectWaiting(ctx, pod)
		late := createPod(ctx, "mine", "late", cpu("3"))
		expectUnscheduled(ctx, late, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		Expect(k8s.Delete(ctx, pod)).To(Succeed())
		expectBound(ctx, late)
		Eventually(s.at).WithArguments(pod, "Unreserve").Should(Equal([]string{beta, alpha}))
		Expect(s.at(pod, "Bind")).To(BeEmpty())
	})

	It("is put back rather than deleted when it is preempted", func(ctx context.Context) {
		createClasses(ctx, priorityClass("important", 1000))
		pod := held("pod")
		create(ctx, pod)
		s.expectWaiting(ctx, pod)
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		expectBound(ctx, high)
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		Expect(pod.DeletionTimestamp).To(BeNil())
	})

	It("is not scheduled a second time when its profile is deleted and comes back", func(ctx context.Context) {
		preparing, prepared := make(chan struct{}), make(chan struct{})
		s.perform(func(a *acts) {
			a.preBind = func(_ context.Context, a *actor, _ *corev1.Pod, _ string) *fwk.Status {
				if a.name == alpha {
					close(preparing)
					<-prepared
				}
				return nil
			}
		})
		pod := held("pod")
		create(ctx, pod)
		waiting := s.expectWaiting(ctx, pod)
		comeBack := func() {
			Expect(k8s.Delete(ctx, profile("mine", ""))).To(Succeed())
			Eventually(func() int { return run.Scheduler.Store().Current().Len() }).Should(BeZero())
			createProfile(ctx, "mine", permits)
		}
		comeBack()
		waiting.Allow(alpha)
		waiting.Allow(beta)
		Eventually(preparing).Should(BeClosed())
		By("nor while it is prepared for its binding")
		comeBack()
		close(prepared)
		expectBound(ctx, pod)
		Eventually(s.at).WithArguments(pod, "PostBind").Should(Equal([]string{alpha, beta}))
		Expect(s.at(pod, "PreFilter")).To(Equal([]string{alpha, beta}), "once for each plugin")
		Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
	})

	It("is given up when the process ends, without a word to its owner", func(ctx context.Context) {
		pod := held("pod")
		create(ctx, pod)
		s.expectWaiting(ctx, pod)
		Expect(run.Stop(stopsWithin)).To(Succeed())
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.Spec.NodeName).To(BeEmpty())
		Expect(pod.Status.Conditions).NotTo(ContainElement(HaveField("Type", corev1.PodScheduled)))
		Expect(eventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
		Expect(s.at(pod, "Unreserve")).To(Equal([]string{beta, alpha}))
		for _, a := range s.actors() {
			Expect(a.closes.Load()).To(Equal(int32(1)), "plugin %s", a.name)
		}
	})
})
