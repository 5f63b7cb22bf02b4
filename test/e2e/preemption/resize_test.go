// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// setResizeGate turns the feature gate for deferred resizes on or off.
func setResizeGate(on bool) {
	GinkgoHelper()
	Expect(utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.InPlacePodVerticalScalingSchedulerPreemption): on,
	})).To(Succeed())
}

// resizeTo asks for another amount of CPU for a running pod, as its owner does.
func resizeTo(ctx context.Context, pod *corev1.Pod, cpu string) {
	GinkgoHelper()
	Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	if _, limited := pod.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU]; limited {
		pod.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	Expect(K8s.SubResource("resize").Update(ctx, pod)).To(Succeed())
}

// reportResize writes the status of a running pod whose resize is pending, as its kubelet does. It
// has allocated an amount of CPU to the pod. If reason is "", no resize is pending.
func reportResize(ctx context.Context, pod *corev1.Pod, allocated, reason string) {
	GinkgoHelper()
	Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	container := &pod.Spec.Containers[0]
	requests := container.Resources.Requests.DeepCopy()
	requests[corev1.ResourceCPU] = resource.MustParse(allocated)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: container.Name, AllocatedResources: requests, Resources: &corev1.ResourceRequirements{Requests: requests},
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	if reason != "" {
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason})
	}
	Expect(K8s.Status().Update(ctx, pod)).To(Succeed())
}

// attempts returns how many attempts livesched has made that placed no pod.
func attempts() float64 {
	return Counted("scheduler_schedule_attempts_total", "result", "unschedulable")
}

// tryResize defers a resize of a pod with one CPU, and waits until livesched has tried it in vain.
func tryResize(ctx context.Context, pod *corev1.Pod, cpu string) {
	GinkgoHelper()
	before := attempts()
	resizeTo(ctx, pod, cpu)
	reportResize(ctx, pod, "1", corev1.PodReasonDeferred)
	Eventually(attempts).WithContext(ctx).Should(BeNumerically(">", before))
}

func expectKept(ctx context.Context, pods ...*corev1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.DeletionTimestamp).To(BeNil())
	}
}

// The specs have the cases of kube-scheduler's integration tests TestDeferredResizePodPreemption
// and TestDeferredResizeQueueingHints, except for those with spec.podPreemptionPolicy of a node,
// for which the API server needs the gate, too.
var _ = Describe("A deferred resize", func() {
	Context("with the feature gate", func() {
		BeforeEach(func(ctx context.Context) {
			setResizeGate(true)
			DeferCleanup(setResizeGate, false)
			StartDefault(ctx)
			never := PriorityClass("polite", 1000)
			never.PreemptionPolicy = ptr.To(corev1.PreemptNever)
			CreateClasses(ctx, PriorityClass("important", 1000), never)
		})

		It("evicts as many less important pods as necessary, on the node of the pod only, and binds nothing",
			func(ctx context.Context) {
				CreateNodes(ctx, "n1", "n2")
				growing := CreatePod(ctx, "mine", "growing", CPU("1"), OnNode("n1"), Prioritized("important"))
				victims := []*corev1.Pod{
					CreatePod(ctx, "somebody-else", "low-1", CPU("1"), OnNode("n1")),
					CreatePod(ctx, "somebody-else", "low-2", CPU("1"), OnNode("n1")),
				}
				elsewhere := CreatePod(ctx, "somebody-else", "low-3", CPU("4"), OnNode("n2"))
				resizeTo(ctx, growing, "3500m")
				reportResize(ctx, growing, "1", corev1.PodReasonDeferred)

				for _, victim := range victims {
					ExpectGone(ctx, victim)
					ExpectEvent(ctx, victim, "Preempted",
						HavePrefix("Preempted by pod "+string(growing.UID)+" on node n1"))
				}
				ExpectStillScheduled(ctx, growing)
				Expect(growing.Status.NominatedNodeName).To(BeEmpty())
				Expect(growing.Spec.NodeName).To(Equal("n1"))
				expectKept(ctx, elsewhere)

				By("not taking the pod for a new one when the kubelet has resized it")
				reportResize(ctx, growing, "3500m", "")
				ExpectBound(ctx, CreatePod(ctx, "mine", "small", CPU("500m"), func(pod *corev1.Pod) {
					pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n1"}
				}))
				ExpectStillScheduled(ctx, growing)
			})

		It("evicts no pod of equal or higher priority, and none for a pod that must not preempt; it is tried again "+
			"when such a pod leaves the node", func(ctx context.Context) {
			CreateNodes(ctx, "n1", "n2")
			equal := CreatePod(ctx, "mine", "equal", CPU("1"), OnNode("n1"))
			polite := CreatePod(ctx, "mine", "polite", CPU("1"), OnNode("n2"), Prioritized("polite"))
			kept := []*corev1.Pod{
				CreatePod(ctx, "somebody-else", "high", CPU("1"), OnNode("n1"), Prioritized("important")),
				CreatePod(ctx, "somebody-else", "same", CPU("2"), OnNode("n1")),
				CreatePod(ctx, "somebody-else", "low", CPU("3"), OnNode("n2")),
			}
			for _, pod := range []*corev1.Pod{equal, polite} {
				tryResize(ctx, pod, "2")
			}
			Consistently(func(g Gomega) { expectKept(ctx, kept...) }).WithContext(ctx).Should(Succeed())
			ExpectStillScheduled(ctx, equal)
			ExpectStillScheduled(ctx, polite)

			before := attempts()
			Expect(K8s.Delete(ctx, kept[0])).To(Succeed())
			Eventually(attempts).WithContext(ctx).Should(BeNumerically(">", before))
			expectKept(ctx, kept[1:]...)
		})

		It("that fits waits for the kubelet, until a further resize needs room", func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			growing := CreatePod(ctx, "mine", "growing", CPU("1"), OnNode("n1"), Prioritized("important"))
			low := CreatePod(ctx, "somebody-else", "low", CPU("2"), OnNode("n1"))
			tryResize(ctx, growing, "2")
			Consistently(func(g Gomega) { expectKept(ctx, low) }).WithContext(ctx).Should(Succeed())
			ExpectStillScheduled(ctx, growing)

			resizeTo(ctx, growing, "3")
			ExpectGone(ctx, low)
		})

		It("follows a change of its profile, and waits while there is none", func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			Respec(ctx, "mine", "plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}")
			growing := CreatePod(ctx, "mine", "growing", CPU("1"), OnNode("n1"), Prioritized("important"))
			low := CreatePod(ctx, "somebody-else", "low", CPU("3"), OnNode("n1"))
			tryResize(ctx, growing, "3")
			expectKept(ctx, low)
			Respec(ctx, "mine", "")
			ExpectGone(ctx, low)

			By("deleting the profile, and creating it again")
			low = CreatePod(ctx, "somebody-else", "low-2", CPU("1"), OnNode("n1"))
			ExpectCached(ctx, low)
			Expect(K8s.Delete(ctx, Profile("mine", ""))).To(Succeed())
			Eventually(func() int { return Running.Scheduler.Store().Current().Len() }).WithContext(ctx).
				Should(BeZero())
			resizeTo(ctx, growing, "3500m")
			Consistently(func(g Gomega) { expectKept(ctx, low) }).WithContext(ctx).Should(Succeed())
			CreateProfile(ctx, "mine", "")
			ExpectGone(ctx, low)
			ExpectStillScheduled(ctx, growing)
		})

		It("that is infeasible evicts nothing", func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			growing := CreatePod(ctx, "mine", "growing", CPU("1"), OnNode("n1"), Prioritized("important"))
			low := CreatePod(ctx, "somebody-else", "low", CPU("3"), OnNode("n1"))
			before := attempts()
			reportResize(ctx, growing, "1", corev1.PodReasonInfeasible)
			resizeTo(ctx, growing, "4")
			ExpectCached(ctx, growing)
			Consistently(func(g Gomega) { expectKept(ctx, low) }).WithContext(ctx).Should(Succeed())
			Expect(attempts()).To(Equal(before))
		})
	})

	It("evicts nothing without the feature gate", func(ctx context.Context) {
		StartDefault(ctx)
		CreateClasses(ctx, PriorityClass("important", 1000))
		CreateNodes(ctx, "n1")
		growing := CreatePod(ctx, "mine", "growing", CPU("1"), OnNode("n1"), Prioritized("important"))
		low := CreatePod(ctx, "somebody-else", "low", CPU("3"), OnNode("n1"))
		before := attempts()
		resizeTo(ctx, growing, "3")
		reportResize(ctx, growing, "1", corev1.PodReasonDeferred)
		ExpectCached(ctx, growing)
		Consistently(func(g Gomega) { expectKept(ctx, low) }).WithContext(ctx).Should(Succeed())
		Expect(attempts()).To(Equal(before))
	})
})
