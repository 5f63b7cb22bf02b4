// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testextender"
)

// startExtender runs an extender until the end of the spec.
func startExtender(change ...func(*testextender.Options)) *testextender.Extender {
	GinkgoHelper()
	options := testextender.Options{Client: K8s, Log: GinkgoWriter}
	for _, f := range change {
		f(&options)
	}
	e, err := testextender.Start(options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(e.Stop)
	return e
}

// callsAbout returns the calls of a verb for a pod since the last time.
func callsAbout(e *testextender.Extender, verb string, pod *corev1.Pod) []testextender.Call {
	var found []testextender.Call
	for _, call := range e.Calls() {
		if call.Verb == verb && call.Pod == pod.Name {
			found = append(found, call)
		}
	}
	return found
}

// poke changes something in the cluster that helps no pod.
func poke(ctx context.Context, node string) {
	GinkgoHelper()
	n := &corev1.Node{}
	n.Name = node
	Update(ctx, n, func(n *corev1.Node) {
		n.Labels["example.com/poked"] = n.ResourceVersion
	})
}

func requesting(name corev1.ResourceName) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		resources := &pod.Spec.Containers[0].Resources
		resources.Limits = corev1.ResourceList{name: resource.MustParse("1")}
		resources.Requests[name] = resource.MustParse("1")
	}
}

var _ = Describe("Extenders", func() {
	var one, two *testextender.Extender

	BeforeEach(func(ctx context.Context) {
		one, two = startExtender(), startExtender()
		CreateNodes(ctx, "n1", "n2", "n3")
	})

	It("filter nodes one after the other, and any event retries a pod that they rejected", func(ctx context.Context) {
		StartExtended(ctx, fmt.Sprintf(`[{urlPrefix: %q, filterVerb: filter}, {urlPrefix: %q, filterVerb: filter, `+
			`nodeCacheCapable: true}]`, one.URL, two.URL))
		one.Perform(testextender.Script{Refused: map[string]string{"n1": "too loud"}})
		two.Perform(testextender.Script{Hopeless: map[string]string{"n2": "too far"}})
		pod := CreatePod(ctx, "mine", "pod")
		Expect(ExpectBound(ctx, pod)).To(Equal("n3"))
		Expect(callsAbout(one, testextender.Filter, pod)).
			To(ConsistOf(And(HaveField("Whole", true), HaveField("Nodes", ConsistOf("n1", "n2", "n3")))))
		Expect(callsAbout(two, testextender.Filter, pod)).
			To(ConsistOf(And(HaveField("Whole", false), HaveField("Nodes", ConsistOf("n2", "n3")))))

		two.Perform(testextender.Script{Refused: map[string]string{"n3": "too high"},
			Hopeless: map[string]string{"n2": "too far"}})
		refused := CreatePod(ctx, "mine", "refused")
		ExpectUnschedulable(ctx, refused, "0/3 nodes are available: 1 too far, 1 too high, 1 too loud. "+
			"preemption: 0/3 nodes are available: 1 Preemption is not helpful for "+
			"scheduling, 2 No preemption victims found for incoming pod.")
		two.Perform(testextender.Script{Hopeless: map[string]string{"n2": "too far"}})
		Eventually(func(g Gomega) {
			poke(ctx, "n1")
			g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(refused), refused)).To(Succeed())
			g.Expect(refused.Spec.NodeName).To(Equal("n3"))
		}).WithContext(ctx).Should(Succeed())
	})

	It("add their weighted scores to those of the plugins", func(ctx context.Context) {
		StartExtended(ctx, fmt.Sprintf(`[{urlPrefix: %q, prioritizeVerb: prioritize, weight: 100}, {urlPrefix: %q, `+
			`prioritizeVerb: prioritize, nodeCacheCapable: true, weight: 60}]`, one.URL, two.URL))
		// The plugins prefer the emptier nodes.
		Create(ctx, PodOf("somebody-else", "filler", CPU("3"), OnNode("n1")),
			PodOf("somebody-else", "half", CPU("2"), OnNode("n2")))
		one.Perform(testextender.Script{Scores: map[string]int64{"n1": 5}})
		// 4800, and with the plugins' hundreds less than 5000
		two.Perform(testextender.Script{Scores: map[string]int64{"n2": 8}})
		for _, name := range Names("pod", 3) {
			pod := CreatePod(ctx, "mine", name)
			Expect(ExpectBound(ctx, pod)).To(Equal("n1"))
			Expect(callsAbout(two, testextender.Prioritize, pod)).
				To(ConsistOf(And(HaveField("Whole", false), HaveField("Nodes", ConsistOf("n1", "n2", "n3")))))
		}
		two.Perform(testextender.Script{Scores: map[string]int64{"n2": 10}})
		for _, name := range Names("other", 3) {
			Expect(ExpectBound(ctx, CreatePod(ctx, "mine", name))).To(Equal("n2"))
		}
	})

	It("are called for pods that request their managed resources, which the scheduler ignores if they are configured "+
		"so", func(ctx context.Context) {
		StartExtended(ctx, fmt.Sprintf(`[{urlPrefix: %q, filterVerb: filter, managedResources: [{name: `+
			`example.com/theirs, ignoredByScheduler: true}, {name: example.com/shared}]}]`, one.URL))
		one.Perform(testextender.Script{Refused: map[string]string{"n1": "no", "n2": "no"}})
		theirs := CreatePod(ctx, "mine", "theirs", requesting("example.com/theirs"))
		Expect(ExpectBound(ctx, theirs)).To(Equal("n3"))
		Expect(callsAbout(one, testextender.Filter, theirs)).To(HaveLen(1))

		one.Perform(testextender.Script{
			Faults: map[string]testextender.Fault{testextender.Filter: testextender.Broken}})
		plain := CreatePod(ctx, "mine", "plain")
		ExpectBound(ctx, plain)
		shared := CreatePod(ctx, "mine", "shared", requesting("example.com/shared"))
		ExpectUnscheduled(ctx, shared, corev1.PodReasonUnschedulable,
			HavePrefix("0/3 nodes are available: 3 Insufficient example.com/shared."))
		Expect(one.Calls()).To(BeEmpty())
	})

	Describe("that bind", func() {
		const binds = `[{urlPrefix: %q, bindVerb: bind, ignorable: %v, httpTimeout: %s, managedResources: [{name: ` +
			`example.com/theirs, ignoredByScheduler: true}]}]`

		It("bind the pods that they are interested in, and nothing else binds these", func(ctx context.Context) {
			StartExtended(ctx, fmt.Sprintf(binds, one.URL, false, "3s"))
			one.Perform(testextender.Script{Errors: map[string]string{testextender.Bind: "no keys"}})
			plain := CreatePod(ctx, "mine", "plain")
			ExpectBound(ctx, plain)
			theirs := CreatePod(ctx, "mine", "theirs", requesting("example.com/theirs"))
			words := And(ContainSubstring(one.URL+`", bind: the extender reports an error`),
				Not(ContainSubstring("no keys")))
			if os.Getenv(Oracle) != "" {
				words = ContainSubstring("no keys") // kube-scheduler repeats what the extender says
			}
			ExpectUnscheduled(ctx, theirs, corev1.PodReasonSchedulerError, words)
			ExpectEvent(ctx, theirs, "FailedScheduling", words)
			one.Perform(testextender.Script{})
			node := ExpectBound(ctx, theirs)
			Expect(callsAbout(one, testextender.Bind, theirs)).To(ContainElement(HaveField("Nodes", ConsistOf(node))))
			ExpectEvent(ctx, theirs, "Scheduled", Equal("Successfully assigned default/theirs to "+node))
		})

		It("and fail are skipped if they are ignorable", func(ctx context.Context) {
			StartExtended(ctx, fmt.Sprintf(binds, one.URL, true, "1s"))
			for fault, name := range map[testextender.Fault]string{testextender.Broken: "a", testextender.Garbage: "b",
				testextender.Gone: "c", testextender.Slow: "d"} {
				one.Perform(testextender.Script{Faults: map[string]testextender.Fault{testextender.Bind: fault}})
				pod := CreatePod(ctx, "mine", name, requesting("example.com/theirs"))
				ExpectBound(ctx, pod)
				Expect(callsAbout(one, testextender.Bind, pod)).To(HaveLen(1))
				Expect(EventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())
			}
		})

		It("and report a failure although they bound the pod: it stays bound, once, and its room is taken",
			func(ctx context.Context) {
				if os.Getenv(Oracle) != "" {
					Skip("kube-scheduler undoes what it does not know, until an informer tells it better")
				}
				StartExtended(ctx, fmt.Sprintf(binds, one.URL, false, "3s"))
				one.Perform(testextender.Script{
					Faults: map[string]testextender.Fault{testextender.Bind: testextender.Unsure}})
				pod := CreatePod(ctx, "mine", "pod", CPU("3"), Selecting(corev1.LabelHostname, "n1"),
					requesting("example.com/theirs"))
				ExpectBound(ctx, pod)
				ExpectEvent(ctx, pod, "Scheduled", Equal("Successfully assigned default/pod to n1"))
				Expect(callsAbout(one, testextender.Bind, pod)).To(HaveLen(1))
				ExpectStillScheduled(ctx, pod)
				late := CreatePod(ctx, "mine", "late", CPU("3"), Selecting(corev1.LabelHostname, "n1"))
				ExpectUnscheduled(ctx, late, corev1.PodReasonUnschedulable, ContainSubstring("1 Insufficient cpu"))
			})
	})

	DescribeTable("that break fail the pod, which is retried, or are skipped if they are ignorable:",
		func(ctx context.Context, fault testextender.Fault) {
			StartExtended(ctx, fmt.Sprintf(`[{urlPrefix: %q, filterVerb: filter, prioritizeVerb: prioritize, weight: `+
				`1, ignorable: true, httpTimeout: 500ms}, {urlPrefix: %q, filterVerb: filter, httpTimeout: 3s}]`,
				one.URL, two.URL))
			broken := testextender.Script{
				Faults:  map[string]testextender.Fault{testextender.Filter: fault, testextender.Prioritize: fault},
				Refused: map[string]string{"n1": "no", "n2": "no", "n3": "no"},
			}
			one.Perform(broken)
			two.Perform(testextender.Script{Refused: map[string]string{"n2": "no", "n3": "no"}})
			ignored := CreatePod(ctx, "mine", "ignored")
			Expect(ExpectBound(ctx, ignored)).To(Equal("n1"))
			Expect(EventsOf(ctx, ignored, "FailedScheduling")).To(BeEmpty())

			two.Perform(broken)
			failed := CreatePod(ctx, "mine", "failed")
			who := two.URL
			if os.Getenv(Oracle) != "" {
				who = "" // kube-scheduler does not always name the extender
			}
			ExpectUnscheduled(ctx, failed, corev1.PodReasonSchedulerError, ContainSubstring(who))
			ExpectEvent(ctx, failed, "FailedScheduling", ContainSubstring(who))
			ExpectPending(ctx, failed)
			if fault == testextender.Dead {
				Eventually(two.Done()).Should(BeClosed())
				// It returns without a script: it must not be called before it has one.
				for _, name := range []string{"n1", "n2", "n3"} {
					Update(ctx, NodeOf(name), func(n *corev1.Node) { n.Spec.Unschedulable = true })
				}
				ExpectUnscheduled(ctx, failed, corev1.PodReasonUnschedulable,
					HavePrefix("0/3 nodes are available: 3 node(s) were unschedulable."))
				Expect(two.Restart()).To(Succeed())
			}
			two.Perform(testextender.Script{Refused: map[string]string{"n1": "no", "n2": "no"}})
			if fault == testextender.Dead {
				for _, name := range []string{"n1", "n2", "n3"} {
					Update(ctx, NodeOf(name), func(n *corev1.Node) { n.Spec.Unschedulable = false })
				}
			}
			Expect(ExpectBound(ctx, failed)).To(Equal("n3"))
		},
		Entry("too slow", testextender.Slow),
		Entry("a status other than 200", testextender.Broken),
		Entry("an invalid response", testextender.Garbage),
		Entry("a closed connection", testextender.Gone),
		Entry("a crash during the call, until they are back", testextender.Dead),
	)
})
