// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
)

var _ = Describe("A profile", Ordered, ContinueOnFailure, func() {
	s := pluginStage(map[string]string{"mine": ""})

	// given creates a profile for one spec.
	given := func(ctx context.Context, name, spec string) {
		GinkgoHelper()
		createProfile(ctx, name, spec)
		DeferCleanup(func(ctx context.Context) { Expect(k8s.Delete(ctx, profile(name, ""))).To(Succeed()) })
	}
	// fill takes room on a node.
	fill := func(ctx context.Context, node string) {
		GinkgoHelper()
		create(ctx, podOf("somebody-else", "filler", cpu("1"), on(node)))
		expectSeen(ctx, 2)
	}

	It("packs rather than spreads from the moment when its strategy is changed", func(ctx context.Context) {
		const strategy = `
pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: %s, resources: [{name: cpu, weight: 1}]}}}]
plugins: {multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
`
		given(ctx, "changing", fmt.Sprintf(strategy, "LeastAllocated"))
		fill(ctx, "n1")
		Expect(expectBound(ctx, createPod(ctx, "changing", "spread"))).To(Equal("n2"))
		respec(ctx, "changing", fmt.Sprintf(strategy, "MostAllocated"))
		Expect(expectBound(ctx, createPod(ctx, "changing", "packed"))).To(Equal("n1"))
		respec(ctx, "changing", fmt.Sprintf(strategy, "RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}"))
		Expect(expectBound(ctx, createPod(ctx, "changing", "spread-again"))).To(Equal("n2"))
	})

	It("packs rather than spreads from the moment when its policy says so", func(ctx context.Context) {
		shared := policy("shared", "algorithmSource: {provider: DefaultProvider}")
		createFor(ctx, shared)
		given(ctx, "governed", "policyRef: {name: shared}\nplugins: {multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}]}}")
		fill(ctx, "n1")
		Expect(expectBound(ctx, createPod(ctx, "governed", "spread"))).To(Equal("n2"))
		before := expectProgrammed(ctx, "governed").Status.Active.Revision
		update(ctx, shared, func(p *v1alpha1.SchedulingPolicy) {
			p.Spec.AlgorithmSource.Provider = ptr.To(v1alpha1.ClusterAutoscalerProvider)
		})
		Eventually(func() string { return expectProgrammed(ctx, "governed").Status.Active.Revision }).ShouldNot(Equal(before))
		Expect(expectBound(ctx, createPod(ctx, "governed", "packed"))).To(Equal("n1"))
	})

	It("has instances of its plugins, and arguments, of its own", func(ctx context.Context) {
		const with = `
plugins: {multiPoint: {enabled: [{name: Alpha}]}}
pluginConfig: [{name: Alpha, args: {as: %q}}]
`
		given(ctx, "one", fmt.Sprintf(with, "one"))
		given(ctx, "two", fmt.Sprintf(with, "two"))
		for _, name := range []string{"one", "two"} {
			pod := createPod(ctx, name, "of-"+name)
			expectBound(ctx, pod)
			for _, point := range []string{"PreFilter", "Filter", "Score", "Reserve", "PreBind"} {
				Expect(s.at(pod, point)).To(And(Not(BeEmpty()), HaveEach("Alpha "+name)), point)
			}
		}
	})

	DescribeTable("runs at each point what it names there, and then what it names for all", func(ctx context.Context, plugins string, want map[string][]string) {
		given(ctx, "composed", "plugins:\n  multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}\n"+plugins)
		pod := createPod(ctx, "composed", "composed-pod", selecting(corev1.LabelHostname, "n1"))
		expectBound(ctx, pod)
		Eventually(s.at).WithArguments(pod, "PostBind").ShouldNot(BeEmpty())
		for point, plugins := range want {
			Expect(s.at(pod, point)).To(Equal(plugins), point)
		}
	},
		Entry("in the order of the list for all", "", map[string][]string{
			"PreEnqueue": {alpha, beta}, "PreFilter": {alpha, beta}, "Filter": {alpha, beta}, "Reserve": {alpha, beta},
			"Permit": {alpha, beta}, "PreBindPreFlight": {alpha, beta}, "PreBind": {alpha, beta}, "PostBind": {alpha, beta},
		}),
		Entry("with the one that is named for a point first", "  reserve: {enabled: [{name: Beta}]}\n", map[string][]string{
			"Reserve": {beta, alpha}, "Permit": {alpha, beta},
		}),
		Entry("without the one that is disabled at a point", "  permit: {disabled: [{name: Alpha}]}\n", map[string][]string{
			"Reserve": {alpha, beta}, "Permit": {beta},
		}),
		Entry("with nothing but what is named for a point that is cleared", "  filter: {enabled: [{name: NodeResourcesFit}, {name: NodeAffinity}, {name: Beta}], disabled: [{name: '*'}]}\n", map[string][]string{
			"PreFilter": {alpha, beta}, "Filter": {beta},
		}),
		Entry("in another order at a point that is cleared", "  postBind: {enabled: [{name: Beta}, {name: Alpha}], disabled: [{name: '*'}]}\n", map[string][]string{
			"PreBind": {alpha, beta}, "PostBind": {beta, alpha},
		}),
	)

	DescribeTable("asks the PostFilter plugins until one has an answer", func(ctx context.Context, code fwk.Code, want []string) {
		given(ctx, "helped", "plugins: {postFilter: {enabled: [{name: Alpha}, {name: Beta}], disabled: [{name: '*'}]}}")
		s.perform(func(a *acts) {
			a.postFilter = func(a *actor, _ *corev1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
				if a.name == beta {
					return nil, fwk.NewStatus(fwk.Unschedulable, "nor I")
				}
				result := schedframework.NewPostFilterResultWithNominatedNode("n2")
				if code != fwk.Success {
					result = nil
				}
				return result, fwk.NewStatus(code, "not I")
			}
		})
		pod := createPod(ctx, "helped", "helpless", selecting("no-node", "has-this"))
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, Not(BeEmpty()))
		Expect(s.at(pod, "PostFilter")).To(Equal(want))
		if code == fwk.Success {
			Expect(pod.Status.NominatedNodeName).To(Equal("n2"))
		} else {
			Expect(pod.Status.NominatedNodeName).To(BeEmpty())
		}
	},
		Entry("one that helps", fwk.Success, []string{alpha}),
		Entry("none", fwk.Unschedulable, []string{alpha, beta}),
		Entry("one that knows that there is no help", fwk.UnschedulableAndUnresolvable, []string{alpha}),
		Entry("one that fails", fwk.Error, []string{alpha}),
	)

	It("binds a gang when its last member has come, by a plugin that holds the others on Permit", func(ctx context.Context) {
		given(ctx, "gangs", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		const size = 3
		s.perform(func(a *acts) {
			a.permit = func(a *actor, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
				var others []fwk.WaitingPod
				a.handle.IterateOverWaitingPods(func(other fwk.WaitingPod) {
					if other.GetPod().Labels["gang"] == pod.Labels["gang"] {
						others = append(others, other)
					}
				})
				if len(others) < size-1 {
					return fwk.NewStatus(fwk.Wait), 10 * time.Minute
				}
				for _, other := range others {
					other.Allow(a.name)
				}
				return nil, 0
			}
		})
		var gang []*corev1.Pod
		for _, name := range names("member", size-1) {
			gang = append(gang, createPod(ctx, "gangs", name, labelled("gang", "a")))
		}
		other := createPod(ctx, "gangs", "of-another-gang", labelled("gang", "b"))
		for _, pod := range append(gang, other) {
			expectPending(ctx, pod)
		}
		gang = append(gang, createPod(ctx, "gangs", "last", labelled("gang", "a")))
		for _, pod := range gang {
			expectBound(ctx, pod)
		}
		expectPending(ctx, other)
	})

	It("rejects a pod on Permit as soon as the least patient plugin has waited long enough", func(ctx context.Context) {
		given(ctx, "patient", "plugins: {multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}}")
		s.perform(func(a *acts) {
			a.permit = func(a *actor, _ *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
				return fwk.NewStatus(fwk.Wait), map[string]time.Duration{alpha: time.Hour, beta: 50 * time.Millisecond}[a.name]
			}
		})
		pod := createPod(ctx, "patient", "waiting")
		expectUnschedulable(ctx, pod, "0/1 nodes are available: 1 rejected due to timeout after waiting 50ms at plugin Beta.")
		Expect(s.at(pod, "Unreserve")[:2]).To(Equal([]string{beta, alpha}))
		Expect(s.at(pod, "PreBind")).To(BeEmpty())
	})

	It("has a pod tried again when a plugin asks for it", func(ctx context.Context) {
		given(ctx, "siblings", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		var come atomic.Bool
		s.perform(func(a *acts) {
			a.filter = func(_ context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "younger" && !come.Load() {
					return fwk.NewStatus(fwk.Unschedulable, "not before the elder")
				}
				return nil
			}
		})
		younger := createPod(ctx, "siblings", "younger")
		expectUnscheduled(ctx, younger, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 2 not before the elder. "))
		s.perform(func(a *acts) {
			a.postBind = func(a *actor, pod *corev1.Pod) {
				if pod.Name == "elder" {
					come.Store(true)
					a.handle.Activate(klog.Background(), map[string]*corev1.Pod{"default/younger": younger})
				}
			}
		})
		expectBound(ctx, createPod(ctx, "siblings", "elder"))
		expectBound(ctx, younger)
	})

	It("looks at a sample of the nodes if it says so, and each time at other ones first", func(ctx context.Context) {
		const total, least = 130, 100 // kube-scheduler never looks at fewer than 100
		for _, name := range names("many", total-2) {
			create(ctx, objects.Node(name, "4", "8Gi", nil))
		}
		expectSeen(ctx, total)
		// Several workers leave gaps in what they look at.
		createFor(ctx, policy("one-worker", "{parallelism: 1, podInitialBackoff: 1ms, podMaxBackoff: 1ms}"))
		given(ctx, "sampling", "policyRef: {name: one-worker}\npercentageOfNodesToScore: 10\nplugins: {filter: {enabled: [{name: Alpha}]}, score: {enabled: [{name: Alpha}]}}")
		looked := func(name, point string) sets.Set[string] {
			pod := createPod(ctx, "sampling", name)
			expectBound(ctx, pod)
			seen := sets.New[string]()
			for _, c := range s.about(pod) {
				if c.point == point {
					seen.Insert(c.node)
				}
			}
			return seen
		}
		first := looked("first", "Filter")
		Expect(len(first)).To(And(BeNumerically(">=", least), BeNumerically("<", total)))
		Expect(looked("scored", "Score")).To(HaveLen(least))
		Expect(first.Union(looked("third", "Filter"))).To(HaveLen(total), "the third sample begins where the second ended")

		By("looking at all nodes when it says nothing")
		respec(ctx, "sampling", "policyRef: {name: one-worker}\nplugins: {filter: {enabled: [{name: Alpha}]}, score: {enabled: [{name: Alpha}]}}")
		Expect(looked("fourth", "Score")).To(HaveLen(total))
	})
})

var _ = Describe("A queue sort that panics", func() {
	It("does not keep any pod from being scheduled", func(ctx context.Context) {
		s := &script{}
		start(s.register)
		s.perform(func(a *acts) {
			a.less = func(_, _ *corev1.Pod) bool { panic("out of luck") }
		})
		create(ctx, policy("default", "queueSort: {name: Sorter}"))
		createProfile(ctx, "mine", "")
		var pods []*corev1.Pod
		for _, name := range names("pod", 5) { // which all wait for a node at the same time
			pods = append(pods, createPod(ctx, "mine", name))
		}
		nodes(ctx, "n1")
		for _, pod := range pods {
			expectBound(ctx, pod)
		}
		var compared []string
		for _, pod := range pods {
			compared = append(compared, s.at(pod, "Less")...)
		}
		Expect(compared).NotTo(BeEmpty())
	})
})
