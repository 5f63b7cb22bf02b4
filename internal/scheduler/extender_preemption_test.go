// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/testextender"
)

var _ = Describe("Extenders that are shown the victims of a preemption", func() {
	var (
		one, two *testextender.Extender
		low      map[string]*corev1.Pod
	)
	const extenders = `[{urlPrefix: %q, preemptVerb: preempt, ignorable: %v, httpTimeout: 2s}, {urlPrefix: %q, preemptVerb: preempt, nodeCacheCapable: true}]`

	BeforeEach(func(ctx context.Context) {
		one, two = startExtender(ctx), startExtender(ctx)
		createClasses(ctx, priorityClass("important", 1000))
		nodes(ctx, "n1", "n2")
		low = map[string]*corev1.Pod{}
		for name, node := range map[string]string{"a1": "n1", "b1": "n1", "a2": "n2", "b2": "n2"} {
			low[name] = createPod(ctx, "somebody-else", name, cpu("2"), on(node))
		}
	})

	// alive makes sure that a pod is not preempted.
	alive := func(ctx context.Context, names ...string) {
		GinkgoHelper()
		Consistently(func(g Gomega) {
			for _, name := range names {
				g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(low[name]), low[name])).To(Succeed())
				g.Expect(low[name].DeletionTimestamp).To(BeNil())
			}
		}).WithContext(ctx).Should(Succeed())
	}

	It("choose among the nodes, one after the other", func(ctx context.Context) {
		nodes(ctx, "n3")
		low["c1"] = createPod(ctx, "somebody-else", "c1", cpu("4"), on("n3"))
		startExtended(ctx, fmt.Sprintf(extenders, one.URL, false, two.URL))
		perform(ctx, one, testextender.Script{Spared: []string{"n1"}})
		perform(ctx, two, testextender.Script{Spared: []string{"n3"}})
		high := createPod(ctx, "mine", "high", cpu("4"), prioritized("important"))
		Expect(expectBound(ctx, high)).To(Equal("n2"))
		expectGone(ctx, low["a2"])
		expectGone(ctx, low["b2"])
		alive(ctx, "a1", "b1", "c1")
		Expect(callsAbout(ctx, one, testextender.Preempt, high)).To(ContainElement(And(HaveField("Whole", true), HaveField("Victims", And(HaveLen(3),
			HaveKeyWithValue("n1", ConsistOf(string(low["a1"].UID), string(low["b1"].UID))))))))
		Expect(callsAbout(ctx, two, testextender.Preempt, high)).To(ContainElement(And(HaveField("Whole", false), HaveField("Victims", And(HaveLen(2),
			HaveKeyWithValue("n2", ConsistOf(string(low["a2"].UID), string(low["b2"].UID))))))))
	})

	It("spare victims", func(ctx context.Context) {
		startExtended(ctx, fmt.Sprintf(extenders, one.URL, false, two.URL))
		perform(ctx, one, testextender.Script{Spared: []string{"n2"}, SparedPods: []string{string(low["a1"].UID)}})
		high := createPod(ctx, "mine", "high", cpu("4"), prioritized("important"))
		expectGone(ctx, low["b1"])
		alive(ctx, "a1", "a2", "b2")

		By("coming to see that the preemptor needs the room")
		perform(ctx, one, testextender.Script{Spared: []string{"n2"}})
		Expect(k8s.Delete(ctx, low["a2"])).To(Succeed()) // makes some room, and has it try again
		Expect(expectBound(ctx, high)).To(Equal("n1"))
		alive(ctx, "b2")
	})

	It("refuse all candidates", func(ctx context.Context) {
		startExtended(ctx, fmt.Sprintf(extenders, one.URL, false, two.URL))
		perform(ctx, two, testextender.Script{Spared: []string{"n1", "n2"}})
		high := createPod(ctx, "mine", "high", cpu("4"), prioritized("important"))
		expectUnscheduled(ctx, high, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
		alive(ctx, "a1", "b1", "a2", "b2")
		Expect(callsAbout(ctx, two, testextender.Preempt, high)).NotTo(BeEmpty())
	})

	DescribeTable("and break", func(ctx context.Context, ignorable bool) {
		startExtended(ctx, fmt.Sprintf(extenders, one.URL, ignorable, two.URL))
		perform(ctx, two, testextender.Script{Spared: []string{"n1"}})
		for _, fault := range []testextender.Fault{testextender.Slow, testextender.Broken, testextender.Garbage, testextender.Gone} {
			perform(ctx, one, testextender.Script{Faults: map[string]testextender.Fault{testextender.Preempt: fault}})
			high := createPod(ctx, "mine", "high-"+string(fault), cpu("4"), prioritized("important"))
			if ignorable {
				Expect(expectBound(ctx, high)).To(Equal("n2"))
				alive(ctx, "a1", "b1")
				Expect(k8s.Delete(ctx, high)).To(Succeed())
				expectGone(ctx, high)
				createPod(ctx, "somebody-else", "a2-"+string(fault), cpu("4"), on("n2"))
				continue
			}
			expectUnscheduled(ctx, high, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
			Eventually(func() []testextender.Call { return callsAbout(ctx, one, testextender.Preempt, high) }).ShouldNot(BeEmpty())
			alive(ctx, "a1", "b1", "a2", "b2")
			Expect(k8s.Delete(ctx, high)).To(Succeed())
			expectGone(ctx, high)
		}
	},
		Entry("are left out where they may be ignored", true),
		Entry("have nobody preempted where they may not", false),
	)
})
