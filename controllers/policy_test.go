// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/testcluster"
)

const (
	autoscaler = `
algorithmSource: {provider: ClusterAutoscalerProvider}
`
	byDefault = `
algorithmSource: {provider: DefaultProvider}
`
)

var _ = Describe("A policy", func() {
	var run *testcluster.Running

	BeforeEach(func(ctx context.Context) {
		createNodes(ctx)
		run = start()
	})

	It("changes all profiles that use it, and names them", func(ctx context.Context) {
		shared := policy("shared", byDefault)
		create(ctx, shared)
		create(ctx, profile("b", "policyRef: {name: shared}"), profile("a", "policyRef: {name: shared}"),
			profile("c", ""))
		Eventually(func(g Gomega) {
			g.Expect(expectPolicy(ctx, "shared", isAccepted, isProgrammed).Status.Profiles).
				To(Equal([]string{"a", "b"}))
		}).Should(Succeed())
		for _, name := range []string{"a", "b", "c"} {
			expectProfile(ctx, name, isProgrammed)
			Expect(expectBound(ctx, createPod(ctx, "first-"+name, name))).To(Equal(idle))
		}
		unrelated := expectProfile(ctx, "c", isProgrammed)

		change(ctx, shared, autoscaler)
		expectPolicy(ctx, "shared", isAccepted,
			haveCondition(v1alpha1.ConditionProgrammed, "True", v1alpha1.ReasonProgrammed,
				"Generation 2 is active in profiles a, b"))
		for _, name := range []string{"a", "b"} {
			Expect(expectOn(ctx, name, "shared", 2).Status.Active.Generation).To(Equal(int64(1)))
			Expect(expectBound(ctx, createPod(ctx, "second-"+name, name))).To(Equal(busy))
		}
		Expect(expectProfile(ctx, "c", isProgrammed).ResourceVersion).To(Equal(unrelated.ResourceVersion))
	})

	It("names a profile whose active revision builds on it, also while the present spec is rejected",
		func(ctx context.Context) {
			shared := policy("shared", byDefault)
			create(ctx, shared)
			create(ctx, profile("a", "policyRef: {name: shared}"), profile("b", "policyRef: {name: shared}"))
			expectOn(ctx, "a", "shared", 1)
			expectOn(ctx, "b", "shared", 1)
			change(ctx, profile("a", ""), refusals[0].spec)
			expectProfile(ctx, "a", keepsLastGood)
			Consistently(func(g Gomega) {
				status := expectPolicy(ctx, "shared", isAccepted,
					haveCondition(v1alpha1.ConditionProgrammed, "True", v1alpha1.ReasonProgrammed,
						"Generation 1 is active in profiles a, b")).Status
				g.Expect(status.Profiles).To(Equal([]string{"a", "b"}))
				g.Expect(status.ProfileCount).To(Equal(int32(2)))
			}).WithTimeout(time.Second).Should(Succeed())
		})

	It("named default applies to profiles without a policyRef while it exists", func(ctx context.Context) {
		create(ctx, profile("mine", ""))
		builtIn := expectProfile(ctx, "mine", isProgrammed)
		Expect(builtIn.Status.Active.Policy).To(BeNil())

		By("creating it with the built-in defaults")
		implied := policy("default", "")
		create(ctx, implied)
		Expect(expectPolicy(ctx, "default", isAccepted, isProgrammed).Status.Profiles).To(Equal([]string{"mine"}))
		same := expectOn(ctx, "mine", "default", 1)
		same.Status.Active.Policy = nil
		Expect(same.Status.Active).To(Equal(builtIn.Status.Active))
		Expect(expectBound(ctx, createPod(ctx, "implied", "mine"))).To(Equal(idle))

		By("changing it")
		change(ctx, implied, autoscaler)
		expectPolicy(ctx, "default", isProgrammed)
		Expect(expectBound(ctx, createPod(ctx, "changed", "mine"))).To(Equal(busy))

		By("deleting it")
		Expect(k8s.Delete(ctx, implied)).To(Succeed())
		Eventually(func(g Gomega) {
			p := expectProfile(ctx, "mine", isAccepted, isProgrammed)
			g.Expect(p.Status.Active.Policy).To(BeNil())
			g.Expect(p.Status.Active.Revision).To(Equal(builtIn.Status.Active.Revision))
		}).Should(Succeed())
		Expect(expectBound(ctx, createPod(ctx, "gone", "mine"))).To(Equal(idle))
	})

	It("sets the percentage of nodes to score and the back-off of pods", func(ctx context.Context) {
		shared := policy("default", "")
		create(ctx, shared)
		create(ctx, profile("mine", ""), profile("own", "percentageOfNodesToScore: 7"))
		before := expectOn(ctx, "mine", "default", 1)
		change(ctx, shared, `
percentageOfNodesToScore: 50
parallelism: 3
podInitialBackoff: 2s
podMaxBackoff: 20s
podMaxInUnschedulablePods: 1m0s
`)
		expectPolicy(ctx, "default", isProgrammed)
		after := expectOn(ctx, "mine", "default", 2)
		Expect(after.Status.Active.Revision).NotTo(Equal(before.Status.Active.Revision))
		current := run.Scheduler.Store().Current()
		Expect(current.Get("mine").Config.PercentageOfNodesToScore).To(Equal(int32(50)))
		Expect(current.Get("own").Config.PercentageOfNodesToScore).To(Equal(int32(7)), "the profile has its own")
		Expect(current.Get("mine").Config.Parallelism).To(Equal(int32(3)))
		for _, settings := range current.QueueSettings().Profiles {
			Expect(settings.InitialBackoff).To(Equal(2 * time.Second))
			Expect(settings.MaxBackoff).To(Equal(20 * time.Second))
			Expect(settings.MaxInUnschedulable).To(Equal(time.Minute))
		}
	})

	It("that is no longer accepted keeps its last good spec", func(ctx context.Context) {
		shared := policy("shared", autoscaler)
		create(ctx, shared, profile("mine", "policyRef: {name: shared}"))
		before := expectOn(ctx, "mine", "shared", 1)
		expectPolicy(ctx, "shared", isProgrammed)

		change(ctx, shared, extended)
		expectPolicy(ctx, "shared", isRefused(v1alpha1.ReasonSecretNotFound, "spec.extenders[0].tlsConfig.secretRef: "),
			keepsLastGood)
		Eventually(func(g Gomega) {
			g.Expect(expectProfile(ctx, "mine", isProgrammed).Status.Conditions).To(
				haveCondition(v1alpha1.ConditionAccepted, "True", v1alpha1.ReasonAccepted,
					`SchedulingPolicy "shared" is not`, "generation 1"))
		}).Should(Succeed())
		Expect(expectProfile(ctx, "mine").Status.Active).To(Equal(before.Status.Active))
		Expect(expectBound(ctx, createPod(ctx, "by-old-rules", "mine"))).To(Equal(busy))

		By("fixing it")
		change(ctx, shared, byDefault)
		expectPolicy(ctx, "shared", isAccepted, isProgrammed)
		expectOn(ctx, "mine", "shared", 3)
		Expect(expectBound(ctx, createPod(ctx, "by-new-rules", "mine"))).To(Equal(idle))
	})

	It("that was never accepted keeps its profiles from running until it is", func(ctx context.Context) {
		legacyPolicy := policy("legacy", legacy)
		create(ctx, legacyPolicy, profile("mine", "policyRef: {name: legacy}"))
		expectPolicy(ctx, "legacy",
			isRefused(v1alpha1.ReasonInvalid, "spec.algorithmSource.policy.predicates[0].name: ", `"PodFitsEverywhere"`,
				"GeneralPredicates"), neverRan)
		expectProfile(ctx, "mine", isRefused(v1alpha1.ReasonPolicyNotAccepted), neverRan)

		change(ctx, legacyPolicy, autoscaler)
		Eventually(func(g Gomega) {
			g.Expect(expectPolicy(ctx, "legacy", isAccepted, isProgrammed).Status.Profiles).To(Equal([]string{"mine"}))
		}).Should(Succeed())
		expectProfile(ctx, "mine", isAccepted, isProgrammed)
	})

	It("that is deleted while a profile references it leaves the profile as it was until it is back",
		func(ctx context.Context) {
			shared := policy("shared", autoscaler)
			create(ctx, shared, profile("mine", "policyRef: {name: shared}"))
			expectProfile(ctx, "mine", isProgrammed)
			Expect(k8s.Delete(ctx, shared)).To(Succeed())
			kept := expectProfile(ctx, "mine",
				isRefused(v1alpha1.ReasonPolicyNotFound, "spec.policyRef.name: ", `"shared"`), keepsLastGood)
			Expect(kept.Status.Active.Policy).To(Equal(&v1alpha1.ActivePolicy{Name: "shared", Generation: 1}))
			Expect(expectBound(ctx, createPod(ctx, "by-old-rules", "mine"))).To(Equal(busy))
			create(ctx, policy("shared", byDefault))
			expectProfile(ctx, "mine", isAccepted, isProgrammed)
			Expect(expectBound(ctx, createPod(ctx, "by-new-rules", "mine"))).To(Equal(idle))
		})

	It("that no profile uses is programmed, and its condition says so", func(ctx context.Context) {
		create(ctx, policy("unused", ""))
		unused := expectPolicy(ctx, "unused", isAccepted,
			haveCondition(v1alpha1.ConditionProgrammed, "True", v1alpha1.ReasonProgrammed,
				"No accepted profile uses this policy"))
		Expect(unused.Status.Profiles).To(BeEmpty())
	})
})
