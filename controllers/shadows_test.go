// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("A shadow", func() {
	// follows is the spec of a shadow of the profile "mine".
	const follows = "mode: Shadow\nshadow: {profileRef: {name: mine}}\n"
	// refuses refuses every node.
	const refuses = follows + `
pluginConfig:
- name: NodeAffinity
  args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchExpressions: [{key: nowhere, operator: Exists}]}]}}}
`
	shadowsMine := haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed,
		`shadows SchedulerProfile "mine"`)
	var run *testcluster.Running

	BeforeEach(func() { run = start() })

	// expectCounts waits until a shadow has compared decisions, and returns what it counted.
	expectCounts := func(ctx context.Context, name string, decisions int) *v1alpha1.ShadowStatus {
		GinkgoHelper()
		var p v1alpha1.SchedulerProfile
		Eventually(func(g Gomega) {
			p = v1alpha1.SchedulerProfile{}
			g.Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, &p)).To(Succeed())
			g.Expect(p.Status.Shadow).NotTo(BeNil())
			g.Expect(p.Status.Shadow.Decisions).To(BeEquivalentTo(decisions))
		}).WithContext(ctx).Should(Succeed())
		Expect(p.Status.Shadow.Revision).To(Equal(p.Status.Active.Revision))
		return p.Status.Shadow
	}

	It("makes the same decisions, and counts", func(ctx context.Context) {
		createNodes(ctx)
		create(ctx, profile("mine", ""), profile("same", follows), profile("packs", follows+packs),
			profile("refuses", refuses))
		mine := expectProfile(ctx, "mine", isProgrammed)
		for _, name := range []string{"same", "packs", "refuses"} {
			Expect(expectProfile(ctx, name, shadowsMine).Status.SchedulerName).To(BeEmpty())
		}
		const pods = 3
		for i := range pods {
			Expect(expectBound(ctx, createPod(ctx, fmt.Sprint("pod-", i), "mine"))).To(Equal(idle))
		}

		By("agreeing with the same spec")
		same := expectCounts(ctx, "same", pods)
		Expect(same.Agreed).To(BeEquivalentTo(pods))
		Expect(same.ProfileRevision).To(Equal(mine.Status.Active.Revision))
		Expect(same.Profile).To(Equal("mine"))
		Expect(same.Causes).To(BeEmpty())

		By("preferring another node")
		other := expectCounts(ctx, "packs", pods)
		Expect(other.NodeScoredLower).To(BeEquivalentTo(pods))
		Expect(other.ScoreLoss.Max).To(BeNumerically(">", 0))
		Expect(other.Causes[0]).To(And(HaveField("Plugin", "NodeResourcesFit"), HaveField("ExtensionPoint", "Score")))
		Expect(other.FirstMismatch).To(BeEmpty())

		By("refusing all nodes, which an Event reports once")
		refused := expectCounts(ctx, "refuses", pods)
		Expect(refused.ActiveOnlyFits).To(BeEquivalentTo(pods))
		Expect(refused.Causes[0]).To(And(HaveField("Plugin", "NodeAffinity"), HaveField("ExtensionPoint", "Filter")))
		Expect(refused.FirstMismatch).To(And(ContainSubstring(`fits node "idle" with SchedulerProfile "mine"`),
			ContainSubstring("plugin NodeAffinity refuses this node")))
		shadow := expectProfile(ctx, "refuses", shadowsMine)
		Eventually(eventsOf).WithArguments(ctx, shadow).Should(ContainElement(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", v1alpha1.ReasonShadowDisagrees),
			HaveField("Note", refused.FirstMismatch),
		)))

		By("beginning anew for another revision of the profile")
		change(ctx, mine, packs)
		mine = expectProfile(ctx, "mine", isProgrammed)
		Expect(expectBound(ctx, createPod(ctx, "later", "mine"))).To(Equal(busy))
		Expect(expectCounts(ctx, "packs", 1)).To(And(HaveField("Agreed", BeEquivalentTo(1)),
			HaveField("ProfileRevision", mine.Status.Active.Revision)))
	})

	It("waits for the profile that it follows, and stops with it", func(ctx context.Context) {
		create(ctx, profile("same", follows))
		expectProfile(ctx, "same", isRefused(v1alpha1.ReasonProfileNotFound, `SchedulerProfile "mine" does not exist`))
		mine := profile("mine", "")
		create(ctx, mine)
		expectProfile(ctx, "same", isAccepted, shadowsMine)
		Expect(run.Scheduler.Store().Current().HasShadows()).To(BeTrue())
		Expect(k8s.Delete(ctx, mine)).To(Succeed())
		expectProfile(ctx, "same", isRefused(v1alpha1.ReasonProfileNotFound))
		Eventually(run.Scheduler.Store().Alive).Should(BeZero())
	})

	It("schedules no pods of its own name, and leaves nothing behind", func(ctx context.Context) {
		createNodes(ctx)
		create(ctx, profile("mine", ""))
		expectProfile(ctx, "mine", isProgrammed)
		handlers := run.Informers.Handlers()
		shadow := profile("same", follows)
		create(ctx, shadow)
		expectProfile(ctx, "same", shadowsMine)
		expectPending(ctx, createPod(ctx, "mistaken", "same"))
		Expect(k8s.Delete(ctx, shadow)).To(Succeed())
		Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
		Eventually(run.Informers.Handlers).Should(Equal(handlers))
		Expect(expectBound(ctx, createPod(ctx, "mine", "mine"))).To(Equal(idle))
	})

	It("becomes a profile that schedules pods, and a shadow again", func(ctx context.Context) {
		createNodes(ctx)
		both := profile("both", follows)
		create(ctx, profile("mine", ""), both)
		expectProfile(ctx, "both", shadowsMine)
		change(ctx, both, packs)
		Expect(expectProfile(ctx, "both", isProgrammed).Status.SchedulerName).To(Equal("both"))
		Expect(expectBound(ctx, createPod(ctx, "pod", "both"))).To(Equal(busy))
		change(ctx, both, follows)
		expectProfile(ctx, "both", shadowsMine)
		expectPending(ctx, createPod(ctx, "late", "both"))
	})
})
