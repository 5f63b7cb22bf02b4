// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("The extension points of a profile", func() {
	var s *Script

	BeforeEach(func(ctx context.Context) {
		s = &Script{}
		Start(s.Register)
		Create(ctx, QuickRetries())
	})

	It("all run for a pod that is bound, in kube-scheduler's order", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		CreateProfile(ctx, "mine", `
plugins:
  queueSort: {enabled: [{name: Everything}], disabled: [{name: "*"}]}
  multiPoint: {enabled: [{name: Everything}]}
  bind: {enabled: [{name: Everything}, {name: DefaultBinder}], disabled: [{name: "*"}]}
`)
		pod := CreatePod(ctx, "mine", "pod")
		bound := ExpectBound(ctx, pod)
		Eventually(s.Points).WithArguments(pod).Should(Equal([]string{
			"PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "NormalizeScore", "Reserve", "Permit",
			"PreBindPreFlight", "PreBind", "Bind", "PostBind",
		}))
		onNodes := map[string][]string{}
		for _, c := range s.About(pod) {
			if c.Node != "" {
				onNodes[c.Point] = append(onNodes[c.Point], c.Node)
			}
		}
		Expect(onNodes).To(HaveKeyWithValue("Filter", ConsistOf("n1", "n2")))
		Expect(onNodes).To(HaveKeyWithValue("Score", ConsistOf("n1", "n2")))
		for _, point := range []string{"Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind", "PostBind"} {
			Expect(onNodes).To(HaveKeyWithValue(point, []string{bound}))
		}
	})

	It("end with PostFilter for an unschedulable pod", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		s.Perform(func(a *Acts) {
			a.Filter = func(context.Context, *Actor, *corev1.Pod, string) *fwk.Status {
				return fwk.NewStatus(fwk.Unschedulable, "too small")
			}
			a.PostFilter = func(*Actor, *corev1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
				return nil, fwk.NewStatus(fwk.Unschedulable, "no help from me")
			}
		})
		pod := CreatePod(ctx, "mine", "pod")
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 too small. "))
		Expect(pod.Status.Conditions[0].Message).To(HaveSuffix(", no help from me"))
		Expect(s.Points(pod)).To(Equal([]string{"PreEnqueue", "PreFilter", "Filter", "PostFilter"}))
	})

	It("receive the nodes that PreFilter leaves", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2", "n3")
		CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}}")
		allowed := map[string]sets.Set[string]{Alpha: sets.New("n2", "n3", "gone"), Beta: sets.New("n1", "n2")}
		s.Perform(func(a *Acts) {
			a.PreFilter = func(a *Actor, _ *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
				return &fwk.PreFilterResult{NodeNames: allowed[a.Name()]}, nil
			}
		})
		pod := CreatePod(ctx, "mine", "fits")
		Expect(ExpectBound(ctx, pod)).To(Equal("n2"))
		for _, c := range s.About(pod) {
			Expect(c.Node).To(BeElementOf("", "n2"))
		}

		By("leaving no node through two plugins together")
		s.Perform(func(a *Acts) {
			a.PreFilter = func(a *Actor, _ *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
				return &fwk.PreFilterResult{NodeNames: allowed[a.Name()].Difference(sets.New("n2"))}, nil
			}
		})
		ExpectUnscheduled(ctx, CreatePod(ctx, "mine", "fits-not"), corev1.PodReasonUnschedulable,
			HavePrefix("0/3 nodes are available: node(s) didn't satisfy plugin(s) [Alpha Beta] simultaneously. "))

		By("leaving no node through one plugin alone")
		s.Perform(func(a *Acts) {
			a.PreFilter = func(a *Actor, _ *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
				if a.Name() == Beta {
					return nil, nil
				}
				return &fwk.PreFilterResult{NodeNames: sets.New("gone")}, nil
			}
		})
		ExpectUnscheduled(ctx, CreatePod(ctx, "mine", "fits-nowhere"), corev1.PodReasonUnschedulable,
			HavePrefix("0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [Alpha]. "))
	})

	DescribeTable("decide by scores times weights:", func(ctx context.Context, weights, want string) {
		CreateNodes(ctx, "n1", "n2")
		CreateProfile(ctx, "mine", "plugins: {score: {disabled: [{name: '*'}], enabled: ["+weights+"]}}")
		favourites := map[string]string{Alpha: "n1", Beta: "n2"}
		s.Perform(func(a *Acts) {
			a.Score = func(a *Actor, node string) int64 {
				if favourites[a.Name()] == node {
					return 60
				}
				return 0
			}
		})
		for _, name := range Names("pod", 3) {
			Expect(ExpectBound(ctx, CreatePod(ctx, "mine", name))).To(Equal(want))
		}
	},
		Entry("the plugin with the higher weight wins", "{name: Alpha, weight: 2}, {name: Beta, weight: 3}", "n2"),
		Entry("also if it is the other one", "{name: Alpha, weight: 3}, {name: Beta, weight: 2}", "n1"),
		Entry("a plugin without a weight has the weight 1", "{name: Alpha}, {name: Beta, weight: 2}", "n2"),
		Entry("a plugin that is not enabled has no weight", "{name: Alpha}", "n1"),
	)

	It("decide by normalized scores", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		CreateProfile(ctx, "mine", "plugins: {score: {disabled: [{name: '*'}], enabled: [{name: Alpha}]}}")
		s.Perform(func(a *Acts) {
			// The scores are far out of bounds, and reversed: fewer is better.
			a.Score = func(_ *Actor, node string) int64 { return map[string]int64{"n1": 5000, "n2": 20}[node] }
			a.Normalize = func(scores fwk.NodeScoreList) {
				for i := range scores {
					scores[i].Score = 100 - scores[i].Score/50
				}
			}
		})
		for _, name := range Names("pod", 3) {
			Expect(ExpectBound(ctx, CreatePod(ctx, "mine", name))).To(Equal("n2"))
		}
	})

	It("unreserve in reverse order when one of the Reserve plugins rejects the pod", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "mine", "plugins: {reserve: {enabled: [{name: Alpha}, {name: Beta}]}}")
		s.Perform(func(a *Acts) {
			a.Reserve = func(a *Actor, _ *corev1.Pod, _ string) *fwk.Status {
				if a.Name() == Beta {
					return fwk.NewStatus(fwk.Unschedulable, "nothing left")
				}
				return nil
			}
		})
		pod := CreatePod(ctx, "mine", "pod", CPU("3"))
		ExpectUnschedulable(ctx, pod, "0/1 nodes are available: 1 nothing left.")
		call := func(plugin, point string) Call { return Call{Plugin: plugin, Point: point, Pod: "pod", Node: "n1"} }
		Expect(s.About(pod)).To(Equal([]Call{
			call(Alpha, "Reserve"), call(Beta, "Reserve"),
			call(Beta, "Unreserve"), call(Alpha, "Unreserve"),
		}))

		By("giving the room to another pod")
		s.Perform(func(a *Acts) { a.Reserve = nil })
		ExpectBound(ctx, CreatePod(ctx, "mine", "other", CPU("3")))
	})

	It("keep a pod out of the queue while PreEnqueue rejects it, until the pod changes as the plugin's hint expects",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			s.Perform(func(a *Acts) {
				a.PreEnqueue = func(_ *Actor, pod *corev1.Pod) *fwk.Status {
					if pod.Labels["ready"] == "" {
						return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not ready")
					}
					return nil
				}
				a.Events = func(*Actor) ([]fwk.ClusterEventWithHint, error) {
					return []fwk.ClusterEventWithHint{
						{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}}}, nil
				}
			})
			CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
			pod := CreatePod(ctx, "mine", "pod")
			ExpectPending(ctx, pod)
			Expect(s.Points(pod)).To(Equal([]string{"PreEnqueue"}))
			Update(ctx, pod, Labelled("ready", "yes"))
			ExpectBound(ctx, pod)
		})

	It("receive what preemption tries through AddPod and RemovePod", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		CreateClasses(ctx, PriorityClass("important", 1000))
		low := CreatePod(ctx, "mine", "low", CPU("3"))
		ExpectBound(ctx, low)
		high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		ExpectBound(ctx, high)
		points := s.Points(high)
		Expect(slices.Contains(points, "RemovePod")).To(BeTrue(), "%v", points)
		Expect(slices.Contains(points, "AddPod")).To(BeTrue(), "%v", points)
		ExpectGone(ctx, low)
	})
})
