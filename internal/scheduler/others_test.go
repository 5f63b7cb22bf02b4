// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("Pods of other schedulers", func() {
	BeforeEach(func(ctx context.Context) {
		startDefault(ctx)
		nodes(ctx, "n1", "n2")
	})

	It("count towards the load of their nodes, whoever bound them", func(ctx context.Context) {
		create(ctx, podOf("somebody-else", "created-there", cpu("3500m"), on("n1")))
		mine := createPod(ctx, "mine", "mine", cpu("2"))
		Expect(expectBound(ctx, mine)).To(Equal("n2"))

		By("counting one that another scheduler has bound")
		theirs := createPod(ctx, "somebody-else", "theirs", cpu("1500m"))
		bindByHand(ctx, "theirs", "n2")
		expectBound(ctx, theirs)
		late := createPod(ctx, "mine", "late", cpu("1"))
		expectUnscheduled(ctx, late, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))

		By("counting it no more when it is gone")
		Expect(k8s.Delete(ctx, theirs)).To(Succeed())
		Expect(expectBound(ctx, late)).To(Equal("n2"))
	})

	It("are never touched: no binding, no Event, no write", func(ctx context.Context) {
		theirs := []*corev1.Pod{
			createPod(ctx, "somebody-else", "pending"),
			createPod(ctx, "somebody-else", "too-big", cpu("100")),
			createPod(ctx, "somebody-else", "gated", gated),
			createPod(ctx, "somebody-else", "bound", on("n1")),
			createPod(ctx, corev1.DefaultSchedulerName, "of-kube-scheduler"),
		}
		before := map[types.UID]string{}
		for _, pod := range theirs {
			before[pod.UID] = pod.ResourceVersion
		}
		untouched := func(g Gomega) {
			for _, pod := range theirs {
				g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
				g.Expect(pod.ResourceVersion).To(Equal(before[pod.UID]), "pod %s", pod.Name)
				g.Expect(eventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
				g.Expect(eventsOf(ctx, pod, "Scheduled")).To(BeEmpty())
			}
		}
		expectBound(ctx, createPod(ctx, "mine", "mine"))
		Consistently(untouched).WithContext(ctx).Should(Succeed())

		if os.Getenv(oracle) != "" {
			return // which knows no profiles that come and go
		}
		By("coming and going of profiles")
		createProfile(ctx, "another", "")
		respec(ctx, "mine", "percentageOfNodesToScore: 50")
		Expect(k8s.Delete(ctx, profile("another", ""))).To(Succeed())
		expectBound(ctx, createPod(ctx, "mine", "mine-too"))
		Consistently(untouched).WithContext(ctx).Should(Succeed())
	})

	It("are spared by a profile's pods as far as priority says, like its own", func(ctx context.Context) {
		createClasses(ctx, priorityClass("important", 1000))
		important := createPod(ctx, "somebody-else", "important", cpu("3"), on("n1"), prioritized("important"))
		create(ctx, podOf("somebody-else", "unimportant", cpu("3"), on("n2")))
		Expect(expectBound(ctx, createPod(ctx, "mine", "mine", cpu("3"), prioritized("important")))).To(Equal("n2"))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(important), important)).To(Succeed())
	})

	It("that ask for the name of a profile are bound by hand if somebody does, and left alone afterwards", func(ctx context.Context) {
		big := createPod(ctx, "mine", "big", cpu("100"))
		expectUnscheduled(ctx, big, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
		bindByHand(ctx, "big", "n1")
		Expect(expectBound(ctx, big)).To(Equal("n1"))
		By("counting more on the node than there is room for")
		Expect(expectBound(ctx, createPod(ctx, "mine", "small"))).To(Equal("n2"))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(big), big)).To(Succeed())
		seen := big.ResourceVersion
		Consistently(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(big), big)).To(Succeed())
			g.Expect(big.ResourceVersion).To(Equal(seen))
		}).WithContext(ctx).Should(Succeed())
	})
})
