// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

// ExpectProgrammed waits until the current generation of a profile is programmed.
func ExpectProgrammed(ctx context.Context, name string) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	return ExpectCondition(ctx, name, v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
}

// ExpectCondition waits until the status of a profile has a condition and is about the current
// generation.
func ExpectCondition(ctx context.Context, name, kind string, status metav1.ConditionStatus,
	reason string) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	p := &v1alpha1.SchedulerProfile{}
	Eventually(func(g Gomega) {
		g.Expect(K8s.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
		g.Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
		condition := meta.FindStatusCondition(p.Status.Conditions, kind)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(*condition).To(And(HaveField("Status", status), HaveField("Reason", reason),
			HaveField("ObservedGeneration", p.Generation)))
	}).WithContext(ctx).Should(Succeed())
	return p
}

// ExpectKnown waits until the running livesched has seen a node. livesched watches nodes and pods
// separately; a pod that is created after ExpectKnown finds the node.
func ExpectKnown(ctx context.Context, name string) {
	GinkgoHelper()
	if Running == nil {
		return
	}
	Eventually(func() bool {
		info := Running.Parts().Cache.Dump().Nodes[name]
		return info != nil && info.Node() != nil
	}).WithContext(ctx).Should(BeTrue(), "node %s is to be known", name)
}

// ExpectCached waits until the running livesched reads the given version of an object or a newer
// one. It is for objects that livesched watches separately from those that depend on them. For
// example, a profile that is created after ExpectCached for its policy is built with that policy
// from the start, and is not built again when the policy arrives.
func ExpectCached(ctx context.Context, object client.Object) {
	GinkgoHelper()
	if Running == nil {
		return
	}
	Eventually(func(g Gomega) {
		cached := object.DeepCopyObject().(client.Object)
		g.Expect(Running.GetCache().Get(ctx, client.ObjectKeyFromObject(object), cached)).To(Succeed())
		g.Expect(versionOf(g, cached)).To(BeNumerically(">=", versionOf(g, object)))
	}).WithContext(ctx).Should(Succeed(), "%s is to be known", object.GetName())
}

// versionOf returns the resource version of an object as a number. Versions increase with every
// write.
func versionOf(g Gomega, object client.Object) uint64 {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	g.Expect(err).NotTo(HaveOccurred())
	return version
}

// ExpectBound waits until a pod is bound, and returns its node.
func ExpectBound(ctx context.Context, pod *corev1.Pod) string {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Spec.NodeName).NotTo(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
	return pod.Spec.NodeName
}

// ExpectPending checks that a pod stays unbound.
func ExpectPending(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Consistently(func(g Gomega) {
		g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Spec.NodeName).To(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
}

// ExpectUnscheduled waits until the status of a pod has a given reason for which it is not
// scheduled.
func ExpectUnscheduled(ctx context.Context, pod *corev1.Pod, reason string, message gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(*pod).To(BeUnscheduled(reason, message))
	}).WithContext(ctx).Should(Succeed())
}

// BeUnscheduled matches a pod whose status has a given reason for which it is not scheduled.
func BeUnscheduled(reason string, message gomegatypes.GomegaMatcher) gomegatypes.GomegaMatcher {
	return HaveField("Status.Conditions", ContainElement(And(
		HaveField("Type", corev1.PodScheduled),
		HaveField("Status", corev1.ConditionFalse),
		HaveField("Reason", reason),
		HaveField("Message", message),
	)))
}

// BeUnschedulable matches a pod whose status reports that it is unschedulable, and why.
func BeUnschedulable(message gomegatypes.GomegaMatcher) gomegatypes.GomegaMatcher {
	return BeUnscheduled(corev1.PodReasonUnschedulable, message)
}

// ExpectUnschedulable waits until the status of a pod reports that it is unschedulable, and why.
func ExpectUnschedulable(ctx context.Context, pod *corev1.Pod, message string) {
	GinkgoHelper()
	ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, Equal(message))
}

// EventsOf lists the Events about a pod that have a given reason.
func EventsOf(ctx context.Context, pod *corev1.Pod, reason string) []eventsv1.Event {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(K8s.List(ctx, &list, client.InNamespace(pod.Namespace))).To(Succeed())
	var found []eventsv1.Event
	for _, event := range list.Items {
		if event.Regarding.UID == pod.UID && event.Reason == reason {
			found = append(found, event)
		}
	}
	return found
}

// ExpectEvent waits for an Event about a pod and returns it.
func ExpectEvent(ctx context.Context, pod *corev1.Pod, reason string, note gomegatypes.GomegaMatcher) eventsv1.Event {
	GinkgoHelper()
	var found []eventsv1.Event
	Eventually(func(g Gomega) {
		found = EventsOf(ctx, pod, reason)
		g.Expect(found).To(ContainElement(HaveField("Note", note), &found))
	}).WithContext(ctx).Should(Succeed())
	return found[0]
}

// ExpectStillScheduled checks that the status of a bound pod keeps reporting that it is scheduled.
func ExpectStillScheduled(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Consistently(func(g Gomega) {
		g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Conditions).
			To(ContainElement(And(HaveField("Type", corev1.PodScheduled), HaveField("Status", corev1.ConditionTrue))))
		g.Expect(EventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
}

// ExpectGone waits until an object is deleted.
func ExpectGone(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Eventually(func() bool {
		return apierrors.IsNotFound(K8s.Get(ctx, client.ObjectKeyFromObject(object), object))
	}).WithContext(ctx).Should(BeTrue())
}
