// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livesched/livesched/api/v1alpha1"
)

// refusal is a spec that is not accepted, and the text of its condition.
type refusal struct {
	name, spec, reason string
	words              []string
}

// Policies that are not accepted, next to the profiles:
const (
	extended = `
extenders: [{urlPrefix: "https://extender.example", filterVerb: filter, tlsConfig: {secretRef: {namespace: default, name: nowhere}}}]
`
	legacy = `
algorithmSource: {policy: {predicates: [{name: PodFitsEverywhere}]}}
`
)

var refusals = []refusal{
	{
		"an unknown plugin",
		`plugins: {score: {enabled: [{name: NodeAffinity}, {name: NoSuchPlugin}]}}`,
		v1alpha1.ReasonUnknownPlugin, []string{"spec.plugins.score.enabled[1].name: ", `unknown plugin "NoSuchPlugin"`},
	},
	{
		"args of an unknown plugin",
		`pluginConfig: [{name: NoSuchPlugin}]`,
		v1alpha1.ReasonUnknownPlugin, []string{"spec.pluginConfig[0].name: ", `"NoSuchPlugin"`},
	},
	{
		"an unknown field in args",
		`pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategies: {type: MostAllocated}}}]`,
		v1alpha1.ReasonInvalidArgs, []string{"spec.pluginConfig[0].args: ", `unknown field "scoringStrategies"`},
	},
	{
		"args of the wrong kind",
		`pluginConfig: [{name: NodeResourcesFit, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: ` +
			`InterPodAffinityArgs}}]`,
		v1alpha1.ReasonInvalidArgs,
		[]string{"spec.pluginConfig[0].args: ", "kind NodeResourcesFitArgs", "kind InterPodAffinityArgs"},
	},
	{
		"a value in args that there is not",
		`pluginConfig: [{name: InterPodAffinity}, {name: NodeResourcesFit, args: {scoringStrategy: {type: Tightest}}}]`,
		v1alpha1.ReasonInvalidArgs, []string{"spec.pluginConfig[1].args.scoringStrategy.type: ", `"Tightest"`},
	},
	{
		"a policy that does not exist",
		`policyRef: {name: nowhere}`,
		v1alpha1.ReasonPolicyNotFound, []string{"spec.policyRef.name: ", `"nowhere"`},
	},
	{
		"a policy with an extender whose Secret does not exist",
		`policyRef: {name: extended}`,
		v1alpha1.ReasonPolicyNotAccepted,
		[]string{"spec.policyRef.name: ", `"extended"`, "SecretNotFound", "spec.extenders[0].tlsConfig.secretRef: "},
	},
	{
		"a policy with a predicate that there is not",
		`policyRef: {name: legacy}`,
		v1alpha1.ReasonPolicyNotAccepted,
		[]string{"spec.policyRef.name: ", `"legacy"`, "Invalid", "spec.algorithmSource.policy.predicates[0].name: "},
	},
}

var _ = Describe("A profile that is not accepted", func() {
	BeforeEach(func(ctx context.Context) {
		createNodes(ctx)
		create(ctx, policy("extended", extended), policy("legacy", legacy))
		start()
	})

	for _, refusal := range refusals {
		It("changes nothing: "+refusal.name, func(ctx context.Context) {
			mine := profile("mine", packs)
			create(ctx, mine)
			good := expectProfile(ctx, "mine", isAccepted, isProgrammed)

			change(ctx, mine, refusal.spec)
			refused := expectProfile(ctx, "mine", isRefused(refusal.reason, refusal.words...), keepsLastGood)
			Expect(refused.Status.Active).To(Equal(good.Status.Active))
			Expect(refused.Status.Conditions).
				To(haveCondition(v1alpha1.ConditionProgrammed, "False", v1alpha1.ReasonKeptLastGood,
					"Generation 2 is not accepted",
					fmt.Sprintf("revision %s of generation 1 stays active", good.Status.Active.Revision)))
			Expect(expectBound(ctx, createPod(ctx, "by-old-rules", "mine"))).To(Equal(busy))

			By("fixing it")
			change(ctx, mine, spreads)
			mended := expectProfile(ctx, "mine", isAccepted, isProgrammed)
			Expect(mended.Status.Active.Generation).To(Equal(int64(3)))
			Expect(expectBound(ctx, createPod(ctx, "by-new-rules", "mine"))).To(Equal(idle))
		})
	}

	It("does not delay others, and does not run if it never ran", func(ctx context.Context) {
		for i, refusal := range refusals {
			create(ctx, profile(fmt.Sprintf("bad-%d", i), refusal.spec))
		}
		create(ctx, profile("good", ""))
		expectProfile(ctx, "good", isAccepted, isProgrammed)
		expectBound(ctx, createPod(ctx, "good", "good"))
		for i, refusal := range refusals {
			refused := expectProfile(ctx, fmt.Sprintf("bad-%d", i), isRefused(refusal.reason, refusal.words...),
				neverRan)
			Expect(refused.Status.Active).To(BeNil())
		}
		waiting := createPod(ctx, "waiting", "bad-0")
		expectPending(ctx, waiting)

		By("fixing one")
		change(ctx, profile("bad-0", ""), spreads)
		expectProfile(ctx, "bad-0", isAccepted, isProgrammed)
		expectBound(ctx, waiting)
		expectProfile(ctx, "bad-1", neverRan)
	})
})
