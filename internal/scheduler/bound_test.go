// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

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

	"github.com/livesched/livesched/test/objects"
)

// What the API says of a pod afterwards; kube-scheduler writes the same (see oracle).
var _ = Describe("What is said of a pod", Ordered, ContinueOnFailure, func() {
	stage(map[string]string{"mine": ""})

	// about is what an Event says of its pod and its author.
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

	It("that is bound: where, once, and that it is scheduled", func(ctx context.Context) {
		nodes(ctx, "n1")
		pod := createPod(ctx, "mine", "pod")
		expectBound(ctx, pod)
		Expect(pod.Status.Conditions).To(HaveExactElements(And(
			HaveField("Type", corev1.PodScheduled), HaveField("Status", corev1.ConditionTrue),
			HaveField("Reason", ""), HaveField("Message", ""), HaveField("LastTransitionTime.IsZero()", BeFalse()))))
		Expect(pod.Status.NominatedNodeName).To(BeEmpty())
		event := expectEvent(ctx, pod, "Scheduled", Equal("Successfully assigned default/pod to n1"))
		Expect(event).To(about(pod, "Binding", corev1.EventTypeNormal))
		Consistently(func() []eventsv1.Event { return eventsOf(ctx, pod, "Scheduled") }).Should(HaveLen(1))
		Expect(eventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
	})

	It("that fits nowhere: why, in an Event and a condition of the same words", func(ctx context.Context) {
		nodes(ctx, "n1")
		pod := createPod(ctx, "mine", "pod", cpu("5"))
		expectUnschedulable(ctx, pod, tooSmall)
		Expect(expectEvent(ctx, pod, "FailedScheduling", Equal(tooSmall))).To(about(pod, "Scheduling", corev1.EventTypeWarning))
		Expect(eventsOf(ctx, pod, "Scheduled")).To(BeEmpty())
	})

	It("that fits nowhere for very many reasons: all in the condition, and what an Event may hold in the Event", func(ctx context.Context) {
		nodes(ctx, "n1")
		requests := corev1.ResourceList{}
		for i := range 30 {
			requests[corev1.ResourceName(fmt.Sprintf("example.com/%s-%d", strings.Repeat("x", 50), i))] = resource.MustParse("1")
		}
		pod := createPod(ctx, "mine", "pod", func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: requests}
		})
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient example.com/"))
		whole := pod.Status.Conditions[0].Message
		Expect(len(whole)).To(BeNumerically(">", validation.NoteLengthLimit))
		event := expectEvent(ctx, pod, "FailedScheduling", HaveSuffix(" ..."))
		Expect(event.Note).To(HaveLen(validation.NoteLengthLimit))
		Expect(whole).To(HavePrefix(strings.TrimSuffix(event.Note, " ...")))
	})

	It("that preempts others: where it hopes to go, until it is there", func(ctx context.Context) {
		createClasses(ctx, priorityClass("important", 1000))
		nodes(ctx, "n1")
		low := podOf("somebody-else", "low", cpu("3"), on("n1"), witnessed)
		create(ctx, low)
		DeferCleanup(func(ctx context.Context) { release(ctx, low) })
		expectSeen(ctx, 1)
		pod := createPod(ctx, "mine", "pod", cpu("3"), prioritized("important"))
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			g.Expect(pod.Status.NominatedNodeName).To(Equal("n1"))
		}).WithContext(ctx).Should(Succeed())
		release(ctx, low)
		expectBound(ctx, pod)
		Expect(pod.Status.NominatedNodeName).To(BeEmpty())
	})

	It("that hoped for a node which is gone: nothing of that node any more", func(ctx context.Context) {
		createClasses(ctx, priorityClass("important", 1000))
		nodes(ctx, "n1")
		low := podOf("somebody-else", "low", cpu("3"), on("n1"), witnessed)
		create(ctx, low)
		DeferCleanup(func(ctx context.Context) { release(ctx, low) })
		expectSeen(ctx, 1)
		pod := createPod(ctx, "mine", "pod", cpu("3"), prioritized("important"))
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			g.Expect(pod.Status.NominatedNodeName).To(Equal("n1"))
		}).WithContext(ctx).Should(Succeed())
		Expect(k8s.Delete(ctx, objects.Node("n1", "4", "8Gi", nil))).To(Succeed())
		nodes(ctx, "n2")
		Expect(expectBound(ctx, pod)).To(Equal("n2"))
		Expect(pod.Status.NominatedNodeName).To(BeEmpty())
	})
})

var _ = Describe("A pod that changes while it is being bound", func() {
	var s *script

	BeforeEach(func(ctx context.Context) {
		s = &script{}
		start(s.register)
		create(ctx, quickRetries())
		nodes(ctx, "n1", "n2")
		createProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
	})

	It("counts as what it has become, once it is bound", func(ctx context.Context) {
		preparing, prepared := make(chan struct{}), make(chan struct{})
		s.perform(func(a *acts) {
			a.preBind = func(_ context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "pod" {
					close(preparing)
					<-prepared
				}
				return nil
			}
		})
		pod := createPod(ctx, "mine", "pod", labelled("app", "quiet"), selecting(corev1.LabelHostname, "n1"))
		Eventually(preparing).Should(BeClosed())
		update(ctx, pod, labelled("app", "noisy"))
		By("being neither queued again nor placed again for it")
		expectPending(ctx, pod)
		close(prepared)
		expectBound(ctx, pod)
		Expect(s.at(pod, "PreFilter")).To(HaveLen(1))
		// The binding and the new label come to the scheduler as one, so whoever is scheduled with
		// it bound knows of both.
		for _, name := range names("hermit", 3) {
			hermit := createPod(ctx, "mine", name, awayFrom("app", "noisy"))
			Expect(expectBound(ctx, hermit)).To(Equal("n2"))
		}
	})

	It("and is deleted gives its room back at once, and is not said to have failed", func(ctx context.Context) {
		preparing, prepared := make(chan struct{}), make(chan struct{})
		s.perform(func(a *acts) {
			a.preBind = func(_ context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "pod" {
					close(preparing)
					<-prepared
				}
				return nil
			}
		})
		pod := createPod(ctx, "mine", "pod", cpu("3"), selecting(corev1.LabelHostname, "n1"))
		Eventually(preparing).Should(BeClosed())
		late := createPod(ctx, "mine", "late", cpu("3"), selecting(corev1.LabelHostname, "n1"))
		expectUnscheduled(ctx, late, corev1.PodReasonUnschedulable, Not(BeEmpty()))
		Expect(k8s.Delete(ctx, pod)).To(Succeed())
		By("while its PreBind plugin still works")
		expectBound(ctx, late)
		close(prepared)
		Eventually(s.at).WithArguments(pod, "Unreserve").Should(Equal([]string{alpha}))
		Expect(eventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
		Expect(s.at(pod, "PostBind")).To(BeEmpty())
		By("leaving the room to those that have it now")
		expectUnscheduled(ctx, createPod(ctx, "mine", "later", cpu("3"), selecting(corev1.LabelHostname, "n1")),
			corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 1 Insufficient cpu, "))
	})
})
