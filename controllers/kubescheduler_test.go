// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
)

var _ = Describe("A profile with the scheduler name of kube-scheduler", func() {
	const name = corev1.DefaultSchedulerName
	const warning = "warning: kube-scheduler runs as well (node-1_uid holds the Lease kube-system/kube-scheduler)"
	inUse := haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonSchedulerNameInUse,
		"Generation 1 does not run: kube-scheduler runs (node-1_uid holds the Lease kube-system/kube-scheduler)",
		"--yield-to-kube-scheduler=false")
	warns := haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, warning)

	It("runs, and warns while a kube-scheduler runs", func(ctx context.Context) {
		start()
		createNodes(ctx)
		create(ctx, profile(name, ``), profile("mine", ``))
		expectProfile(ctx, name, isProgrammed)
		expectBound(ctx, createPod(ctx, "alone", name))

		lease := startKubeScheduler(ctx)
		warned := expectProfile(ctx, name, warns)
		Eventually(eventsOf).WithArguments(ctx, warned).Should(ContainElement(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", v1alpha1.ReasonKubeSchedulerRuns),
			HaveField("Note", ContainSubstring(warning)))))
		other := expectProfile(ctx, "mine", isProgrammed)
		Expect(meta.FindStatusCondition(other.Status.Conditions, v1alpha1.ConditionProgrammed).Message).
			NotTo(ContainSubstring("warning"))
		expectBound(ctx, createPod(ctx, "beside", name))

		By("changing its spec meanwhile")
		change(ctx, warned, `percentageOfNodesToScore: 50`)
		expectProfile(ctx, name, warns)

		By("stopping kube-scheduler, which releases its lease")
		lease.Spec.HolderIdentity = ptr.To("")
		Expect(k8s.Update(ctx, lease)).To(Succeed())
		expectProfile(ctx, name,
			haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, " is active"),
			Not(ContainElement(HaveField("Message", ContainSubstring("runs as well")))))
	})

	It("does not begin to run while a kube-scheduler runs", func(ctx context.Context) {
		lease := startKubeScheduler(ctx)
		start()
		createNodes(ctx)
		create(ctx, policy("mine", ``), profile(name, `policyRef: {name: mine}`),
			profile("other", `policyRef: {name: mine}`))
		held := expectProfile(ctx, name, isAccepted, inUse,
			haveCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSchedulerNameInUse),
			Not(ContainElement(HaveField("Type", v1alpha1.ConditionStalled))))
		Expect(held.Status.Active).To(BeNil())
		Eventually(eventsOf).WithArguments(ctx, held).Should(ContainElement(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", v1alpha1.ReasonSchedulerNameInUse))))
		expectPolicy(ctx, "mine",
			haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonSchedulerNameInUse,
				"Generation 1 is not active in profile default-scheduler: kube-scheduler runs"))
		expectProfile(ctx, "other", isProgrammed)
		expectBound(ctx, createPod(ctx, "of-another-profile", "other"))
		waiting := createPod(ctx, "waiting", name)
		expectPending(ctx, waiting)
		Expect(waiting.Status.Conditions).To(BeEmpty(), "livesched says nothing about a pod of kube-scheduler")

		By("stopping kube-scheduler, which releases its lease")
		lease.Spec.HolderIdentity = ptr.To("")
		Expect(k8s.Update(ctx, lease)).To(Succeed())
		expectBound(ctx, waiting)
		expectProfile(ctx, name, isProgrammed)
		expectPolicy(ctx, "mine", isProgrammed)
		Expect(eventsOf(ctx, held)).NotTo(ContainElement(HaveField("Reason", v1alpha1.ReasonPending)),
			"reading the Lease is no news")
	})

	It("begins when kube-scheduler has not renewed its lease in time", func(ctx context.Context) {
		lease := startKubeScheduler(ctx)
		start()
		createNodes(ctx)
		create(ctx, profile(name, ``))
		expectProfile(ctx, name, inUse)
		// for the last time
		lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = ptr.To(metav1.NowMicro()), ptr.To[int32](1)
		Expect(k8s.Update(ctx, lease)).To(Succeed())
		expectBound(ctx, createPod(ctx, "waiting", name))
	})

	It("goes on after a restart if it ran before, and not if it was created again", func(ctx context.Context) {
		first := start()
		createNodes(ctx)
		create(ctx, profile(name, ``))
		expectProfile(ctx, name, isProgrammed)
		Expect(first.Stop(patience)).To(Succeed())

		startKubeScheduler(ctx)
		second := start()
		expectBound(ctx, createPod(ctx, "after", name))
		again := expectProfile(ctx, name, warns)
		Expect(second.Stop(patience)).To(Succeed())

		Expect(k8s.Delete(ctx, again)).To(Succeed())
		create(ctx, profile(name, ``))
		start()
		expectProfile(ctx, name, inUse)
	})

	It("runs beside a kube-scheduler with --yield-to-kube-scheduler=false", func(ctx context.Context) {
		startKubeScheduler(ctx)
		start(func(o *app.Options) { o.YieldToKubeScheduler = false })
		createNodes(ctx)
		create(ctx, profile(name, ``))
		expectProfile(ctx, name, warns)
		expectBound(ctx, createPod(ctx, "beside", name))
	})
})

// startKubeScheduler creates the Lease of a kube-scheduler that has just renewed it, until the end
// of the spec.
func startKubeScheduler(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-scheduler"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("node-1_uid"), RenewTime: ptr.To(metav1.NowMicro()),
			LeaseDurationSeconds: ptr.To[int32](3600),
		},
	}
	create(ctx, lease)
	DeferCleanup(k8s.Delete, lease)
	return lease
}
