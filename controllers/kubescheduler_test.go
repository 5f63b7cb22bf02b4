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
)

var _ = Describe("A profile with the scheduler name of kube-scheduler", func() {
	It("runs, and warns while a kube-scheduler runs", func(ctx context.Context) {
		start()
		createNodes(ctx)
		create(ctx, profile(corev1.DefaultSchedulerName, ``), profile("mine", ``))
		expectProfile(ctx, corev1.DefaultSchedulerName, isProgrammed)
		expectBound(ctx, createPod(ctx, "alone", corev1.DefaultSchedulerName))

		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-scheduler"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("node-1_uid"), RenewTime: ptr.To(metav1.NowMicro()), LeaseDurationSeconds: ptr.To[int32](3600),
			},
		}
		create(ctx, lease)
		DeferCleanup(k8s.Delete, lease)
		const warning = "warning: kube-scheduler runs as well (node-1_uid holds the Lease kube-system/kube-scheduler)"
		warned := expectProfile(ctx, corev1.DefaultSchedulerName,
			haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, warning))
		Eventually(eventsOf).WithArguments(ctx, warned).Should(ContainElement(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", v1alpha1.ReasonKubeSchedulerRuns), HaveField("Note", ContainSubstring(warning)))))
		other := expectProfile(ctx, "mine", isProgrammed)
		Expect(meta.FindStatusCondition(other.Status.Conditions, v1alpha1.ConditionProgrammed).Message).NotTo(ContainSubstring("warning"))
		expectBound(ctx, createPod(ctx, "beside", corev1.DefaultSchedulerName))

		By("stopping kube-scheduler, which releases its lease")
		lease.Spec.HolderIdentity = ptr.To("")
		Expect(k8s.Update(ctx, lease)).To(Succeed())
		expectProfile(ctx, corev1.DefaultSchedulerName,
			haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, " is active"), Not(ContainElement(HaveField("Message", ContainSubstring("runs as well")))))
	})
})
