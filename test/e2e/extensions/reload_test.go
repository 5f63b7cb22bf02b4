// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
	"github.com/livesched/livesched/test/testextender"
)

var _ = Describe("Extenders of a policy that changes", func() {
	var (
		one, two *testextender.Extender
		run      *testcluster.Running
	)
	const (
		quick  = `podInitialBackoff: 1ms, podMaxBackoff: 1ms`
		filter = `{urlPrefix: %q, filterVerb: filter, nodeCacheCapable: true}`
	)

	BeforeEach(func(ctx context.Context) {
		one, two = startExtender(), startExtender()
		one.Perform(testextender.Script{Refused: map[string]string{"n1": "no", "n2": "no"}})
		two.Perform(testextender.Script{Refused: map[string]string{"n1": "no", "n3": "no"}})
		CreateNodes(ctx, "n1", "n2", "n3")
		run = Start()
	})

	It("apply from the next pod on, under load, and leave nothing behind", func(ctx context.Context) {
		Create(ctx, Policy("default", "{"+quick+"}"))
		CreateProfile(ctx, "mine", "")
		var all []*corev1.Pod
		// Pods keep coming while the policy changes; those that come once it is programmed go where
		// the new extenders let them.
		load := func(round string) {
			for _, name := range Names(round, 10) {
				all = append(all, CreatePod(ctx, "mine", name, CPU("10m")))
			}
		}
		for i, step := range []struct{ extenders, node string }{
			{fmt.Sprintf(filter, one.URL), "n3"},
			{fmt.Sprintf(filter, two.URL), "n2"},
			{fmt.Sprintf(`{urlPrefix: %q, prioritizeVerb: prioritize, weight: 1000}, `+filter, two.URL, one.URL), "n3"},
			{fmt.Sprintf(filter+", "+filter, one.URL, two.URL), ""},
			{"", ""},
		} {
			load(fmt.Sprintf("before-%d", i))
			done := make(chan struct{})
			go func() {
				defer GinkgoRecover()
				defer close(done)
				load(fmt.Sprintf("during-%d", i))
			}()
			Repolicy(ctx, "default", fmt.Sprintf("{%s, extenders: [%s]}", quick, step.extenders))
			Eventually(done).Should(BeClosed())
			pod := CreatePod(ctx, "mine", fmt.Sprintf("after-%d", i), CPU("10m"))
			switch {
			case step.node != "":
				Expect(ExpectBound(ctx, pod)).To(Equal(step.node))
			case step.extenders != "":
				all = append(all, pod)
				ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/3 nodes are available: 3 no."))
			default:
				ExpectBound(ctx, pod)
			}
		}
		for _, pod := range all {
			ExpectBound(ctx, pod)
		}
		Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
		Expect(one.Calls()).NotTo(BeEmpty())
		Expect(two.Calls()).NotTo(BeEmpty())
		ExpectBound(ctx, CreatePod(ctx, "mine", "last"))
		Expect(one.Calls()).To(BeEmpty(), "nobody asks it any more")
	})

	It("are called only for the pods of that policy's profiles", func(ctx context.Context) {
		Create(ctx, Policy("first", "{"+quick+", extenders: ["+fmt.Sprintf(filter, one.URL)+"]}"),
			Policy("second", "{"+quick+", extenders: ["+fmt.Sprintf(filter, two.URL)+"]}"))
		CreateProfile(ctx, "a", "policyRef: {name: first}")
		CreateProfile(ctx, "b", "policyRef: {name: second}")
		CreateProfile(ctx, "c", "")
		for i := range 3 {
			first, second := CreatePod(ctx, "a", fmt.Sprintf("a-%d", i)), CreatePod(ctx, "b", fmt.Sprintf("b-%d", i))
			third := CreatePod(ctx, "c", fmt.Sprintf("c-%d", i))
			Expect(ExpectBound(ctx, first)).To(Equal("n3"))
			Expect(ExpectBound(ctx, second)).To(Equal("n2"))
			ExpectBound(ctx, third)
		}
		for e, prefix := range map[*testextender.Extender]string{one: "a-", two: "b-"} {
			calls := e.Calls()
			Expect(calls).To(HaveLen(3))
			Expect(calls).To(HaveEach(HaveField("Pod", HavePrefix(prefix))))
		}
	})

	It("that hang do not delay the end of the process", func(ctx context.Context) {
		Create(ctx, Policy("default",
			fmt.Sprintf(`{extenders: [{urlPrefix: %q, filterVerb: filter, httpTimeout: 15s}]}`, one.URL)))
		CreateProfile(ctx, "mine", "")
		one.Perform(testextender.Script{Faults: map[string]testextender.Fault{testextender.Filter: testextender.Slow}})
		pod := CreatePod(ctx, "mine", "pod")
		Eventually(func() []testextender.Call { return callsAbout(one, testextender.Filter, pod) }).ShouldNot(BeEmpty())
		Expect(run.Stop(EndsWithin)).To(Succeed())
	})
})
