// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("The extension points of a profile", func() {
	var s *script

	BeforeEach(func(ctx context.Context) {
		s = &script{}
		start(s.register)
		create(ctx, quickRetries())
	})

	It("all run for a pod that is bound, in kube-scheduler's order", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		createProfile(ctx, "mine", `
plugins:
  queueSort: {enabled: [{name: Everything}], disabled: [{name: "*"}]}
  multiPoint: {enabled: [{name: Everything}]}
  bind: {enabled: [{name: Everything}, {name: DefaultBinder}], disabled: [{name: "*"}]}
`)
		pod := createPod(ctx, "mine", "pod")
		bound := expectBound(ctx, pod)
		Eventually(s.points).WithArguments(pod).Should(Equal([]string{
			"PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "NormalizeScore", "Reserve", "Permit",
			"PreBindPreFlight", "PreBind", "Bind", "PostBind",
		}))
		onNodes := map[string][]string{}
		for _, c := range s.about(pod) {
			if c.node != "" {
				onNodes[c.point] = append(onNodes[c.point], c.node)
			}
		}
		Expect(onNodes).To(HaveKeyWithValue("Filter", ConsistOf("n1", "n2")))
		Expect(onNodes).To(HaveKeyWithValue("Score", ConsistOf("n1", "n2")))
		for _, point := range []string{"Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind", "PostBind"} {
			Expect(onNodes).To(HaveKeyWithValue(point, []string{bound}))
		}
	})

	It("end with PostFilter for a pod that fits nowhere", func(ctx context.Context) {
		nodes(ctx, "n1")
		createProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		s.perform(func(a *acts) {
			a.filter = func(context.Context, *actor, *corev1.Pod, string) *fwk.Status {
				return fwk.NewStatus(fwk.Unschedulable, "too small")
			}
			a.postFilter = func(*actor, *corev1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
				return nil, fwk.NewStatus(fwk.Unschedulable, "no help from me")
			}
		})
		pod := createPod(ctx, "mine", "pod")
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 too small. "))
		Expect(pod.Status.Conditions[0].Message).To(HaveSuffix(", no help from me"))
		Expect(s.points(pod)).To(Equal([]string{"PreEnqueue", "PreFilter", "Filter", "PostFilter"}))
	})

	It("are given the nodes that PreFilter leaves over", func(ctx context.Context) {
		nodes(ctx, "n1", "n2", "n3")
		createProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}, {name: Beta}]}}")
		allowed := map[string]sets.Set[string]{alpha: sets.New("n2", "n3", "gone"), beta: sets.New("n1", "n2")}
		s.perform(func(a *acts) {
			a.preFilter = func(a *actor, _ *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
				return &fwk.PreFilterResult{NodeNames: allowed[a.name]}, nil
			}
		})
		pod := createPod(ctx, "mine", "fits")
		Expect(expectBound(ctx, pod)).To(Equal("n2"))
		for _, c := range s.about(pod) {
			Expect(c.node).To(BeElementOf("", "n2"))
		}

		By("leaving none over together")
		s.perform(func(a *acts) {
			a.preFilter = func(a *actor, _ *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
				return &fwk.PreFilterResult{NodeNames: allowed[a.name].Difference(sets.New("n2"))}, nil
			}
		})
		expectUnscheduled(ctx, createPod(ctx, "mine", "fits-not"), corev1.PodReasonUnschedulable,
			HavePrefix("0/3 nodes are available: node(s) didn't satisfy plugin(s) [Alpha Beta] simultaneously. "))

		By("leaving none over alone")
		s.perform(func(a *acts) {
			a.preFilter = func(a *actor, _ *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
				if a.name == beta {
					return nil, nil
				}
				return &fwk.PreFilterResult{NodeNames: sets.New("gone")}, nil
			}
		})
		expectUnscheduled(ctx, createPod(ctx, "mine", "fits-nowhere"), corev1.PodReasonUnschedulable,
			HavePrefix("0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [Alpha]. "))
	})

	DescribeTable("decide by scores times weights", func(ctx context.Context, weights, want string) {
		nodes(ctx, "n1", "n2")
		createProfile(ctx, "mine", "plugins: {score: {disabled: [{name: '*'}], enabled: ["+weights+"]}}")
		favourites := map[string]string{alpha: "n1", beta: "n2"}
		s.perform(func(a *acts) {
			a.score = func(a *actor, node string) int64 {
				if favourites[a.name] == node {
					return 60
				}
				return 0
			}
		})
		for _, name := range names("pod", 3) {
			Expect(expectBound(ctx, createPod(ctx, "mine", name))).To(Equal(want))
		}
	},
		Entry("the heavier one wins", "{name: Alpha, weight: 2}, {name: Beta, weight: 3}", "n2"),
		Entry("whichever it is", "{name: Alpha, weight: 3}, {name: Beta, weight: 2}", "n1"),
		Entry("and no weight is one", "{name: Alpha}, {name: Beta, weight: 2}", "n2"),
		Entry("and a plugin that is not enabled has none", "{name: Alpha}", "n1"),
	)

	It("decide by normalised scores", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		createProfile(ctx, "mine", "plugins: {score: {disabled: [{name: '*'}], enabled: [{name: Alpha}]}}")
		s.perform(func(a *acts) {
			// Far out of bounds, and the other way round: the fewer the better.
			a.score = func(_ *actor, node string) int64 { return map[string]int64{"n1": 5000, "n2": 20}[node] }
			a.normalize = func(scores fwk.NodeScoreList) {
				for i := range scores {
					scores[i].Score = 100 - scores[i].Score/50
				}
			}
		})
		for _, name := range names("pod", 3) {
			Expect(expectBound(ctx, createPod(ctx, "mine", name))).To(Equal("n2"))
		}
	})

	It("undo in reverse order what was reserved, when one of the Reserve plugins refuses", func(ctx context.Context) {
		nodes(ctx, "n1")
		createProfile(ctx, "mine", "plugins: {reserve: {enabled: [{name: Alpha}, {name: Beta}]}}")
		s.perform(func(a *acts) {
			a.reserve = func(a *actor, _ *corev1.Pod, _ string) *fwk.Status {
				if a.name == beta {
					return fwk.NewStatus(fwk.Unschedulable, "nothing left")
				}
				return nil
			}
		})
		pod := createPod(ctx, "mine", "pod", cpu("3"))
		expectUnschedulable(ctx, pod, "0/1 nodes are available: 1 nothing left.")
		Expect(s.about(pod)).To(Equal([]call{
			{alpha, "", "Reserve", "pod", "n1"}, {beta, "", "Reserve", "pod", "n1"},
			{beta, "", "Unreserve", "pod", "n1"}, {alpha, "", "Unreserve", "pod", "n1"},
		}))

		By("giving the room to another pod")
		s.perform(func(a *acts) { a.reserve = nil })
		expectBound(ctx, createPod(ctx, "mine", "other", cpu("3")))
	})

	It("keep a pod out of the queue while PreEnqueue refuses it, until the pod changes as the plugin hoped", func(ctx context.Context) {
		nodes(ctx, "n1")
		s.perform(func(a *acts) {
			a.preEnqueue = func(_ *actor, pod *corev1.Pod) *fwk.Status {
				if pod.Labels["ready"] == "" {
					return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not ready")
				}
				return nil
			}
			a.events = func(*actor) ([]fwk.ClusterEventWithHint, error) {
				return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}}}, nil
			}
		})
		createProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		pod := createPod(ctx, "mine", "pod")
		expectPending(ctx, pod)
		Expect(s.points(pod)).To(Equal([]string{"PreEnqueue"}))
		update(ctx, pod, labelled("ready", "yes"))
		expectBound(ctx, pod)
	})

	It("are told by AddPod and RemovePod what preemption tries", func(ctx context.Context) {
		nodes(ctx, "n1")
		createProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		createClasses(ctx, priorityClass("important", 1000))
		low := createPod(ctx, "mine", "low", cpu("3"))
		expectBound(ctx, low)
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		expectBound(ctx, high)
		points := s.points(high)
		Expect(slices.Contains(points, "RemovePod")).To(BeTrue(), "%v", points)
		Expect(slices.Contains(points, "AddPod")).To(BeTrue(), "%v", points)
		Expect(client.IgnoreNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(low), low))).To(Succeed())
	})
})
