// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/testcluster"
	"github.com/livesched/livesched/test/testextender"
)

// repolicy gives a policy another spec, in YAML, and waits until it decides.
func repolicy(ctx context.Context, name, spec string) {
	GinkgoHelper()
	next := policy(name, spec).Spec
	p := &v1alpha1.SchedulingPolicy{}
	p.Name = name
	update(ctx, p, func(p *v1alpha1.SchedulingPolicy) { p.Spec = next })
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		condition := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed)
		g.Expect(condition).To(And(HaveField("ObservedGeneration", p.Generation), HaveField("Reason", v1alpha1.ReasonProgrammed)))
	}).WithContext(ctx).Should(Succeed())
}

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
		one, two = startExtender(ctx), startExtender(ctx)
		perform(ctx, one, testextender.Script{Refused: map[string]string{"n1": "no", "n2": "no"}})
		perform(ctx, two, testextender.Script{Refused: map[string]string{"n1": "no", "n3": "no"}})
		nodes(ctx, "n1", "n2", "n3")
		run = start()
	})

	It("decide from one pod to the next, under load, and leave nothing behind", func(ctx context.Context) {
		create(ctx, policy("default", "{"+quick+"}"))
		createProfile(ctx, "mine", "")
		var all []*corev1.Pod
		// Pods keep coming while the policy changes; those that come once it is programmed go where
		// the new extenders let them.
		load := func(round string) {
			for _, name := range names(round, 10) {
				all = append(all, createPod(ctx, "mine", name, cpu("10m")))
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
			repolicy(ctx, "default", fmt.Sprintf("{%s, extenders: [%s]}", quick, step.extenders))
			Eventually(done).Should(BeClosed())
			pod := createPod(ctx, "mine", fmt.Sprintf("after-%d", i), cpu("10m"))
			switch {
			case step.node != "":
				Expect(expectBound(ctx, pod)).To(Equal(step.node))
			case step.extenders != "":
				all = append(all, pod)
				expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/3 nodes are available: 3 no."))
			default:
				expectBound(ctx, pod)
			}
		}
		for _, pod := range all {
			expectBound(ctx, pod)
		}
		Eventually(run.Scheduler.Store().Alive).Should(Equal(1))
		Expect(one.Calls(ctx)).NotTo(BeEmpty())
		Expect(two.Calls(ctx)).NotTo(BeEmpty())
		expectBound(ctx, createPod(ctx, "mine", "last"))
		Expect(one.Calls(ctx)).To(BeEmpty(), "nobody asks it any more")
	})

	It("are asked about the pods of that policy's profiles only", func(ctx context.Context) {
		create(ctx, policy("first", "{"+quick+", extenders: ["+fmt.Sprintf(filter, one.URL)+"]}"), policy("second", "{"+quick+", extenders: ["+fmt.Sprintf(filter, two.URL)+"]}"))
		createProfile(ctx, "a", "policyRef: {name: first}")
		createProfile(ctx, "b", "policyRef: {name: second}")
		createProfile(ctx, "c", "")
		for i := range 3 {
			first, second := createPod(ctx, "a", fmt.Sprintf("a-%d", i)), createPod(ctx, "b", fmt.Sprintf("b-%d", i))
			third := createPod(ctx, "c", fmt.Sprintf("c-%d", i))
			Expect(expectBound(ctx, first)).To(Equal("n3"))
			Expect(expectBound(ctx, second)).To(Equal("n2"))
			expectBound(ctx, third)
		}
		for e, prefix := range map[*testextender.Extender]string{one: "a-", two: "b-"} {
			calls, err := e.Calls(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(calls).To(HaveLen(3))
			Expect(calls).To(HaveEach(HaveField("Pod", HavePrefix(prefix))))
		}
	})

	It("that hangs does not hold up the end of the process", func(ctx context.Context) {
		create(ctx, policy("default", fmt.Sprintf(`{extenders: [{urlPrefix: %q, filterVerb: filter, httpTimeout: 1h}]}`, one.URL)))
		createProfile(ctx, "mine", "")
		perform(ctx, one, testextender.Script{Faults: map[string]testextender.Fault{testextender.Filter: testextender.Slow}})
		pod := createPod(ctx, "mine", "pod")
		Eventually(func() []testextender.Call { return callsAbout(ctx, one, testextender.Filter, pod) }).ShouldNot(BeEmpty())
		Expect(run.Stop(endsWithin)).To(Succeed())
	})
})
