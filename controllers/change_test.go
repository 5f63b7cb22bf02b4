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
	packs = `
pluginConfig:
- name: NodeResourcesFit
  args: {scoringStrategy: {type: MostAllocated}}
`
	spreads = `
pluginConfig:
- name: NodeResourcesFit
  args: {scoringStrategy: {type: LeastAllocated}}
`
)

var _ = Describe("A change of a profile", func() {
	var run *testcluster.Running

	BeforeEach(func(ctx context.Context) {
		createNodes(ctx)
		run = start()
	})

	It("schedules the pods that were created before their profile", func(ctx context.Context) {
		pods := []*corev1.Pod{createPod(ctx, "first", "mine"), createPod(ctx, "second", "mine")}
		other := createPod(ctx, "other", "not-mine")
		expectPending(ctx, pods[0])
		create(ctx, profile("mine", ""))
		for _, pod := range pods {
			expectBound(ctx, pod)
		}
		expectPending(ctx, other)
	})

	It("uses the scheduler name of the spec, if it has one", func(ctx context.Context) {
		create(ctx, profile("mine", "schedulerName: yours"))
		expectBound(ctx, createPod(ctx, "yours", "yours"))
		expectPending(ctx, createPod(ctx, "mine", "mine"))
		Expect(expectProfile(ctx, "mine", isProgrammed).Status.SchedulerName).To(Equal("yours"))
	})

	It("applies a new scoring strategy to the next pods, and changes only generation, revision and time in status",
		func(ctx context.Context) {
			mine := profile("mine", packs)
			create(ctx, mine)
			before := expectProfile(ctx, "mine", isAccepted, isProgrammed)
			Expect(expectBound(ctx, createPod(ctx, "packed", "mine"))).To(Equal(busy))

			change(ctx, mine, spreads)
			after := expectProfile(ctx, "mine", isAccepted, isProgrammed)
			Expect(expectBound(ctx, createPod(ctx, "spread", "mine"))).To(Equal(idle))

			Expect(before.Status.Active.Generation).To(Equal(int64(1)))
			Expect(after.Status.Active.Generation).To(Equal(int64(2)))
			Expect(after.Status.Active.Revision).NotTo(Equal(before.Status.Active.Revision))
			Expect(after.Status.Active.Since.Time).NotTo(BeTemporally("<", before.Status.Active.Since.Time))
			same := after.Status.Active.DeepCopy()
			same.Generation, same.Revision, same.Since = before.Status.Active.Generation, before.Status.Active.Revision,
				before.Status.Active.Since
			Expect(same).To(Equal(before.Status.Active))
			Expect(transitions(after)).To(Equal(transitions(before)), "neither condition has changed its status")
		})

	It("applies a new weight to the next pods, which status shows", func(ctx context.Context) {
		// The pod prefers the empty node, the profile the full one.
		prefersIdle := func(name string) *corev1.Pod {
			pod := objects.Pod("default", name, "mine", "100m", "200Mi")
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
					Weight: 1,
					Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{idle},
					}}},
				}},
			}}
			create(ctx, pod)
			return pod
		}
		mine := profile("mine", packs)
		create(ctx, mine)
		before := expectProfile(ctx, "mine", isProgrammed)
		Expect(before.Status.Active.Plugins.Score).To(ContainElements(
			v1alpha1.WeightedPlugin{Name: "NodeResourcesFit", Weight: 1},
			v1alpha1.WeightedPlugin{Name: "NodeAffinity", Weight: 2}))
		Expect(expectBound(ctx, prefersIdle("light"))).To(Equal(idle))

		change(ctx, mine, packs+`
plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 50}]}}
`)
		after := expectProfile(ctx, "mine", isProgrammed)
		Expect(after.Status.Active.Plugins.Score).To(ContainElements(
			v1alpha1.WeightedPlugin{Name: "NodeResourcesFit", Weight: 50},
			v1alpha1.WeightedPlugin{Name: "NodeAffinity", Weight: 2}))
		Expect(expectBound(ctx, prefersIdle("heavy"))).To(Equal(busy))
	})

	It("carries the running instance over when the resolved configuration stays the same", func(ctx context.Context) {
		mine := profile("mine", packs)
		create(ctx, mine)
		before := expectProfile(ctx, "mine", isProgrammed)
		instance := run.Scheduler.Store().Current().Get("mine")

		By("writing out defaults")
		change(ctx, mine, packs+`- name: InterPodAffinity
  args: {hardPodAffinityWeight: 1}
percentageOfNodesToScore: 0
`)
		after := expectProfile(ctx, "mine", isProgrammed)
		Expect(after.Generation).To(Equal(int64(2)))
		Expect(after.Status.Active.Generation).To(Equal(int64(2)))
		after.Status.Active.Generation = before.Status.Active.Generation
		Expect(after.Status.Active).To(Equal(before.Status.Active))
		Expect(transitions(after)).To(Equal(transitions(before)))
		Expect(run.Scheduler.Store().Current().Get("mine")).To(BeIdenticalTo(instance))

		By("changing metadata")
		labelled := after.DeepCopy()
		labelled.Labels = map[string]string{"team": "a"}
		Expect(k8s.Patch(ctx, labelled, client.MergeFrom(after))).To(Succeed())
		create(ctx, profile("another", "")) // a pass after that change processes it
		expectProfile(ctx, "another", isProgrammed)
		still := expectProfile(ctx, "mine", isProgrammed)
		Expect(still.Generation).To(Equal(int64(2)))
		Expect(still.ResourceVersion).To(Equal(labelled.ResourceVersion), "there was nothing to write")
		Expect(run.Scheduler.Store().Current().Get("mine")).To(BeIdenticalTo(instance))
	})
})

// transitions returns the transition times of a profile's conditions.
func transitions(p *v1alpha1.SchedulerProfile) map[string]metav1.Time {
	times := map[string]metav1.Time{}
	for _, c := range p.Status.Conditions {
		times[c.Type] = c.LastTransitionTime
	}
	return times
}
