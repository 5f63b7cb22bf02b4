// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("Deleting a profile", func() {
	var run *testcluster.Running

	BeforeEach(func() { run = start() })

	It("is reported on pending pods, which are scheduled once the profile is back", func(ctx context.Context) {
		mine := profile("mine", "")
		create(ctx, mine)
		expectProfile(ctx, "mine", isProgrammed)
		pods := []*corev1.Pod{createPod(ctx, "one", "mine"), createPod(ctx, "two", "mine")}
		for _, pod := range pods {
			Eventually(eventsOf).WithArguments(ctx, pod).
				Should(ContainElement(HaveField("Note", "no nodes available to schedule pods")))
		}

		Expect(k8s.Delete(ctx, mine)).To(Succeed())
		for _, pod := range pods {
			Eventually(eventsOf).WithArguments(ctx, pod).Should(ContainElement(And(
				HaveField("Type", corev1.EventTypeWarning),
				HaveField("Reason", "FailedScheduling"),
				HaveField("ReportingController", "mine"),
				HaveField("Note", ContainSubstring(`the SchedulerProfile with scheduler name "mine" is gone`)),
			)))
		}
		Expect(run.Scheduler.Store().Current().Get("mine")).To(BeNil())
		createNodes(ctx)
		for _, pod := range pods {
			expectPending(ctx, pod)
		}

		create(ctx, profile("mine", packs))
		for _, pod := range pods {
			Expect(expectBound(ctx, pod)).To(Equal(busy))
		}
	})

	It("and creating it again starts without a last good spec", func(ctx context.Context) {
		createNodes(ctx)
		mine := profile("mine", packs)
		create(ctx, mine)
		expectProfile(ctx, "mine", isProgrammed)
		Expect(k8s.Delete(ctx, mine)).To(Succeed())
		create(ctx, profile("mine", refusals[0].spec))
		again := expectProfile(ctx, "mine", isRefused(refusals[0].reason), neverRan)
		Expect(again.Status.Active).To(BeNil())
		expectPending(ctx, createPod(ctx, "waiting", "mine"))
	})

	It("leaves nothing behind", func(ctx context.Context) {
		create(ctx, profile("stays", ""))
		expectProfile(ctx, "stays", isProgrammed)
		store := run.Scheduler.Store()
		handlers := run.Informers.Handlers()
		for range 3 {
			mine := profile("mine", packs)
			create(ctx, mine)
			expectProfile(ctx, "mine", isProgrammed)
			Expect(k8s.Delete(ctx, mine)).To(Succeed())
			Eventually(func() any { return store.Current().Get("mine") }).Should(BeNil())
		}
		Eventually(store.Alive).Should(Equal(1))
		Eventually(run.Informers.Handlers).Should(Equal(handlers))
	})
})

// eventsOf lists the Events on an object.
func eventsOf(ctx context.Context, object client.Object) ([]eventsv1.Event, error) {
	var list eventsv1.EventList
	if err := k8s.List(ctx, &list); err != nil {
		return nil, err
	}
	var of []eventsv1.Event
	for _, e := range list.Items {
		if e.Regarding.UID == object.GetUID() {
			of = append(of, e)
		}
	}
	return of, nil
}
