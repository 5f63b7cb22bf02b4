// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("A roll-out", func() {
	// rolledOut is the part of a spec that rolls out changes. The pods of the specs have no
	// controllers: each is an owner.
	rolledOut := func(canary string) string { return "rollout: {strategy: Canary, canary: {" + canary + "}}\n" }
	// half gives half of the owners the new revision, until it is promoted.
	half := rolledOut("shadowDuration: 0s, steps: [{setWeight: 50}, {pause: {}}]")
	// refuses refuses every node.
	const refuses = `
pluginConfig:
- name: NodeAffinity
  args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchExpressions: [{key: nowhere, operator: Exists}]}]}}}
`
	isRollingOut := func(words ...string) gomegatypes.GomegaMatcher {
		return haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionUnknown, v1alpha1.ReasonRollingOut, words...)
	}
	isTakenBack := func(words ...string) gomegatypes.GomegaMatcher {
		return haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonRolloutAborted,
			words...)
	}
	var run *testcluster.Running
	BeforeEach(func(ctx context.Context) {
		run = start()
		createNodes(ctx)
	})

	// createPods creates so many pods of the profile "mine".
	createPods := func(ctx context.Context, name string, n int) []*corev1.Pod {
		GinkgoHelper()
		var pods []*corev1.Pod
		for i := range n {
			pods = append(pods, createPod(ctx, fmt.Sprint(name, "-", i), "mine"))
		}
		return pods
	}
	// expectNodes waits until pods are bound, and returns how many are on each node.
	expectNodes := func(ctx context.Context, pods []*corev1.Pod) map[string]int {
		GinkgoHelper()
		nodes := map[string]int{}
		for _, pod := range pods {
			nodes[expectBound(ctx, pod)]++
		}
		return nodes
	}
	// direct sets the annotation of the profile "mine".
	direct := func(ctx context.Context, command, revision string) {
		GinkgoHelper()
		Expect(testcluster.Update(ctx, k8s, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine"}},
			func(p *v1alpha1.SchedulerProfile) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationRollout, command+":"+revision)
			})).To(Succeed())
	}
	// expectRollout waits until the status of the roll-out of "mine" matches.
	expectRollout := func(ctx context.Context, match ...gomegatypes.GomegaMatcher) *v1alpha1.SchedulerProfile {
		GinkgoHelper()
		p := &v1alpha1.SchedulerProfile{}
		Eventually(func(g Gomega) {
			p = &v1alpha1.SchedulerProfile{}
			g.Expect(k8s.Get(ctx, client.ObjectKey{Name: "mine"}, p)).To(Succeed())
			g.Expect(p.Status.Rollout).To(And(match...))
		}).WithContext(ctx).Should(Succeed())
		return p
	}
	// begin creates the profile "mine", lets it run, and changes its spec.
	begin := func(ctx context.Context, before, after string) (stable string, mine *v1alpha1.SchedulerProfile) {
		GinkgoHelper()
		mine = profile("mine", before)
		create(ctx, mine)
		stable = expectProfile(ctx, "mine", isProgrammed).Status.Active.Revision
		change(ctx, mine, after)
		return stable, mine
	}

	It("takes back a spec that fits no node, and its pods are bound", func(ctx context.Context) {
		stable, mine := begin(ctx, half, half+refuses)
		spec := mine.Spec.DeepCopy()
		expectProfile(ctx, "mine", isAccepted, isRollingOut("decides the pods of 50 % of owners", stable))
		pods := createPods(ctx, "pod", 40)
		aborted := expectProfile(ctx, "mine", isAccepted,
			isTakenBack(" : 1 that the new revision leaves more owners without a node", stable))
		Expect(aborted.Spec).To(Equal(*spec))
		Expect(aborted.Status.Active.Revision).To(Equal(stable))
		status := aborted.Status.Rollout
		Expect(status).To(And(HaveField("Phase", v1alpha1.RolloutDegraded), HaveField("Weight", BeZero()),
			HaveField("StableRevision", stable), HaveField("Evidence", HaveLen(1))))
		Expect(status.Evidence[0].FailedCanary).To(And(BeNumerically(">=", 5),
			BeNumerically("<=", status.CanaryOwners)))
		Expect(status.Evidence[0].Failed).To(HaveExactElements(
			v1alpha1.FailedOwners{Weight: 50, Owners: status.Evidence[0].FailedCanary}))
		expectNodes(ctx, pods)
		Eventually(run.Scheduler.Store().Alive).Should(Equal(1))

		By("being aborted by a next leader, too")
		Expect(run.Stop(patience)).To(Succeed())
		run = start()
		expectProfile(ctx, "mine", isTakenBack())
		expectNodes(ctx, createPods(ctx, "late", 3))

		By("rolling out another spec")
		change(ctx, mine, half+packs)
		next := expectRollout(ctx, HaveField("Phase", v1alpha1.RolloutPaused)).Status.Rollout.CanaryRevision
		direct(ctx, "promote", next)
		expectProfile(ctx, "mine", isProgrammed)
	})

	It("takes back a spec that would fit no node, before it decides a pod", func(ctx context.Context) {
		stable, _ := begin(ctx, rolledOut("shadowDuration: 1h"), rolledOut("shadowDuration: 1h")+refuses)
		expectProfile(ctx, "mine", isAccepted, isRollingOut("is being compared on live pods, and decides none", stable))
		pods := createPods(ctx, "pod", 14)
		Expect(expectNodes(ctx, pods)).To(HaveKeyWithValue(idle, len(pods)))
		aborted := expectProfile(ctx, "mine", isTakenBack("of 14 owners for which the two revisions differ", stable))
		Expect(aborted.Status.Rollout.Compared).To(BeEquivalentTo(len(pods)))
	})

	It("promotes a spec that does no harm, step by step", func(ctx context.Context) {
		short := rolledOut("shadowDuration: 1s, steps: [{setWeight: 50}, {pause: {duration: 1s}}], " +
			"analysis: {minOwners: 2}")
		_, mine := begin(ctx, short, short+packs)
		expectRollout(ctx, HaveField("Phase", v1alpha1.RolloutPaused),
			HaveField("Message", HavePrefix("inconclusive: the new revision has decided pods of fewer than 2 owners")))
		expectNodes(ctx, createPods(ctx, "compared", 2))
		expectRollout(ctx, HaveField("Stage", "Canary"), HaveField("Compared", BeEquivalentTo(2)))
		nodes := expectNodes(ctx, createPods(ctx, "shared", 20))
		Expect(nodes).To(And(HaveKey(busy), HaveKey(idle)))
		promoted := expectProfile(ctx, "mine", isProgrammed)
		Expect(promoted.Status.Active.Generation).To(Equal(mine.Generation))
		expectRollout(ctx, HaveField("Phase", v1alpha1.RolloutHealthy), HaveField("Weight", BeEquivalentTo(100)),
			HaveField("StableRevision", promoted.Status.Active.Revision))
		Expect(expectNodes(ctx, createPods(ctx, "late", 4))).To(Equal(map[string]int{busy: 4}))
		Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
	})

	It("changes its weight without a reload", func(ctx context.Context) {
		steps := rolledOut("shadowDuration: 0s, steps: [{setWeight: 20}, {pause: {}}, {setWeight: 60}, {pause: {}}]")
		begin(ctx, steps, steps+packs)
		waiting := expectRollout(ctx, HaveField("Weight", BeEquivalentTo(20)))
		reloads := func() float64 {
			return testutil.ToFloat64(metrics.Reloads.WithLabelValues(metrics.ReloadSucceeded))
		}
		before := reloads()
		direct(ctx, "promote", waiting.Status.Rollout.CanaryRevision)
		expectRollout(ctx, HaveField("Weight", BeEquivalentTo(60)))
		_, share := run.Scheduler.Store().Current().Canary("mine")
		Expect(share.Percent()).To(Equal(60))
		Expect(reloads()).To(Equal(before))
	})

	It("does not count pods that have waited before", func(ctx context.Context) {
		mine := profile("mine", half)
		create(ctx, mine)
		expectProfile(ctx, "mine", isProgrammed)
		for i := range 30 {
			pod := objects.Pod("default", fmt.Sprint("stuck-", i), "mine", "100m", "200Mi")
			pod.Spec.NodeSelector = map[string]string{"nowhere": "there"}
			create(ctx, pod)
		}
		Eventually(func() int { return run.Parts().Queue.Counts().Unschedulable }).WithContext(ctx).Should(Equal(30))
		change(ctx, mine, half+packs)
		expectRollout(ctx, HaveField("Stage", "Canary"))
		// Those that get the canary are tried before younger ones.
		expectNodes(ctx, createPods(ctx, "young", 6))
		owners := func(s *v1alpha1.RolloutStatus) int64 { return s.CanaryOwners + s.StableOwners }
		expectRollout(ctx, WithTransform(owners, BeEquivalentTo(6)), HaveField("Evidence", BeEmpty()),
			HaveField("Phase", v1alpha1.RolloutPaused))
	})

	It("goes on where it was when its spec is accepted again", func(ctx context.Context) {
		shared := policy("shared", "")
		create(ctx, shared)
		builds := half + "policyRef: {name: shared}\n"
		stable, _ := begin(ctx, builds, builds+packs)
		canary := expectRollout(ctx, HaveField("Stage", "Canary")).Status.Rollout.CanaryRevision
		direct(ctx, "abort", canary)
		expectProfile(ctx, "mine", isTakenBack())
		Expect(k8s.Delete(ctx, shared)).To(Succeed())
		expectProfile(ctx, "mine", isRefused(v1alpha1.ReasonPolicyNotFound))
		create(ctx, policy("shared", ""))
		expectProfile(ctx, "mine", isAccepted, isTakenBack("the user aborted it", stable))
		expectRollout(ctx, HaveField("CanaryRevision", canary), HaveField("Stage", "Aborted"))
	})

	It("is directed by an annotation", func(ctx context.Context) {
		begin(ctx, half, half+packs)
		waiting := expectRollout(ctx, HaveField("Message", "it waits until it is promoted"))
		canary := waiting.Status.Rollout.CanaryRevision

		By("ignoring commands about another revision")
		direct(ctx, "abort", "another")
		Consistently(func(g Gomega) {
			p := &v1alpha1.SchedulerProfile{}
			g.Expect(k8s.Get(ctx, client.ObjectKey{Name: "mine"}, p)).To(Succeed())
			g.Expect(p.Status.Rollout.Phase).To(Equal(v1alpha1.RolloutPaused))
		}).WithContext(ctx).Should(Succeed())
		direct(ctx, "pause", canary)
		expectRollout(ctx, HaveField("Paused", true), HaveField("Message", "the user paused it"))
		direct(ctx, "resume", canary)
		expectRollout(ctx, HaveField("Paused", false))

		By("aborting")
		direct(ctx, "abort", canary)
		expectProfile(ctx, "mine", isTakenBack("the user aborted it"))
		Expect(expectNodes(ctx, createPods(ctx, "before", 4))).To(Equal(map[string]int{idle: 4}))
		direct(ctx, "retry", canary)
		expectRollout(ctx, HaveField("Stage", "Canary"), HaveField("StableOwners", BeZero()))

		By("promoting")
		direct(ctx, "promote-full", canary)
		expectProfile(ctx, "mine", isProgrammed)
		Expect(expectNodes(ctx, createPods(ctx, "after", 4))).To(Equal(map[string]int{busy: 4}))
	})

	It("goes on where it was with the next leader", func(ctx context.Context) {
		stable, _ := begin(ctx, half, half+packs)
		expectRollout(ctx, HaveField("Stage", "Canary"))
		expectNodes(ctx, createPods(ctx, "first", 20))
		counted := func(owners int64) gomegatypes.GomegaMatcher {
			return WithTransform(func(s *v1alpha1.RolloutStatus) int64 { return s.CanaryOwners + s.StableOwners },
				Equal(owners))
		}
		before := expectRollout(ctx, counted(20), HaveField("CanaryOwners", BeNumerically(">", 0)),
			HaveField("StableOwners", BeNumerically(">", 0))).Status.Rollout
		Expect(run.Stop(patience)).To(Succeed())
		run = start()
		nodes := expectNodes(ctx, createPods(ctx, "second", 20))
		Expect(nodes).To(And(HaveKey(busy), HaveKey(idle)))
		after := expectRollout(ctx, HaveField("Stage", "Canary"), HaveField("Weight", BeEquivalentTo(50)), counted(40))
		Expect(after.Status.Rollout.Since).To(Equal(before.Since))

		By("simulating where the two revisions would place the pods")
		placement := expectRollout(ctx, HaveField("Placement", Not(BeNil()))).Status.Rollout.Placement
		Expect(placement.Pods).To(BeNumerically(">=", 10))
		spread := func(outcome v1alpha1.PlacementOutcome) int32 {
			Expect(outcome.Unplaced).To(BeZero())
			for _, resource := range outcome.Utilization {
				if resource.Resource == string(corev1.ResourceCPU) {
					return resource.StddevPermille
				}
			}
			return -1
		}
		Expect(spread(placement.Canary)).To(BeNumerically(">", spread(placement.Stable)), "the canary packs")
		Expect(after.Status.Active.Revision).To(Equal(stable))
	})

	It("follows a change of the policy", func(ctx context.Context) {
		shared := policy("shared", "")
		create(ctx, shared)
		begin(ctx, half+"policyRef: {name: shared}", half+"policyRef: {name: shared}")
		expectProfile(ctx, "mine", isProgrammed)
		change(ctx, shared, autoscaler)
		canary := expectRollout(ctx, HaveField("Stage", "Canary")).Status.Rollout.CanaryRevision
		expectProfile(ctx, "mine", isRollingOut())
		expectPolicy(ctx, "shared", haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionUnknown,
			v1alpha1.ReasonRollingOut, `Generation 2 is being rolled out in profile mine`))
		direct(ctx, "abort", canary)
		expectPolicy(ctx, "shared", haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse,
			v1alpha1.ReasonRolloutAborted, `was aborted in profile mine`))
		direct(ctx, "retry", canary)
		expectRollout(ctx, HaveField("Stage", "Canary"))
		direct(ctx, "promote", canary)
		expectOn(ctx, "mine", "shared", shared.Generation)
		expectPolicy(ctx, "shared", isProgrammed)
	})
})
