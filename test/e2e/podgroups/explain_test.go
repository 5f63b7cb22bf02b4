// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("The explanation of a pod of a PodGroup", func() {
	It("says how many of its pods fit together, and where", func(ctx context.Context) {
		Start()
		CreateProfile(ctx, "mine", "")
		Create(ctx, Node("a1", "2", "8Gi", map[string]string{"rack": "a"}),
			Node("b1", "3", "8Gi", map[string]string{"rack": "b"}))
		group := PodGroup("g", 4)
		group.SetAnnotations(map[string]string{podgroup.AnnotationRequired: "rack"})
		Create(ctx, group)
		var pods []*corev1.Pod
		for _, name := range Names("p", 4) {
			pods = append(pods, CreatePod(ctx, "mine", name, MemberOf("g"), CPU("1")))
		}
		// None of these is ready, or of the group.
		CreatePod(ctx, "mine", "gated", MemberOf("g"), CPU("1"), func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		})
		CreatePod(ctx, "another", "another", MemberOf("g"), CPU("1"))
		fit := func() *v1alpha1.PodGroupFit {
			x, err := Running.Parts().Answers.Explain(ctx, pods[0].Namespace, pods[0].Name, "")
			if err != nil || x.Pending == nil {
				return nil
			}
			return x.Pending.PodGroup
		}
		Eventually(fit).WithContext(ctx).Should(Equal(&v1alpha1.PodGroupFit{
			Name: "g", Needed: 4, Ready: 4, Fit: 3, Domain: "rack=b",
			Tried: []v1alpha1.DomainFit{{Domain: "rack=b", Fit: 3}, {Domain: "rack=a", Fit: 2}},
		}))
		By("and there is room for all with one CPU more in the rack")
		Create(ctx, Node("b2", "1", "8Gi", map[string]string{"rack": "b"}))
		for _, pod := range pods {
			Expect(ExpectBound(ctx, pod)).To(HavePrefix("b"))
		}
	})
})
