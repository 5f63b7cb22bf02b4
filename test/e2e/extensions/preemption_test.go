// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testextender"
)

var _ = Describe("Extenders with a preempt verb", func() {
	var (
		one, two *testextender.Extender
		low      map[string]*corev1.Pod
	)
	const extenders = `[{urlPrefix: %q, preemptVerb: preempt, ignorable: %v, httpTimeout: %s}, {urlPrefix: %q, ` +
		`preemptVerb: preempt, nodeCacheCapable: true}]`

	BeforeEach(func(ctx context.Context) {
		one, two = startExtender(), startExtender()
		CreateClasses(ctx, PriorityClass("important", 1000))
		CreateNodes(ctx, "n1", "n2")
		low = map[string]*corev1.Pod{}
		for name, node := range map[string]string{"a1": "n1", "b1": "n1", "a2": "n2", "b2": "n2"} {
			low[name] = CreatePod(ctx, "somebody-else", name, CPU("2"), OnNode(node))
		}
	})

	// alive makes sure that pods are not preempted. A preempted pod stays so, and few looks
	// suffice.
	alive := func(ctx context.Context, names ...string) {
		GinkgoHelper()
		Consistently(func(g Gomega) {
			for _, name := range names {
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(low[name]), low[name])).To(Succeed())
				g.Expect(low[name].DeletionTimestamp).To(BeNil())
			}
		}).WithContext(ctx).WithPolling(100 * time.Millisecond).Should(Succeed())
	}

	It("choose among the candidate nodes, one after the other", func(ctx context.Context) {
		CreateNodes(ctx, "n3")
		low["c1"] = CreatePod(ctx, "somebody-else", "c1", CPU("4"), OnNode("n3"))
		StartExtended(ctx, fmt.Sprintf(extenders, one.URL, false, "5s", two.URL))
		one.Perform(testextender.Script{Spared: []string{"n1"}})
		two.Perform(testextender.Script{Spared: []string{"n3"}})
		high := CreatePod(ctx, "mine", "high", CPU("4"), Prioritized("important"))
		Expect(ExpectBound(ctx, high)).To(Equal("n2"))
		ExpectGone(ctx, low["a2"])
		ExpectGone(ctx, low["b2"])
		alive(ctx, "a1", "b1", "c1")
		Expect(callsAbout(one, testextender.Preempt, high)).
			To(ContainElement(And(HaveField("Whole", true), HaveField("Victims", And(HaveLen(3),
				HaveKeyWithValue("n1", ConsistOf(string(low["a1"].UID), string(low["b1"].UID))))))))
		Expect(callsAbout(two, testextender.Preempt, high)).
			To(ContainElement(And(HaveField("Whole", false), HaveField("Victims", And(HaveLen(2),
				HaveKeyWithValue("n2", ConsistOf(string(low["a2"].UID), string(low["b2"].UID))))))))
	})

	It("spare victims", func(ctx context.Context) {
		StartExtended(ctx, fmt.Sprintf(extenders, one.URL, false, "5s", two.URL))
		one.Perform(testextender.Script{Spared: []string{"n2"}, SparedPods: []string{string(low["a1"].UID)}})
		high := CreatePod(ctx, "mine", "high", CPU("4"), Prioritized("important"))
		ExpectGone(ctx, low["b1"])
		alive(ctx, "a1", "a2", "b2")

		By("no longer sparing that pod")
		one.Perform(testextender.Script{Spared: []string{"n2"}})
		Expect(K8s.Delete(ctx, low["a2"])).To(Succeed()) // makes some room, and requeues the pod
		Expect(ExpectBound(ctx, high)).To(Equal("n1"))
		alive(ctx, "b2")
	})

	It("reject all candidates", func(ctx context.Context) {
		StartExtended(ctx, fmt.Sprintf(extenders, one.URL, false, "5s", two.URL))
		two.Perform(testextender.Script{Spared: []string{"n1", "n2"}})
		high := CreatePod(ctx, "mine", "high", CPU("4"), Prioritized("important"))
		ExpectUnscheduled(ctx, high, corev1.PodReasonUnschedulable,
			HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
		alive(ctx, "a1", "b1", "a2", "b2")
		Expect(callsAbout(two, testextender.Preempt, high)).NotTo(BeEmpty())
	})

	DescribeTable("and fail", func(ctx context.Context, ignorable bool) {
		StartExtended(ctx, fmt.Sprintf(extenders, one.URL, ignorable, "1s", two.URL))
		two.Perform(testextender.Script{Spared: []string{"n1"}})
		for _, fault := range []testextender.Fault{testextender.Slow, testextender.Broken, testextender.Garbage,
			testextender.Gone} {
			one.Perform(testextender.Script{Faults: map[string]testextender.Fault{testextender.Preempt: fault}})
			high := CreatePod(ctx, "mine", "high-"+string(fault), CPU("4"), Prioritized("important"))
			if ignorable {
				Expect(ExpectBound(ctx, high)).To(Equal("n2"))
				alive(ctx, "a1", "b1")
				Expect(K8s.Delete(ctx, high)).To(Succeed())
				ExpectGone(ctx, high)
				CreatePod(ctx, "somebody-else", "a2-"+string(fault), CPU("4"), OnNode("n2"))
				continue
			}
			ExpectUnscheduled(ctx, high, corev1.PodReasonUnschedulable,
				HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
			Eventually(func() []testextender.Call { return callsAbout(one, testextender.Preempt, high) }).
				ShouldNot(BeEmpty())
			alive(ctx, "a1", "b1", "a2", "b2")
			Expect(K8s.Delete(ctx, high)).To(Succeed())
			ExpectGone(ctx, high)
		}
	},
		Entry("are skipped if they are ignorable", true),
		Entry("prevent the preemption if they are not", false),
	)
})
