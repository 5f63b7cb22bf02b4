// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

const (
	legacyPacks = `
algorithmSource:
  policy:
    predicates: [{name: GeneralPredicates}, {name: MatchInterPodAffinity}, {name: NoDiskConflict}, {name: NoVolumeZoneConflict}, {name: PodToleratesNodeTaints}]
    priorities: [{name: MostRequestedPriority, weight: 1}, {name: InterPodAffinityPriority, weight: 2}]
`
	legacySpreads = `
algorithmSource: {policy: {priorities: [{name: LeastRequestedPriority, weight: 1}, {name: EqualPriority, weight: 1}]}}
`
)

// labelNode gives a node a label.
func labelNode(ctx context.Context, name, key, value string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(testcluster.Update(ctx, k8s, node, func(node *corev1.Node) { node.Labels[key] = value })).To(Succeed())
}

// whyPending waits until the message of the condition PodScheduled of a pod matches.
func whyPending(ctx context.Context, pod *corev1.Pod, message OmegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Conditions).To(ContainElement(And(
			HaveField("Type", corev1.PodScheduled), HaveField("Reason", corev1.PodReasonUnschedulable),
			HaveField("Message", message))))
	}).WithContext(ctx).Should(Succeed())
}

// expectFate creates pods, one after the other, until one has the expected outcome: livesched may
// see other objects later. It deletes the other pods, since they may influence the next one.
func expectFate(ctx context.Context, newPod func() *corev1.Pod, fate func(Gomega, *corev1.Pod)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		pod := newPod()
		g.Expect(k8s.Create(ctx, pod)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			g.Expect(pod.Status.Conditions).To(ContainElement(HaveField("Type", corev1.PodScheduled)))
		}).WithContext(ctx).Should(Succeed())
		fared := false
		defer func() {
			if !fared {
				Expect(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
			}
		}()
		fate(g, pod)
		fared = true
	}).WithContext(ctx).Should(Succeed())
}

var _ = Describe("A legacy policy", func() {
	BeforeEach(func(ctx context.Context) {
		createNodes(ctx)
		start()
	})

	It("is applied, and is replaced by a provider and by another policy, without a restart", func(ctx context.Context) {
		shared := policy("shared", legacyPacks)
		create(ctx, shared, profile("mine", "policyRef: {name: shared}"))
		expectPolicy(ctx, "shared", isAccepted, isProgrammed)
		expectProfile(ctx, "mine", isAccepted, isProgrammed)
		Expect(expectBound(ctx, createPod(ctx, "packed", "mine"))).To(Equal(busy))

		for i, step := range []struct{ spec, name, node string }{
			{legacySpreads, "spread", idle},
			{autoscaler, "packed-by-provider", busy},
			{byDefault, "spread-by-provider", idle},
			{legacyPacks, "packed-again", busy},
		} {
			change(ctx, shared, step.spec)
			Expect(expectPolicy(ctx, "shared", isAccepted, isProgrammed).Generation).To(Equal(int64(i + 2)))
			expectProfile(ctx, "mine", isAccepted, isProgrammed)
			Expect(expectBound(ctx, createPod(ctx, step.name, "mine"))).To(Equal(step.node), step.name)
		}
	})

	It("can use all scoring strategies at once, and a profile can change their weights", func(ctx context.Context) {
		create(ctx, policy("shared", `
algorithmSource:
  policy:
    priorities:
    - {name: LeastRequestedPriority, weight: 1}
    - {name: MostRequestedPriority, weight: 2}
    - name: Half
      weight: 3
      argument: {requestedToCapacityRatioArguments: {shape: [{utilization: 0, score: 0}, {utilization: 50, score: 10}, {utilization: 100, score: 0}]}}
`))
		create(ctx, profile("packs", "policyRef: {name: shared}"), profile("spreads", `
policyRef: {name: shared}
plugins: {score: {enabled: [{name: NodeResourcesLeastAllocated, weight: 100}]}}
`))
		packs := expectProfile(ctx, "packs", isAccepted, isProgrammed)
		Expect(packs.Status.Active.Plugins.Score).To(ConsistOf(
			v1alpha1.WeightedPlugin{Name: "NodeResourcesLeastAllocated", Weight: 1},
			v1alpha1.WeightedPlugin{Name: "NodeResourcesMostAllocated", Weight: 2},
			v1alpha1.WeightedPlugin{Name: "RequestedToCapacityRatio", Weight: 3},
		))
		expectProfile(ctx, "spreads", isAccepted, isProgrammed)
		Expect(expectBound(ctx, createPod(ctx, "packed", "packs"))).To(Equal(busy))
		Expect(expectBound(ctx, createPod(ctx, "spread", "spreads"))).To(Equal(idle))
	})

	It("with a labelsPresence keeps pods off nodes until they have the label", func(ctx context.Context) {
		create(ctx, policy("default", `
algorithmSource: {policy: {predicates: [{name: GeneralPredicates}, {name: HasRack, argument: {labelsPresence: {labels: [rack], presence: true}}}]}}
`), profile("mine", ""))
		Expect(expectOn(ctx, "mine", "default", 1).Status.Conditions).To(isAccepted)
		pod := createPod(ctx, "racked", "mine")
		whyPending(ctx, pod, ContainSubstring("2 node(s) didn't have the requested labels"))
		labelNode(ctx, busy, "rack", "any")
		Expect(expectBound(ctx, pod)).To(Equal(busy))
	})

	It("with a serviceAffinity keeps the pods of a service together until the policy drops it",
		func(ctx context.Context) {
			const together = `
algorithmSource:
  policy:
    predicates: [{name: GeneralPredicates}, {name: OneRack, argument: {serviceAffinity: {labels: [rack]}}}]
    priorities: [{name: LeastRequestedPriority, weight: 1}]
`
			labelNode(ctx, busy, "rack", "one")
			labelNode(ctx, idle, "rack", "two")
			shared := policy("default", together)
			create(ctx, shared, profile("mine", ""), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
				Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"},
					Ports: []corev1.ServicePort{{Port: 80}}},
			})
			DeferCleanup(func(ctx context.Context) {
				Expect(k8s.Delete(ctx,
					&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})).To(Succeed())
			})
			web := func(schedulerName string) *corev1.Pod {
				pod := objects.Pod("default", "", schedulerName, "100m", "200Mi")
				pod.GenerateName, pod.Labels = "web-", map[string]string{"app": "web"}
				return pod
			}
			first := web("somebody-else")
			first.Spec.NodeName = busy
			create(ctx, first)
			expectProfile(ctx, "mine", isAccepted, isProgrammed)
			for range 3 { // the emptier node would have more room
				expectFate(ctx, func() *corev1.Pod { return web("mine") },
					func(g Gomega, pod *corev1.Pod) { g.Expect(pod.Spec.NodeName).To(Equal(busy)) })
			}

			change(ctx, shared, legacySpreads)
			expectPolicy(ctx, "default", isAccepted, isProgrammed)
			apart := web("mine")
			create(ctx, apart)
			Expect(expectBound(ctx, apart)).To(Equal(idle))
		})

	It("reports all reasons with alwaysCheckAllPredicates, and only the first one without", func(ctx context.Context) {
		const firstOnly = `
algorithmSource: {policy: {predicates: [{name: GeneralPredicates}, {name: HasRack, argument: {labelsPresence: {labels: [rack], presence: true}}}]}}
`
		const all = `
algorithmSource:
  policy:
    predicates: [{name: GeneralPredicates}, {name: HasRack, argument: {labelsPresence: {labels: [rack], presence: true}}}]
    alwaysCheckAllPredicates: true
`
		shared := policy("default", firstOnly)
		create(ctx, shared, profile("mine", ""))
		before := expectOn(ctx, "mine", "default", 1)
		pod := objects.Pod("default", "large", "mine", "100", "1Gi")
		create(ctx, pod)
		whyPending(ctx, pod, And(ContainSubstring("2 Insufficient cpu"), Not(ContainSubstring("requested labels"))))

		change(ctx, shared, all)
		expectPolicy(ctx, "default", isAccepted, isProgrammed)
		Expect(expectOn(ctx, "mine", "default", 2).Status.Active.Revision).NotTo(Equal(before.Status.Active.Revision))
		whyPending(ctx, pod, And(ContainSubstring("2 Insufficient cpu"),
			ContainSubstring("2 node(s) didn't have the requested labels")))

		change(ctx, shared, firstOnly)
		whyPending(ctx, pod, And(ContainSubstring("2 Insufficient cpu"), Not(ContainSubstring("requested labels"))))
	})

	It("without predicates keeps the mandatory ones, and without priorities scores nothing", func(ctx context.Context) {
		create(ctx, policy("default", `algorithmSource: {policy: {predicates: [], priorities: []}}`),
			profile("mine", ""))
		programmed := expectOn(ctx, "mine", "default", 1)
		Expect(programmed.Status.Conditions).To(isAccepted)
		active := programmed.Status.Active
		Expect(active.Plugins.Score).To(BeEmpty())
		Expect(active.Plugins.PreScore).To(BeEmpty())
		Expect(active.Plugins.Filter).
			To(Equal([]string{"NodeUnschedulable", "TaintToleration", "DynamicResources", "NodeDeclaredFeatures"}))
		Expect(active.Plugins.PostFilter).To(Equal([]string{"DynamicResources", "DefaultPreemption"}))
		Expect(active.Plugins.Bind).To(Equal([]string{"DefaultBinder"}))

		By("binding a pod that fits nowhere, since no plugin checks resources")
		large := objects.Pod("default", "large", "mine", "100", "1Gi")
		create(ctx, large)
		expectBound(ctx, large)

		By("keeping pods off cordoned nodes")
		for _, name := range []string{busy, idle} {
			node := &corev1.Node{}
			Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, node)).To(Succeed())
			Expect(k8s.Patch(ctx, node,
				client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`)))).
				To(Succeed())
		}
		expectFate(ctx, func() *corev1.Pod {
			pod := objects.Pod("default", "", "mine", "100m", "1Mi")
			pod.GenerateName = "cordoned-"
			return pod
		}, func(g Gomega, pod *corev1.Pod) {
			g.Expect(pod.Spec.NodeName).To(BeEmpty())
			g.Expect(pod.Status.Conditions).
				To(ContainElement(HaveField("Message", ContainSubstring("2 node(s) were unschedulable"))))
		})
	})
})
