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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

var _ = Describe("The queue", Ordered, ContinueOnFailure, func() {
	var (
		w wakers
		s *script
		// shut has the plugin Alpha refuse or fail pods with the label "shut" in Filter.
		shut atomic.Pointer[fwk.Status]
	)
	const filters = "plugins: {filter: {enabled: [{name: Alpha}]}}"
	labelledShut := labelled("shut", "yes")

	BeforeAll(func() {
		s = &script{}
		w.run = start(s.register, withActivator)
	})
	BeforeEach(func(ctx context.Context) {
		w.expectCleared(ctx)
		s.reset()
		shut.Store(fwk.NewStatus(fwk.Unschedulable, "shut"))
		s.perform(func(a *acts) {
			*a = acts{filter: func(_ context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Labels["shut"] == "" {
					return nil
				}
				return shut.Load()
			}}
		})
		nodes(ctx, "n1")
		w.expectCaughtUp(ctx)
	})

	placeOf := func(pod *corev1.Pod) queue.Place { return w.state(pod).Place }

	It("has pods that met an error back off as the policy says, and by the new one as soon as that is another", func(ctx context.Context) {
		create(ctx, policy("default", "{podInitialBackoff: 100s, podMaxBackoff: 300s}"))
		createProfile(ctx, "mine", filters)
		shut.Store(fwk.NewStatus(fwk.Error, "broken"))
		pod := createPod(ctx, "mine", "pod", labelledShut)
		expectUnscheduled(ctx, pod, corev1.PodReasonSchedulerError, ContainSubstring("broken"))
		Eventually(placeOf).WithArguments(pod).Should(Equal(queue.ErrorBackoff))
		state := w.state(pod)
		Expect(state.BackoffEnd).To(Equal(state.Timestamp.Add(100 * time.Second).Truncate(time.Second)))
		Expect(state.UnschedulablePlugins).To(BeEmpty())

		By("applying other back-offs, which has the pod tried at once")
		update(ctx, policy("default", ""), func(p *v1alpha1.SchedulingPolicy) {
			p.Spec = policy("default", "{podInitialBackoff: 1000s, podMaxBackoff: 1500s}").Spec
		})
		Eventually(func() int { return w.state(pod).Attempts }).Should(Equal(2))
		state = w.state(pod)
		Expect(state.Place).To(Equal(queue.ErrorBackoff))
		Expect(state.BackoffEnd).To(Equal(state.Timestamp.Add(1500*time.Second).Truncate(time.Second)), "the second error in a row")

		By("mending what was broken, which no back-off has to be waited for when the profile is looked at again")
		shut.Store(nil)
		respec(ctx, "mine", filters+"\npercentageOfNodesToScore: 50")
		expectBound(ctx, pod)
	})

	It("gives out a pod that backs off when there is nothing else to do", func(ctx context.Context) {
		create(ctx, policy("default", "{podInitialBackoff: 1000s, podMaxBackoff: 1000s}"))
		createProfile(ctx, "mine", "")
		pod := createPod(ctx, "mine", "pod", selecting("disk", "ssd"))
		Eventually(placeOf).WithArguments(pod).Should(Equal(queue.Unschedulable))
		update(ctx, node("n1"), relabelled("disk", "ssd"))
		expectBound(ctx, pod)
	})

	It("keeps a pod that met an error back, whatever happens, while one that was refused is tried", func(ctx context.Context) {
		create(ctx, policy("default", "{podInitialBackoff: 1000s, podMaxBackoff: 1000s}"))
		createProfile(ctx, "mine", filters)
		shut.Store(fwk.NewStatus(fwk.Error, "broken"))
		broken := createPod(ctx, "mine", "broken", labelledShut)
		refused := createPod(ctx, "mine", "refused", selecting("disk", "ssd"))
		Eventually(placeOf).WithArguments(broken).Should(Equal(queue.ErrorBackoff))
		Eventually(placeOf).WithArguments(refused).Should(Equal(queue.Unschedulable))
		shut.Store(nil)
		update(ctx, node("n1"), relabelled("disk", "ssd"))
		expectBound(ctx, refused)
		Expect(w.state(broken)).To(And(HaveField("Place", queue.ErrorBackoff), HaveField("Attempts", 1)))
	})

	It("tells of a gated pod by its condition and its gauge, not by Events or attempts", func(ctx context.Context) {
		createProfile(ctx, "mine", "")
		before := gauge("scheduler_pending_pods", "gated")
		pod := createPod(ctx, "mine", "pod", gated)
		Eventually(placeOf).WithArguments(pod).Should(Equal(queue.Gated))
		Expect(w.state(pod)).To(And(HaveField("GatingPlugin", "SchedulingGates"), HaveField("Attempts", 0)))
		Expect(gauge("scheduler_pending_pods", "gated")).To(Equal(before + 1))
		expectUnscheduled(ctx, pod, corev1.PodReasonSchedulingGated, Not(BeEmpty()))
		expectBound(ctx, createPod(ctx, "mine", "other"))
		Expect(eventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())

		By("having a gate added, which the API server does not let happen")
		more := pod.DeepCopy()
		gatedBy("wait", "more")(more)
		Expect(k8s.Update(ctx, more)).To(MatchError(ContainSubstring("only deletion is allowed")))

		update(ctx, pod, gatedBy())
		expectBound(ctx, pod)
		Expect(gauge("scheduler_pending_pods", "gated")).To(Equal(before))
	})

	It("lets go of a gated pod that is deleted", func(ctx context.Context) {
		createProfile(ctx, "mine", "")
		pod := createPod(ctx, "mine", "pod", gated)
		Eventually(placeOf).WithArguments(pod).Should(Equal(queue.Gated))
		Expect(k8s.Delete(ctx, pod)).To(Succeed())
		Eventually(w.run.Scheduler.Queue().Counts).Should(Equal(queue.Counts{}))
	})

	DescribeTable("tries the pods that a plugin has activated", func(ctx context.Context, how string) {
		create(ctx, policy("default", "{podInitialBackoff: 1000s, podMaxBackoff: 1000s}"))
		createProfile(ctx, "mine", filters)
		createProfile(ctx, "activating", "plugins: {permit: {enabled: [{name: Activator}]}, postBind: {enabled: [{name: Activator}]}}")
		pod := createPod(ctx, "mine", "pod", labelledShut)
		Eventually(placeOf).WithArguments(pod).Should(Equal(queue.Unschedulable))
		shut.Store(nil)
		activate.Store(pod)
		expectBound(ctx, createPod(ctx, "activating", "other", labelled("how", how)))
		expectBound(ctx, pod)
	},
		Entry("by its handle", "handle"),
		Entry("in the state of the cycle, when the pod at hand is on its way", "cycle"),
		Entry("in the state of the cycle, when the pod at hand is bound", "binding"),
	)

	It("takes the pods of one burst in the order of their priority, and of their creation", func(ctx context.Context) {
		createProfile(ctx, "mine", filters)
		release := make(chan struct{})
		s.perform(func(a *acts) {
			a.filter = func(_ context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "first" {
					<-release
				}
				return nil
			}
		})
		first := createPod(ctx, "mine", "first")
		Eventually(placeOf).WithArguments(first).Should(Equal(queue.InFlight), "what comes before it is in flight may be popped before it")
		var pods []*corev1.Pod
		for i, class := range []string{"", "system-node-critical", "", "system-cluster-critical", ""} {
			pods = append(pods, createPod(ctx, "mine", fmt.Sprintf("pod-%d", i), prioritized(class)))
			Eventually(placeOf).WithArguments(pods[i]).Should(Equal(queue.Active))
		}
		close(release)
		for _, pod := range pods {
			expectBound(ctx, pod)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		var order []string
		for _, c := range s.calls {
			if c.point == "Filter" && c.pod != "first" {
				order = append(order, c.pod)
			}
		}
		Expect(order).To(HaveExactElements("pod-1", "pod-3", "pod-0", "pod-2", "pod-4"))
	})

	It("binds of a burst of equal pods as many as there is room for, and others as room comes, one each", func(ctx context.Context) {
		nodes(ctx, "n2", "n3")
		createProfile(ctx, "mine", "")
		var pods []*corev1.Pod
		for _, name := range names("pod", 30) {
			pods = append(pods, createPod(ctx, "mine", name, cpu("500m")))
		}
		Eventually(w.run.Scheduler.Queue().Counts).Should(Equal(queue.Counts{Unschedulable: 6}))
		var waiting []*corev1.Pod
		perNode := map[string]int{}
		for _, pod := range pods {
			if w.run.Scheduler.Queue().Has(pod.UID) {
				waiting = append(waiting, pod)
				expectUnschedulable(ctx, pod, "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: "+
					"3 No preemption victims found for incoming pod.")
				continue
			}
			perNode[expectBound(ctx, pod)]++
		}
		Expect(perNode).To(Equal(map[string]int{"n1": 8, "n2": 8, "n3": 8}))
		nodes(ctx, "n4")
		for _, pod := range waiting {
			Expect(expectBound(ctx, pod)).To(Equal("n4"))
		}
	})

	It("serves several profiles at once: an event wakes pods of all, each by its own plugins", func(ctx context.Context) {
		asks := func(a *actor) ([]fwk.ClusterEventWithHint, error) {
			return []fwk.ClusterEventWithHint{{Event: of(fwk.Node, map[string]fwk.ActionType{
				"labels": fwk.UpdateNodeLabel, "annotations": fwk.UpdateNodeAnnotation,
			}[a.args.As])}}, nil
		}
		s.perform(func(a *acts) { a.events = asks })
		const spec = filters + "\npluginConfig: [{name: Alpha, args: {as: %s}}]"
		createProfile(ctx, "labels", fmt.Sprintf(spec, "labels"))
		createProfile(ctx, "annotations", fmt.Sprintf(spec, "annotations"))
		one, two := createPod(ctx, "labels", "one", labelledShut), createPod(ctx, "annotations", "two", labelledShut)
		Eventually(placeOf).WithArguments(one).Should(Equal(queue.Unschedulable))
		Eventually(placeOf).WithArguments(two).Should(Equal(queue.Unschedulable))
		shut.Store(nil)
		update(ctx, node("n1"), relabelled("new", "yes"))
		expectBound(ctx, one)
		Expect(w.state(two)).To(And(HaveField("Place", queue.Unschedulable), HaveField("Attempts", 1)))
		update(ctx, node("n1"), func(n *corev1.Node) { n.Annotations = map[string]string{"new": "yes"} })
		expectBound(ctx, two)
	})
})

// gauge is the value of a gauge with one label, which may be one of many values.
func gauge(name, value string) float64 {
	GinkgoHelper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == value {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// activate is the pod that Activator activates.
var activate atomic.Pointer[corev1.Pod]

// activator is an out-of-tree plugin that activates a pod, in the way that the pod at hand is
// labelled with.
type activator struct{ handle fwk.Handle }

func withActivator(o *app.Options) {
	o.OutOfTree["Activator"] = func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return activator{handle}, nil
	}
}

func (activator) Name() string { return "Activator" }

func (p activator) Permit(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	pods := map[string]*corev1.Pod{"it": activate.Load()}
	switch pod.Labels["how"] {
	case "handle":
		p.handle.Activate(klog.FromContext(ctx), pods)
	case "cycle":
		note(state, pods)
	}
	return nil, 0
}

func (activator) PostBind(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) {
	if pod.Labels["how"] == "binding" {
		note(state, map[string]*corev1.Pod{"it": activate.Load()})
	}
}

// note asks for pods to be activated at the next opportunity.
func note(state fwk.CycleState, pods map[string]*corev1.Pod) {
	data, err := state.Read(schedframework.PodsToActivateKey)
	if err != nil {
		return
	}
	list := data.(*schedframework.PodsToActivate)
	list.Lock()
	defer list.Unlock()
	for key, pod := range pods {
		list.Map[key] = pod
	}
}
