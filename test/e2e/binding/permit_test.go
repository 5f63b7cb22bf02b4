// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("A pod that waits on Permit", func() {
	var (
		s   *Script
		run *testcluster.Running
	)
	const permits = "plugins: {multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}}"
	held := func(name string) *corev1.Pod { return PodOf("mine", name, Labelled("wait", "yes"), CPU("3")) }

	BeforeEach(func(ctx context.Context) {
		s = &Script{}
		run = Start(s.Register)
		Create(ctx, QuickRetries())
		CreateNodes(ctx, "n1")
		s.Perform(WaitsOnPermit(10 * time.Minute))
		CreateProfile(ctx, "mine", permits)
	})

	It("has its room reserved, is nominated for its node, and is bound when all plugins have allowed it",
		func(ctx context.Context) {
			pod := held("pod")
			Create(ctx, pod)
			waiting := s.ExpectWaiting(ctx, pod)
			Expect(waiting.GetPendingPlugins()).To(Equal([]string{Alpha, Beta}))
			Expect(waiting.GetPod().Spec.NodeName).To(Equal("n1"))
			Eventually(func(g Gomega) {
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
				g.Expect(pod.Status.NominatedNodeName).To(Equal("n1"))
			}).WithContext(ctx).Should(Succeed())
			ExpectUnscheduled(ctx, CreatePod(ctx, "mine", "late", CPU("3")), corev1.PodReasonUnschedulable,
				HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))

			waiting.Allow(Alpha)
			ExpectPending(ctx, pod)
			Expect(waiting.GetPendingPlugins()).To(Equal([]string{Beta}))
			waiting.Allow(Beta)
			ExpectBound(ctx, pod)
			Expect(s.At(pod, "Unreserve")).To(BeEmpty())
		})

	It("is unschedulable when a plugin rejects it, and frees its room for another pod", func(ctx context.Context) {
		pod := held("pod")
		Create(ctx, pod)
		waiting := s.ExpectWaiting(ctx, pod)
		late := CreatePod(ctx, "mine", "late", CPU("3"))
		ExpectUnscheduled(ctx, late, corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		Expect(waiting.Reject(Alpha, "not today")).To(BeTrue())
		ExpectUnschedulable(ctx, pod, "0/1 nodes are available: 1 not today.")
		Expect(s.At(pod, "Unreserve")).To(Equal([]string{Beta, Alpha}))
		ExpectBound(ctx, late)
	})

	It("is unschedulable when the timeout of a plugin expires", func(ctx context.Context) {
		s.Perform(WaitsOnPermit(50 * time.Millisecond))
		pod := held("pod")
		Create(ctx, pod)
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable,
			MatchRegexp(
				`^0/1 nodes are available: 1 rejected due to timeout after waiting 50ms at plugin (Alpha|Beta)\.$`))
	})

	It("is rejected immediately when a plugin does not want it to wait", func(ctx context.Context) {
		s.Perform(func(a *Acts) {
			a.Permit = func(a *Actor, _ *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
				if a.Name() == Alpha {
					return fwk.NewStatus(fwk.Wait), time.Minute
				}
				return fwk.NewStatus(fwk.Unschedulable, "never"), 0
			}
		})
		pod := held("pod")
		Create(ctx, pod)
		ExpectUnschedulable(ctx, pod, "0/1 nodes are available: 1 never.")
		Expect(s.Actors()[0].Handle.GetWaitingPod(pod.UID)).To(BeNil())
	})

	It("frees its room immediately when it is deleted", func(ctx context.Context) {
		pod := held("pod")
		Create(ctx, pod)
		s.ExpectWaiting(ctx, pod)
		late := CreatePod(ctx, "mine", "late", CPU("3"))
		ExpectUnscheduled(ctx, late, corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		Expect(K8s.Delete(ctx, pod)).To(Succeed())
		ExpectBound(ctx, late)
		Eventually(s.At).WithArguments(pod, "Unreserve").Should(Equal([]string{Beta, Alpha}))
		Expect(s.At(pod, "Bind")).To(BeEmpty())
	})

	It("is put back in the queue rather than deleted when it is preempted", func(ctx context.Context) {
		CreateClasses(ctx, PriorityClass("important", 1000))
		pod := held("pod")
		Create(ctx, pod)
		s.ExpectWaiting(ctx, pod)
		high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		ExpectBound(ctx, high)
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		Expect(pod.DeletionTimestamp).To(BeNil())
	})

	It("is not scheduled a second time when its profile is deleted and created again", func(ctx context.Context) {
		preparing, prepared := make(chan struct{}), make(chan struct{})
		s.Perform(func(a *Acts) {
			a.PreBind = func(_ context.Context, a *Actor, _ *corev1.Pod, _ string) *fwk.Status {
				if a.Name() == Alpha {
					close(preparing)
					<-prepared
				}
				return nil
			}
		})
		pod := held("pod")
		Create(ctx, pod)
		waiting := s.ExpectWaiting(ctx, pod)
		comeBack := func() {
			Expect(K8s.Delete(ctx, Profile("mine", ""))).To(Succeed())
			Eventually(func() int { return run.Scheduler.Store().Current().Len() }).Should(BeZero())
			CreateProfile(ctx, "mine", permits)
		}
		comeBack()
		waiting.Allow(Alpha)
		waiting.Allow(Beta)
		Eventually(preparing).Should(BeClosed())
		By("nor while PreBind plugins prepare its binding")
		comeBack()
		close(prepared)
		ExpectBound(ctx, pod)
		Eventually(s.At).WithArguments(pod, "PostBind").Should(Equal([]string{Alpha, Beta}))
		Expect(s.At(pod, "PreFilter")).To(Equal([]string{Alpha, Beta}), "once for each plugin")
		Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
	})

	It("is abandoned when the process ends, and nothing is reported on it", func(ctx context.Context) {
		pod := held("pod")
		Create(ctx, pod)
		s.ExpectWaiting(ctx, pod)
		Expect(run.Stop(StopsWithin)).To(Succeed())
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.Spec.NodeName).To(BeEmpty())
		Expect(pod.Status.Conditions).NotTo(ContainElement(HaveField("Type", corev1.PodScheduled)))
		Expect(EventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
		Expect(s.At(pod, "Unreserve")).To(Equal([]string{Beta, Alpha}))
		for _, a := range s.Actors() {
			Expect(a.Closes.Load()).To(Equal(int32(1)), "plugin %s", a.Name())
		}
	})
})
