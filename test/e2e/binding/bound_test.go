// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// tooSmall is the message about one node that never has room for the pod.
const tooSmall = "0/1 nodes are available: 1 Insufficient cpu." +
	" preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."

// The specs check what the API shows of a pod afterwards; kube-scheduler writes the same (see
// framework.Oracle).
var _ = Describe("What livesched reports about a pod", Ordered, ContinueOnFailure, func() {
	Stage(map[string]string{"mine": ""})

	// about matches an Event with this action and type, about the pod and from its scheduler.
	about := func(pod *corev1.Pod, action, kind string) OmegaMatcher {
		return And(
			HaveField("Action", action),
			HaveField("Type", kind),
			HaveField("ReportingController", "mine"),
			HaveField("ReportingInstance", HavePrefix("mine-")),
			HaveField("Regarding", And(
				HaveField("Kind", "Pod"), HaveField("APIVersion", "v1"), HaveField("Namespace", pod.Namespace),
				HaveField("Name", pod.Name), HaveField("UID", pod.UID))),
			HaveField("Related", BeNil()),
			HaveField("EventTime.IsZero()", BeFalse()),
		)
	}

	It("that is bound: its node, once, and that it is scheduled", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		pod := CreatePod(ctx, "mine", "pod")
		ExpectBound(ctx, pod)
		Expect(pod.Status.Conditions).To(HaveExactElements(And(
			HaveField("Type", corev1.PodScheduled), HaveField("Status", corev1.ConditionTrue),
			HaveField("Reason", ""), HaveField("Message", ""), HaveField("LastTransitionTime.IsZero()", BeFalse()))))
		Expect(pod.Status.NominatedNodeName).To(BeEmpty())
		event := ExpectEvent(ctx, pod, "Scheduled", Equal("Successfully assigned default/pod to n1"))
		Expect(event).To(about(pod, "Binding", corev1.EventTypeNormal))
		Consistently(func() []eventsv1.Event { return EventsOf(ctx, pod, "Scheduled") }).Should(HaveLen(1))
		Expect(EventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
	})

	It("that is unschedulable: the reason, in an Event and a condition with the same text", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		pod := CreatePod(ctx, "mine", "pod", CPU("5"))
		ExpectUnschedulable(ctx, pod, tooSmall)
		Expect(ExpectEvent(ctx, pod, "FailedScheduling", Equal(tooSmall))).
			To(about(pod, "Scheduling", corev1.EventTypeWarning))
		Expect(EventsOf(ctx, pod, "Scheduled")).To(BeEmpty())
	})

	It("that is unschedulable for very many reasons: all of them in the condition, and as many as fit in the Event",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			requests := corev1.ResourceList{}
			for i := range 30 {
				requests[corev1.ResourceName(fmt.Sprintf("example.com/%s-%d", strings.Repeat("x", 50),
					i))] = resource.MustParse("1")
			}
			pod := CreatePod(ctx, "mine", "pod", func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: requests}
			})
			ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable,
				HavePrefix("0/1 nodes are available: 1 Insufficient example.com/"))
			whole := pod.Status.Conditions[0].Message
			Expect(len(whole)).To(BeNumerically(">", validation.NoteLengthLimit))
			event := ExpectEvent(ctx, pod, "FailedScheduling", HaveSuffix(" ..."))
			Expect(event.Note).To(HaveLen(validation.NoteLengthLimit))
			Expect(whole).To(HavePrefix(strings.TrimSuffix(event.Note, " ...")))
		})

	It("that preempts others: its nominated node, until it is bound there", func(ctx context.Context) {
		CreateClasses(ctx, PriorityClass("important", 1000))
		CreateNodes(ctx, "n1")
		low := PodOf("somebody-else", "low", CPU("3"), OnNode("n1"), Witnessed)
		Create(ctx, low)
		DeferCleanup(func(ctx context.Context) { Release(ctx, low) })
		ExpectSeen(ctx, 1)
		pod := CreatePod(ctx, "mine", "pod", CPU("3"), Prioritized("important"))
		Eventually(func(g Gomega) {
			g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			g.Expect(pod.Status.NominatedNodeName).To(Equal("n1"))
		}).WithContext(ctx).Should(Succeed())
		Release(ctx, low)
		ExpectBound(ctx, pod)
		ExpectNominationEnded(pod)
	})

	It("that was nominated for a deleted node: no nominated node any more", func(ctx context.Context) {
		CreateClasses(ctx, PriorityClass("important", 1000))
		CreateNodes(ctx, "n1")
		low := PodOf("somebody-else", "low", CPU("3"), OnNode("n1"), Witnessed)
		Create(ctx, low)
		DeferCleanup(func(ctx context.Context) { Release(ctx, low) })
		ExpectSeen(ctx, 1)
		pod := CreatePod(ctx, "mine", "pod", CPU("3"), Prioritized("important"))
		Eventually(func(g Gomega) {
			g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			g.Expect(pod.Status.NominatedNodeName).To(Equal("n1"))
		}).WithContext(ctx).Should(Succeed())
		Expect(K8s.Delete(ctx, Node("n1", "4", "8Gi", nil))).To(Succeed())
		CreateNodes(ctx, "n2")
		Expect(ExpectBound(ctx, pod)).To(Equal("n2"))
		ExpectNominationEnded(pod)
	})
})

var _ = Describe("A pod that changes while it is being bound", func() {
	var s *Script

	BeforeEach(func(ctx context.Context) {
		s = &Script{}
		Start(s.Register)
		Create(ctx, QuickRetries())
		CreateNodes(ctx, "n1", "n2")
		CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
	})

	It("counts in its new form once it is bound", func(ctx context.Context) {
		preparing, prepared := make(chan struct{}), make(chan struct{})
		s.Perform(func(a *Acts) {
			a.PreBind = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "pod" {
					close(preparing)
					<-prepared
				}
				return nil
			}
		})
		pod := CreatePod(ctx, "mine", "pod", Labelled("app", "quiet"), Selecting(corev1.LabelHostname, "n1"))
		Eventually(preparing).Should(BeClosed())
		Update(ctx, pod, Labelled("app", "noisy"))
		By("neither queueing nor placing it again")
		ExpectPending(ctx, pod)
		close(prepared)
		ExpectBound(ctx, pod)
		Expect(s.At(pod, "PreFilter")).To(HaveLen(1))
		// The scheduler receives the binding and the new label as one event, so a pod that is
		// scheduled with the first one bound sees both.
		for _, name := range Names("hermit", 3) {
			hermit := CreatePod(ctx, "mine", name, AwayFrom("app", "noisy"))
			Expect(ExpectBound(ctx, hermit)).To(Equal("n2"))
		}
	})

	It("and is deleted frees its room immediately, and no failure is reported", func(ctx context.Context) {
		preparing, prepared := make(chan struct{}), make(chan struct{})
		s.Perform(func(a *Acts) {
			a.PreBind = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "pod" {
					close(preparing)
					<-prepared
				}
				return nil
			}
		})
		pod := CreatePod(ctx, "mine", "pod", CPU("3"), Selecting(corev1.LabelHostname, "n1"))
		Eventually(preparing).Should(BeClosed())
		late := CreatePod(ctx, "mine", "late", CPU("3"), Selecting(corev1.LabelHostname, "n1"))
		ExpectUnscheduled(ctx, late, corev1.PodReasonUnschedulable, Not(BeEmpty()))
		Expect(K8s.Delete(ctx, pod)).To(Succeed())
		By("while its PreBind plugin still runs")
		ExpectBound(ctx, late)
		close(prepared)
		Eventually(s.At).WithArguments(pod, "Unreserve").Should(Equal([]string{Alpha}))
		Expect(EventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
		Expect(s.At(pod, "PostBind")).To(BeEmpty())
		By("leaving the room to the pods that have it now")
		ExpectUnscheduled(ctx, CreatePod(ctx, "mine", "later", CPU("3"), Selecting(corev1.LabelHostname, "n1")),
			corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 1 Insufficient cpu, "))
	})
})
