// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("Pods of other schedulers", func() {
	BeforeEach(func(ctx context.Context) {
		StartDefault(ctx)
		CreateNodes(ctx, "n1", "n2")
	})

	It("count towards the load of their nodes, regardless of who bound them", func(ctx context.Context) {
		Create(ctx, PodOf("somebody-else", "created-there", CPU("3500m"), OnNode("n1")))
		mine := CreatePod(ctx, "mine", "mine", CPU("2"))
		Expect(ExpectBound(ctx, mine)).To(Equal("n2"))

		By("counting one that another scheduler has bound")
		theirs := CreatePod(ctx, "somebody-else", "theirs", CPU("1500m"))
		BindByHand(ctx, "theirs", "n2")
		ExpectBound(ctx, theirs)
		late := CreatePod(ctx, "mine", "late", CPU("1"))
		ExpectUnscheduled(ctx, late, corev1.PodReasonUnschedulable,
			HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))

		By("no longer counting it when it is gone")
		Expect(K8s.Delete(ctx, theirs)).To(Succeed())
		Expect(ExpectBound(ctx, late)).To(Equal("n2"))
	})

	It("are never touched: no binding, no Event, no write", func(ctx context.Context) {
		theirs := []*corev1.Pod{
			CreatePod(ctx, "somebody-else", "pending"),
			CreatePod(ctx, "somebody-else", "too-big", CPU("100")),
			CreatePod(ctx, "somebody-else", "gated", Gated),
			CreatePod(ctx, "somebody-else", "bound", OnNode("n1")),
			CreatePod(ctx, corev1.DefaultSchedulerName, "of-kube-scheduler"),
		}
		before := map[types.UID]string{}
		for _, pod := range theirs {
			before[pod.UID] = pod.ResourceVersion
		}
		untouched := func(g Gomega) {
			for _, pod := range theirs {
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
				g.Expect(pod.ResourceVersion).To(Equal(before[pod.UID]), "pod %s", pod.Name)
				g.Expect(EventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
				g.Expect(EventsOf(ctx, pod, "Scheduled")).To(BeEmpty())
			}
		}
		ExpectBound(ctx, CreatePod(ctx, "mine", "mine"))
		Consistently(untouched).WithContext(ctx).Should(Succeed())

		if os.Getenv(Oracle) != "" {
			return // it has no profiles that come and go
		}
		By("creating and deleting profiles")
		CreateProfile(ctx, "another", "")
		Respec(ctx, "mine", "percentageOfNodesToScore: 50")
		Expect(K8s.Delete(ctx, Profile("another", ""))).To(Succeed())
		ExpectBound(ctx, CreatePod(ctx, "mine", "mine-too"))
		Consistently(untouched).WithContext(ctx).Should(Succeed())
	})

	It("are spared from preemption by a profile's pods according to their priority, like the profile's own pods",
		func(ctx context.Context) {
			CreateClasses(ctx, PriorityClass("important", 1000))
			important := CreatePod(ctx, "somebody-else", "important", CPU("3"), OnNode("n1"), Prioritized("important"))
			Create(ctx, PodOf("somebody-else", "unimportant", CPU("3"), OnNode("n2")))
			Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "mine", CPU("3"), Prioritized("important")))).To(Equal("n2"))
			Expect(K8s.Get(ctx, client.ObjectKeyFromObject(important), important)).To(Succeed())
		})

	It("that request the name of a profile can be bound by hand, and are left alone afterwards",
		func(ctx context.Context) {
			big := CreatePod(ctx, "mine", "big", CPU("100"))
			ExpectUnscheduled(ctx, big, corev1.PodReasonUnschedulable,
				HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
			BindByHand(ctx, "big", "n1")
			Expect(ExpectBound(ctx, big)).To(Equal("n1"))
			By("counting more on the node than there is room for")
			Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "small"))).To(Equal("n2"))
			Expect(K8s.Get(ctx, client.ObjectKeyFromObject(big), big)).To(Succeed())
			seen := big.ResourceVersion
			Consistently(func(g Gomega) {
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(big), big)).To(Succeed())
				g.Expect(big.ResourceVersion).To(Equal(seen))
			}).WithContext(ctx).Should(Succeed())
		})
})
