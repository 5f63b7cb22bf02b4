// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// The specs use settings of a policy that no profile sets.
var _ = Describe("A policy that changes while livesched runs", func() {
	var s *Script
	BeforeEach(func() {
		s = &Script{}
		Start(s.Register)
	})

	// repolicy changes a policy and waits until a profile that builds on it runs with the change.
	repolicy := func(ctx context.Context, name, spec, profile string) {
		GinkgoHelper()
		next := Policy(name, spec).Spec
		Update(ctx, &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}},
			func(p *v1alpha1.SchedulingPolicy) { p.Spec = next })
		changed := &v1alpha1.SchedulingPolicy{}
		Expect(K8s.Get(ctx, types.NamespacedName{Name: name}, changed)).To(Succeed())
		Eventually(func(g Gomega) {
			active := ExpectProgrammed(ctx, profile).Status.Active
			g.Expect(active.Policy).NotTo(BeNil())
			g.Expect(active.Policy.Generation).To(Equal(changed.Generation))
		}).WithContext(ctx).Should(Succeed())
	}

	It("reorders the queued pods by the new arguments of its queue sort", func(ctx context.Context) {
		expectReordered(ctx, s,
			func() {
				Create(ctx, Policy("default", "queueSort: {name: Sorter, args: {as: ascending}}"))
				CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
			},
			func() { repolicy(ctx, "default", "queueSort: {name: Sorter, args: {as: descending}}", "mine") })
	})

	It("filters more or fewer nodes from the next pod on", func(ctx context.Context) {
		const total, least = 120, 100 // kube-scheduler never searches fewer than 100 nodes
		for _, name := range Names("many", total) {
			Create(ctx, Node(name, "4", "8Gi", nil))
		}
		const sampled = "{parallelism: 1, percentageOfNodesToScore: 10}"
		Create(ctx, Policy("default", sampled))
		CreateProfile(ctx, "mine", "plugins: {filter: {enabled: [{name: Alpha}]}, score: {enabled: [{name: Alpha}]}}")
		ExpectSeen(ctx, total)
		scored := func(name string) sets.Set[string] {
			pod := CreatePod(ctx, "mine", name)
			ExpectBound(ctx, pod)
			seen := sets.New[string]()
			for _, c := range s.About(pod) {
				if c.Point == "Score" {
					seen.Insert(c.Node)
				}
			}
			return seen
		}
		Expect(scored("sampled")).To(HaveLen(least))
		repolicy(ctx, "default", "{parallelism: 2, percentageOfNodesToScore: 100}", "mine")
		Expect(scored("all")).To(HaveLen(total))
		repolicy(ctx, "default", sampled, "mine")
		Expect(scored("sampled-again")).To(HaveLen(least))
	})
})
