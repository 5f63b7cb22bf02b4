// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

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
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("A profile", Ordered, ContinueOnFailure, func() {
	s := PluginStage(map[string]string{"mine": ""})

	// given creates a profile for one spec.
	given := func(ctx context.Context, name, spec string) {
		GinkgoHelper()
		CreateProfile(ctx, name, spec)
		DeferCleanup(func(ctx context.Context) { Expect(K8s.Delete(ctx, Profile(name, ""))).To(Succeed()) })
	}
	// fill takes room on a node.
	fill := func(ctx context.Context, node string) {
		GinkgoHelper()
		Create(ctx, PodOf("somebody-else", "filler", CPU("1"), OnNode(node)))
		ExpectSeen(ctx, 2)
	}

	It("packs pods instead of spreading them as soon as its strategy changes", func(ctx context.Context) {
		const strategy = `
pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: %s, resources: [{name: cpu, weight: 1}]}}}]
plugins: {multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
`
		given(ctx, "changing", fmt.Sprintf(strategy, "LeastAllocated"))
		fill(ctx, "n1")
		Expect(ExpectBound(ctx, CreatePod(ctx, "changing", "spread"))).To(Equal("n2"))
		Respec(ctx, "changing", fmt.Sprintf(strategy, "MostAllocated"))
		Expect(ExpectBound(ctx, CreatePod(ctx, "changing", "packed"))).To(Equal("n1"))
		Respec(ctx, "changing", fmt.Sprintf(strategy, "RequestedToCapacityRatio, requestedToCapacityRatio: {shape: "+
			"[{utilization: 0, score: 10}, {utilization: 100, score: 0}]}"))
		Expect(ExpectBound(ctx, CreatePod(ctx, "changing", "spread-again"))).To(Equal("n2"))
	})

	It("packs pods instead of spreading them as soon as its policy changes", func(ctx context.Context) {
		shared := Policy("shared", "algorithmSource: {provider: DefaultProvider}")
		CreateFor(ctx, shared)
		given(ctx, "governed",
			"policyRef: {name: shared}\nplugins: {multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}]}}")
		fill(ctx, "n1")
		Expect(ExpectBound(ctx, CreatePod(ctx, "governed", "spread"))).To(Equal("n2"))
		before := ExpectProgrammed(ctx, "governed").Status.Active.Revision
		Update(ctx, shared, func(p *v1alpha1.SchedulingPolicy) {
			p.Spec.AlgorithmSource.Provider = ptr.To(v1alpha1.ClusterAutoscalerProvider)
		})
		Eventually(func() string { return ExpectProgrammed(ctx, "governed").Status.Active.Revision }).
			ShouldNot(Equal(before))
		Expect(ExpectBound(ctx, CreatePod(ctx, "governed", "packed"))).To(Equal("n1"))
	})

	It("has its own instances of plugins and its own arguments", func(ctx context.Context) {
		const with = `
plugins: {multiPoint: {enabled: [{name: Alpha}]}}
pluginConfig: [{name: Alpha, args: {as: %q}}]
`
		given(ctx, "one", fmt.Sprintf(with, "one"))
		given(ctx, "two", fmt.Sprintf(with, "two"))
		for _, name := range []string{"one", "two"} {
			pod := CreatePod(ctx, name, "of-"+name)
			ExpectBound(ctx, pod)
			for _, point := range []string{"PreFilter", "Filter", "Score", "Reserve", "PreBind"} {
				Expect(s.At(pod, point)).To(And(Not(BeEmpty()), HaveEach("Alpha "+name)), point)
			}
		}
	})

	DescribeTable("runs at each extension point the plugins that are named for it, and then those of multiPoint:",
		func(ctx context.Context, plugins string, want map[string][]string) {
			given(ctx, "composed", "plugins:\n  multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}\n"+plugins)
			pod := CreatePod(ctx, "composed", "composed-pod", Selecting(corev1.LabelHostname, "n1"))
			ExpectBound(ctx, pod)
			Eventually(s.At).WithArguments(pod, "PostBind").ShouldNot(BeEmpty())
			for point, plugins := range want {
				Expect(s.At(pod, point)).To(Equal(plugins), point)
			}
		},
		Entry("in the order of multiPoint", "", map[string][]string{
			"PreEnqueue": {Alpha, Beta}, "PreFilter": {Alpha, Beta}, "Filter": {Alpha, Beta}, "Reserve": {Alpha, Beta},
			"Permit": {Alpha, Beta}, "PreBindPreFlight": {Alpha, Beta}, "PreBind": {Alpha, Beta},
			"PostBind": {Alpha, Beta},
		}),
		Entry("with a plugin that is named for the point first", "  reserve: {enabled: [{name: Beta}]}\n",
			map[string][]string{
				"Reserve": {Beta, Alpha}, "Permit": {Alpha, Beta},
			}),
		Entry("without a plugin that is disabled at the point", "  permit: {disabled: [{name: Alpha}]}\n",
			map[string][]string{
				"Reserve": {Alpha, Beta}, "Permit": {Beta},
			}),
		Entry("with only the plugins that are named for a point that is cleared",
			"  filter: {enabled: [{name: NodeResourcesFit}, {name: NodeAffinity}, {name: Beta}], disabled: [{name: "+
				"'*'}]}\n", map[string][]string{
				"PreFilter": {Alpha, Beta}, "Filter": {Beta},
			}),
		Entry("in another order at a point that is cleared",
			"  postBind: {enabled: [{name: Beta}, {name: Alpha}], disabled: [{name: '*'}]}\n", map[string][]string{
				"PreBind": {Alpha, Beta}, "PostBind": {Beta, Alpha},
			}),
	)

	DescribeTable("runs the PostFilter plugins until one returns a result:", func(ctx context.Context, code fwk.Code,
		want []string) {
		given(ctx, "helped", "plugins: {postFilter: {enabled: [{name: Alpha}, {name: Beta}], disabled: [{name: '*'}]}}")
		s.Perform(func(a *Acts) {
			a.PostFilter = func(a *Actor, _ *corev1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
				if a.Name() == Beta {
					return nil, fwk.NewStatus(fwk.Unschedulable, "nor I")
				}
				result := schedframework.NewPostFilterResultWithNominatedNode("n2")
				if code != fwk.Success {
					result = nil
				}
				return result, fwk.NewStatus(code, "not I")
			}
		})
		pod := CreatePod(ctx, "helped", "helpless", Selecting("no-node", "has-this"))
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, Not(BeEmpty()))
		Expect(s.At(pod, "PostFilter")).To(Equal(want))
		if code == fwk.Success {
			Expect(pod.Status.NominatedNodeName).To(Equal("n2"))
		} else {
			Expect(pod.Status.NominatedNodeName).To(BeEmpty())
		}
	},
		Entry("success", fwk.Success, []string{Alpha}),
		Entry("unschedulable, from all", fwk.Unschedulable, []string{Alpha, Beta}),
		Entry("unresolvable", fwk.UnschedulableAndUnresolvable, []string{Alpha}),
		Entry("an error", fwk.Error, []string{Alpha}),
	)

	It("binds a gang when its last member is created, with a plugin that holds the others on Permit",
		func(ctx context.Context) {
			given(ctx, "gangs", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
			const size = 3
			s.Perform(func(a *Acts) {
				a.Permit = func(a *Actor, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
					var others []fwk.WaitingPod
					a.Handle.IterateOverWaitingPods(func(other fwk.WaitingPod) {
						if other.GetPod().Labels["gang"] == pod.Labels["gang"] {
							others = append(others, other)
						}
					})
					if len(others) < size-1 {
						return fwk.NewStatus(fwk.Wait), 10 * time.Minute
					}
					for _, other := range others {
						other.Allow(a.Name())
					}
					return nil, 0
				}
			})
			var gang []*corev1.Pod
			for _, name := range Names("member", size-1) {
				gang = append(gang, CreatePod(ctx, "gangs", name, Labelled("gang", "a")))
			}
			other := CreatePod(ctx, "gangs", "of-another-gang", Labelled("gang", "b"))
			for _, pod := range append(gang, other) {
				ExpectPending(ctx, pod)
			}
			gang = append(gang, CreatePod(ctx, "gangs", "last", Labelled("gang", "a")))
			for _, pod := range gang {
				ExpectBound(ctx, pod)
			}
			ExpectPending(ctx, other)
		})

	It("rejects a pod on Permit as soon as the shortest timeout of its plugins expires", func(ctx context.Context) {
		given(ctx, "patient", "plugins: {multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}}")
		s.Perform(func(a *Acts) {
			a.Permit = func(a *Actor, _ *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
				return fwk.NewStatus(fwk.Wait),
					map[string]time.Duration{Alpha: time.Hour, Beta: 50 * time.Millisecond}[a.Name()]
			}
		})
		pod := CreatePod(ctx, "patient", "waiting")
		ExpectUnschedulable(ctx, pod,
			"0/1 nodes are available: 1 rejected due to timeout after waiting 50ms at plugin Beta.")
		Expect(s.At(pod, "Unreserve")[:2]).To(Equal([]string{Beta, Alpha}))
		Expect(s.At(pod, "PreBind")).To(BeEmpty())
	})

	It("retries a pod when a plugin requests it", func(ctx context.Context) {
		given(ctx, "siblings", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		var come atomic.Bool
		s.Perform(func(a *Acts) {
			a.Filter = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "younger" && !come.Load() {
					return fwk.NewStatus(fwk.Unschedulable, "not before the elder")
				}
				return nil
			}
		})
		younger := CreatePod(ctx, "siblings", "younger")
		ExpectUnscheduled(ctx, younger, corev1.PodReasonUnschedulable,
			HavePrefix("0/2 nodes are available: 2 not before the elder. "))
		waiting := younger.DeepCopy() // the queue reads it while the spec reads into its own
		s.Perform(func(a *Acts) {
			a.PostBind = func(a *Actor, pod *corev1.Pod) {
				if pod.Name == "elder" {
					come.Store(true)
					a.Handle.Activate(klog.Background(), map[string]*corev1.Pod{"default/younger": waiting})
				}
			}
		})
		ExpectBound(ctx, CreatePod(ctx, "siblings", "elder"))
		ExpectBound(ctx, younger)
	})

	It("filters a sample of the nodes if it sets a percentage, and starts at other nodes each time",
		func(ctx context.Context) {
			const total, least = 130, 100 // kube-scheduler never searches fewer than 100 nodes
			for _, name := range Names("many", total-2) {
				Create(ctx, Node(name, "4", "8Gi", nil))
			}
			ExpectSeen(ctx, total)
			// Several workers leave gaps in the nodes that they search.
			CreateFor(ctx, Policy("one-worker", "{parallelism: 1, podInitialBackoff: 1ms, podMaxBackoff: 1ms}"))
			given(ctx, "sampling", "policyRef: {name: one-worker}\npercentageOfNodesToScore: 10\nplugins: {filter: "+
				"{enabled: [{name: Alpha}]}, score: {enabled: [{name: Alpha}]}}")
			looked := func(name, point string) sets.Set[string] {
				pod := CreatePod(ctx, "sampling", name)
				ExpectBound(ctx, pod)
				seen := sets.New[string]()
				for _, c := range s.About(pod) {
					if c.Point == point {
						seen.Insert(c.Node)
					}
				}
				return seen
			}
			first := looked("first", "Filter")
			Expect(len(first)).To(And(BeNumerically(">=", least), BeNumerically("<", total)))
			Expect(looked("scored", "Score")).To(HaveLen(least))
			Expect(first.Union(looked("third", "Filter"))).
				To(HaveLen(total), "the third sample begins where the second ended")

			By("filtering all nodes without a percentage")
			Respec(ctx, "sampling", "policyRef: {name: one-worker}\nplugins: {filter: {enabled: [{name: Alpha}]}, "+
				"score: {enabled: [{name: Alpha}]}}")
			Expect(looked("fourth", "Score")).To(HaveLen(total))
		})
})

var _ = Describe("A queue sort that panics", func() {
	It("does not keep any pod from being scheduled", func(ctx context.Context) {
		s := &Script{}
		Start(s.Register)
		s.Perform(func(a *Acts) {
			a.Less = func(_, _ *corev1.Pod) bool { panic("out of luck") }
		})
		Create(ctx, Policy("default", "queueSort: {name: Sorter}"))
		CreateProfile(ctx, "mine", "")
		var pods []*corev1.Pod
		for _, name := range Names("pod", 5) { // all wait for a node at the same time
			pods = append(pods, CreatePod(ctx, "mine", name))
		}
		CreateNodes(ctx, "n1")
		for _, pod := range pods {
			ExpectBound(ctx, pod)
		}
		var compared []string
		for _, pod := range pods {
			compared = append(compared, s.At(pod, "Less")...)
		}
		Expect(compared).NotTo(BeEmpty())
	})
})
