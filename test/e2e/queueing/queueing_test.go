// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"context"
	"fmt"
	"slices"
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
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("The queue", Ordered, ContinueOnFailure, func() {
	var (
		w wakers
		s *Script
		// shut makes the plugin Alpha reject or fail pods with the label "shut" in Filter.
		shut atomic.Pointer[fwk.Status]
	)
	const filters = "plugins: {filter: {enabled: [{name: Alpha}]}}"
	labelledShut := Labelled("shut", "yes")

	BeforeAll(func() {
		s = &Script{}
		w.run = Start(s.Register, withActivator)
	})
	BeforeEach(func(ctx context.Context) {
		w.expectCleared(ctx)
		s.LetGo()
		shut.Store(fwk.NewStatus(fwk.Unschedulable, "shut"))
		s.Perform(func(a *Acts) {
			*a = Acts{Filter: func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Labels["shut"] == "" {
					return nil
				}
				return shut.Load()
			}}
		})
		CreateNodes(ctx, "n1")
		w.expectCaughtUp(ctx)
	})

	placeOf := func(pod *corev1.Pod) queue.Place { return w.state(pod).Place }

	It("backs off pods that met an error as the policy says, and applies a changed policy immediately",
		func(ctx context.Context) {
			Create(ctx, Policy("default", "{podInitialBackoff: 100s, podMaxBackoff: 300s}"))
			CreateProfile(ctx, "mine", filters)
			shut.Store(fwk.NewStatus(fwk.Error, "broken"))
			pod := CreatePod(ctx, "mine", "pod", labelledShut)
			ExpectUnscheduled(ctx, pod, corev1.PodReasonSchedulerError, ContainSubstring("broken"))
			Eventually(placeOf).WithArguments(pod).Should(Equal(queue.ErrorBackoff))
			state := w.state(pod)
			// The end is rounded down to a window, which begins with a second. The queue measures
			// on the monotonic clock, which differs from the wall clock by some nanoseconds.
			endsAfter := func(backoff time.Duration) OmegaMatcher {
				return BeTemporally("~", state.Timestamp.Add(backoff).Truncate(time.Second), time.Millisecond)
			}
			Expect(state.BackoffEnd).To(endsAfter(100 * time.Second))
			Expect(state.UnschedulablePlugins).To(BeEmpty())

			By("applying other back-offs, which retries the pod immediately")
			Update(ctx, Policy("default", ""), func(p *v1alpha1.SchedulingPolicy) {
				p.Spec = Policy("default", "{podInitialBackoff: 1000s, podMaxBackoff: 1500s}").Spec
			})
			Eventually(func() int { return w.state(pod).Attempts }).Should(Equal(2))
			state = w.state(pod)
			Expect(state.Place).To(Equal(queue.ErrorBackoff))
			Expect(state.BackoffEnd).To(endsAfter(1500*time.Second), "the second error in a row")

			By("fixing the cause and changing the profile, which retries the pod without waiting for the back-off")
			shut.Store(nil)
			Respec(ctx, "mine", filters+"\npercentageOfNodesToScore: 50")
			ExpectBound(ctx, pod)
		})

	It("pops a pod that backs off when no other pod is active", func(ctx context.Context) {
		Create(ctx, Policy("default", "{podInitialBackoff: 1000s, podMaxBackoff: 1000s}"))
		CreateProfile(ctx, "mine", "")
		pod := CreatePod(ctx, "mine", "pod", Selecting("disk", "ssd"))
		Eventually(placeOf).WithArguments(pod).Should(Equal(queue.Unschedulable))
		Update(ctx, NodeOf("n1"), Relabelled("disk", "ssd"))
		ExpectBound(ctx, pod)
	})

	It("holds back a pod that met an error, regardless of events, but retries one that was rejected",
		func(ctx context.Context) {
			Create(ctx, Policy("default", "{podInitialBackoff: 1000s, podMaxBackoff: 1000s}"))
			CreateProfile(ctx, "mine", filters)
			shut.Store(fwk.NewStatus(fwk.Error, "broken"))
			broken := CreatePod(ctx, "mine", "broken", labelledShut)
			refused := CreatePod(ctx, "mine", "refused", Selecting("disk", "ssd"))
			Eventually(placeOf).WithArguments(broken).Should(Equal(queue.ErrorBackoff))
			Eventually(placeOf).WithArguments(refused).Should(Equal(queue.Unschedulable))
			shut.Store(nil)
			Update(ctx, NodeOf("n1"), Relabelled("disk", "ssd"))
			ExpectBound(ctx, refused)
			Expect(w.state(broken)).To(And(HaveField("Place", queue.ErrorBackoff), HaveField("Attempts", 1)))
		})

	It("reports a gated pod in its condition and the gauge, not in Events or attempts", func(ctx context.Context) {
		CreateProfile(ctx, "mine", "")
		before := gauge("scheduler_pending_pods", "gated")
		pod := CreatePod(ctx, "mine", "pod", Gated)
		Eventually(placeOf).WithArguments(pod).Should(Equal(queue.Gated))
		Expect(w.state(pod)).To(And(HaveField("GatingPlugin", "SchedulingGates"), HaveField("Attempts", 0)))
		Expect(gauge("scheduler_pending_pods", "gated")).To(Equal(before + 1))
		ExpectUnscheduled(ctx, pod, corev1.PodReasonSchedulingGated, Not(BeEmpty()))
		ExpectBound(ctx, CreatePod(ctx, "mine", "other"))
		Expect(EventsOf(ctx, pod, "FailedScheduling")).To(BeEmpty())

		By("adding a gate, which the API server rejects")
		more := pod.DeepCopy()
		GatedBy("wait", "more")(more)
		Expect(K8s.Update(ctx, more)).To(MatchError(ContainSubstring("only deletion is allowed")))

		Update(ctx, pod, GatedBy())
		ExpectBound(ctx, pod)
		Expect(gauge("scheduler_pending_pods", "gated")).To(Equal(before))
	})

	It("forgets a gated pod that is deleted", func(ctx context.Context) {
		CreateProfile(ctx, "mine", "")
		pod := CreatePod(ctx, "mine", "pod", Gated)
		Eventually(placeOf).WithArguments(pod).Should(Equal(queue.Gated))
		Expect(K8s.Delete(ctx, pod)).To(Succeed())
		Eventually(w.run.Parts().Queue.Counts).Should(Equal(queue.Counts{}))
	})

	DescribeTable("schedules the pods that a plugin has activated:", func(ctx context.Context, how string) {
		Create(ctx, Policy("default", "{podInitialBackoff: 1000s, podMaxBackoff: 1000s}"))
		CreateProfile(ctx, "mine", filters)
		CreateProfile(ctx, "activating",
			"plugins: {permit: {enabled: [{name: Activator}]}, postBind: {enabled: [{name: Activator}]}}")
		pod := CreatePod(ctx, "mine", "pod", labelledShut)
		Eventually(placeOf).WithArguments(pod).Should(Equal(queue.Unschedulable))
		shut.Store(nil)
		activate.Store(pod.DeepCopy()) // the queue reads it while the spec reads into its own
		ExpectBound(ctx, CreatePod(ctx, "activating", "other", Labelled("how", how)))
		ExpectBound(ctx, pod)
	},
		Entry("through its handle", "handle"),
		Entry("in the cycle state, during the scheduling cycle", "cycle"),
		Entry("in the cycle state, during the binding cycle", "binding"),
	)

	It("pops the pods of one burst by priority, then by creation time", func(ctx context.Context) {
		CreateProfile(ctx, "mine", filters)
		release := make(chan struct{})
		s.Perform(func(a *Acts) {
			a.Filter = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				if pod.Name == "first" {
					<-release
				}
				return nil
			}
		})
		first := CreatePod(ctx, "mine", "first")
		Eventually(placeOf).WithArguments(first).
			Should(Equal(queue.InFlight), "pods created before it is in flight may be popped before it")
		var pods []*corev1.Pod
		for i, class := range []string{"", "system-node-critical", "", "system-cluster-critical", ""} {
			pods = append(pods, CreatePod(ctx, "mine", fmt.Sprintf("pod-%d", i), Prioritized(class)))
			Eventually(placeOf).WithArguments(pods[i]).Should(Equal(queue.Active))
		}
		close(release)
		for _, pod := range pods {
			ExpectBound(ctx, pod)
		}
		order := slices.DeleteFunc(s.Order("Filter"), func(pod string) bool { return pod == "first" })
		Expect(order).To(HaveExactElements("pod-1", "pod-3", "pod-0", "pod-2", "pod-4"))
	})

	It("binds as many equal pods of a burst as fit, and one more for each place that is freed",
		func(ctx context.Context) {
			CreateNodes(ctx, "n2", "n3")
			CreateProfile(ctx, "mine", "")
			var pods []*corev1.Pod
			for _, name := range Names("pod", 30) {
				pods = append(pods, CreatePod(ctx, "mine", name, CPU("500m")))
			}
			Eventually(w.run.Parts().Queue.Counts).Should(Equal(queue.Counts{Unschedulable: 6}))
			var waiting []*corev1.Pod
			perNode := map[string]int{}
			for _, pod := range pods {
				if w.run.Parts().Queue.Has(pod.UID) {
					waiting = append(waiting, pod)
					ExpectUnschedulable(ctx, pod, "0/3 nodes are available: 3 Insufficient cpu. "+
						"preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.")
					continue
				}
				perNode[ExpectBound(ctx, pod)]++
			}
			Expect(perNode).To(Equal(map[string]int{"n1": 8, "n2": 8, "n3": 8}))
			CreateNodes(ctx, "n4")
			for _, pod := range waiting {
				Expect(ExpectBound(ctx, pod)).To(Equal("n4"))
			}
		})

	It("serves several profiles at the same time: an event wakes pods of all of them, each by its own plugins",
		func(ctx context.Context) {
			asks := func(a *Actor) ([]fwk.ClusterEventWithHint, error) {
				return []fwk.ClusterEventWithHint{{Event: of(fwk.Node, map[string]fwk.ActionType{
					"labels": fwk.UpdateNodeLabel, "annotations": fwk.UpdateNodeAnnotation,
				}[a.Args.As])}}, nil
			}
			s.Perform(func(a *Acts) { a.Events = asks })
			const spec = filters + "\npluginConfig: [{name: Alpha, args: {as: %s}}]"
			CreateProfile(ctx, "labels", fmt.Sprintf(spec, "labels"))
			CreateProfile(ctx, "annotations", fmt.Sprintf(spec, "annotations"))
			one, two := CreatePod(ctx, "labels", "one", labelledShut),
				CreatePod(ctx, "annotations", "two", labelledShut)
			Eventually(placeOf).WithArguments(one).Should(Equal(queue.Unschedulable))
			Eventually(placeOf).WithArguments(two).Should(Equal(queue.Unschedulable))
			shut.Store(nil)
			Update(ctx, NodeOf("n1"), Relabelled("new", "yes"))
			ExpectBound(ctx, one)
			Expect(w.state(two)).To(And(HaveField("Place", queue.Unschedulable), HaveField("Attempts", 1)))
			Update(ctx, NodeOf("n1"), func(n *corev1.Node) { n.Annotations = map[string]string{"new": "yes"} })
			ExpectBound(ctx, two)
		})
})

// gauge returns the value of a gauge with one label, which may be one of many values.
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

// activator is an out-of-tree plugin that activates a pod, in the way that the label of the pod at
// hand specifies.
type activator struct{ handle fwk.Handle }

func withActivator(o *app.Options) {
	o.OutOfTree["Activator"] = func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return activator{handle}, nil
	}
}

func (activator) Name() string { return "Activator" }

func (p activator) Permit(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	_ string) (*fwk.Status, time.Duration) {
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

// note requests that pods be activated at the next opportunity.
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
