// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// nominateByHand writes a node, or none, into the status of a pod, as other components than its
// scheduler may do (KEP-5278).
func nominateByHand(ctx context.Context, pod *corev1.Pod, node string) {
	GinkgoHelper()
	before := pod.DeepCopy()
	pod.Status.NominatedNodeName = node
	Expect(K8s.Status().Patch(ctx, pod, client.MergeFrom(before))).To(Succeed())
}

// createNominated creates a pod that was nominated before it may be scheduled.
func createNominated(ctx context.Context, name, node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	GinkgoHelper()
	pod := CreatePod(ctx, "mine", name, append(changes, Gated)...)
	nominateByHand(ctx, pod, node)
	Update(ctx, pod, func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
	return pod
}

var _ = Describe("A pod that another component nominates for a node", func() {
	BeforeEach(func(ctx context.Context) {
		StartDefault(ctx)
		CreateClasses(ctx, PriorityClass("low", 10), PriorityClass("important", 1000))
	})

	It("is bound there if it fits, even if another node is better, and loses the nomination once it is bound",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1", "n2")
			CreatePod(ctx, "somebody-else", "busy", CPU("2"), OnNode("n1"))
			pod := createNominated(ctx, "pod", "n1")
			Expect(ExpectBound(ctx, pod)).To(Equal("n1"))
			ExpectNominationEnded(pod)
			Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "free"))).To(Equal("n2"))
		})

	It("is bound to another node if it does not fit there", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		CreatePod(ctx, "somebody-else", "busy", CPU("2"), OnNode("n1"))
		Expect(ExpectBound(ctx, createNominated(ctx, "pod", "n1", CPU("3")))).To(Equal("n2"))
		Expect(ExpectBound(ctx, createNominated(ctx, "lost", "n0"))).
			To(Equal("n1"), "nominated for a node that does not exist")
	})

	It("loses the nomination when it is unschedulable, and does not keep others away", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		big := createNominated(ctx, "big", "n1", CPU("5"))
		ExpectUnscheduled(ctx, big, corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		ExpectNominated(ctx, big, "")
		ExpectBound(ctx, CreatePod(ctx, "mine", "fits", CPU("3")))
	})

	It("is nominated for another node by its preemption", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		spared := []*corev1.Pod{
			CreatePod(ctx, "somebody-else", "first", CPU("2"), OnNode("n1")),
			CreatePod(ctx, "somebody-else", "second", CPU("2"), OnNode("n1")),
		}
		victim := CreatePod(ctx, "somebody-else", "third", CPU("4"), OnNode("n2"), TerminatesSlowly)
		pod := createNominated(ctx, "pod", "n1", CPU("4"), Prioritized("important"))
		ExpectNominated(ctx, pod, "n2")
		ExpectTerminating(ctx, victim)
		Terminate(ctx, victim)
		Expect(ExpectBound(ctx, pod)).To(Equal("n2"))
		ExpectStays(ctx, spared...)
	})

	It("keeps its room from pods of lower and equal priority, until its nomination is removed",
		func(ctx context.Context) {
			never := PriorityClass("polite", 1000)
			never.PreemptionPolicy = ptr.To(corev1.PreemptNever)
			CreateClasses(ctx, never, PriorityClass("top", 2000))
			CreateNodes(ctx, "n1")
			CreatePod(ctx, "somebody-else", "resident", CPU("1"), OnNode("n1"))
			nominee := CreatePod(ctx, "mine", "nominee", CPU("4"), Prioritized("polite"))
			ExpectUnscheduled(ctx, nominee, corev1.PodReasonUnschedulable,
				HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
			nominateByHand(ctx, nominee, "n1")
			var waiting []*corev1.Pod
			for _, class := range []string{"low", "polite"} {
				pod := CreatePod(ctx, "mine", class, CPU("1"), Prioritized(class))
				ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable,
					HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
				waiting = append(waiting, pod)
			}
			ExpectBound(ctx, CreatePod(ctx, "mine", "top", CPU("1"), Prioritized("top")))
			ExpectPending(ctx, waiting[1])
			nominateByHand(ctx, nominee, "")
			for _, pod := range waiting {
				ExpectBound(ctx, pod)
			}
			ExpectPending(ctx, nominee)
		})

	It("keeps its room while it is gated", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		nominee := CreatePod(ctx, "mine", "nominee", CPU("3"), Prioritized("important"), Gated)
		nominateByHand(ctx, nominee, "n1")
		ExpectUnscheduled(ctx, CreatePod(ctx, "mine", "low", CPU("2"), Prioritized("low")),
			corev1.PodReasonUnschedulable, HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
		Update(ctx, nominee, func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
		Expect(ExpectBound(ctx, nominee)).To(Equal("n1"))
	})
})

var _ = Describe("A pod that another component nominates for a node, under a profile without PostFilter plugins",
	func() {
		It("loses the nomination when it is unschedulable", func(ctx context.Context) {
			StartProfiles(ctx, map[string]string{"mine": `plugins: {postFilter: {disabled: [{name: "*"}]}}`})
			CreateNodes(ctx, "n1")
			big := createNominated(ctx, "big", "n1", CPU("5"))
			ExpectUnscheduled(ctx, big, corev1.PodReasonUnschedulable,
				HavePrefix("0/1 nodes are available: 1 Insufficient cpu."))
			ExpectNominated(ctx, big, "")
		})
	})

var _ = Describe("A pod that is about to be bound", func() {
	var s *Script
	BeforeEach(func(ctx context.Context) {
		s = &Script{}
		Start(s.Register)
		Create(ctx, QuickRetries())
		CreateNodes(ctx, "n1")
	})

	It("is nominated for its node while PreBind lasts, and not once it is bound", func(ctx context.Context) {
		CreateProfile(ctx, "mine", "plugins: {preBind: {enabled: [{name: Alpha}]}}")
		prepared := make(chan struct{})
		s.Perform(func(a *Acts) {
			a.PreBind = func(ctx context.Context, _ *Actor, _ *corev1.Pod, _ string) *fwk.Status {
				select {
				case <-prepared:
					return nil
				case <-ctx.Done():
					return fwk.AsStatus(ctx.Err())
				}
			}
		})
		pod := CreatePod(ctx, "mine", "pod")
		ExpectNominated(ctx, pod, "n1")
		close(prepared)
		ExpectBound(ctx, pod)
		ExpectNominationEnded(pod)
	})

	It("is not nominated if there is nothing to wait for", func(ctx context.Context) {
		CreateProfile(ctx, "mine",
			"plugins: {bind: {enabled: [{name: Alpha}, {name: DefaultBinder}], disabled: [{name: \"*\"}]}}")
		announced := make(chan string, 1)
		s.Perform(func(a *Acts) {
			a.Bind = func(ctx context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
				now := &corev1.Pod{}
				if err := K8s.Get(ctx, client.ObjectKeyFromObject(pod), now); err != nil {
					return fwk.AsStatus(err)
				}
				announced <- now.Status.NominatedNodeName
				return fwk.NewStatus(fwk.Skip)
			}
		})
		ExpectBound(ctx, CreatePod(ctx, "mine", "pod"))
		Expect(announced).To(Receive(BeEmpty()))
	})

	It("loses its nomination when PreBind fails, even if it preempted others for its node", func(ctx context.Context) {
		CreateProfile(ctx, "mine", "plugins: {preBind: {enabled: [{name: Alpha}]}}")
		CreateClasses(ctx, PriorityClass("important", 1000))
		var attempts atomic.Int32
		s.Perform(func(a *Acts) {
			a.PreBind = func(context.Context, *Actor, *corev1.Pod, string) *fwk.Status {
				attempts.Add(1)
				return fwk.AsStatus(errors.New("not ready"))
			}
		})
		victim := CreatePod(ctx, "somebody-else", "victim", CPU("3"), OnNode("n1"))
		high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		ExpectGone(ctx, victim)
		ExpectUnscheduled(ctx, high, corev1.PodReasonSchedulerError, Equal(`running PreBind plugin "Alpha": not ready`))
		ExpectNominated(ctx, high, "")
		Expect(attempts.Load()).To(BeNumerically(">=", 1))
		s.Perform(func(a *Acts) { a.PreBind = nil })
		ExpectBound(ctx, high)
	})
})

var _ = Describe("A node that a pod is nominated for", func() {
	BeforeEach(func(ctx context.Context) {
		CreateClasses(ctx, PriorityClass("important", 1000))
		CreateNodes(ctx, "n1")
	})

	// promised creates a pod that is nominated for n1 and waits for its victim there to terminate.
	promised := func(ctx context.Context, changes ...func(*corev1.Pod)) *corev1.Pod {
		GinkgoHelper()
		victim := CreatePod(ctx, "somebody-else", "victim", CPU("2"), OnNode("n1"), TerminatesSlowly)
		DeferCleanup(func(ctx context.Context) { Terminate(ctx, victim) })
		pod := CreatePod(ctx, "mine", "first", append(changes, CPU("4"), Prioritized("important"))...)
		ExpectNominated(ctx, pod, "n1")
		return pod
	}
	// waits creates a pod that fits nowhere else.
	waits := func(ctx context.Context, schedulerName string) *corev1.Pod {
		GinkgoHelper()
		pod := CreatePod(ctx, schedulerName, "second", CPU("2"), Prioritized("important"),
			Selecting(corev1.LabelHostname, "n1"))
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, ContainSubstring("1 Insufficient cpu"))
		return pod
	}

	It("is free for others when the pod is deleted", func(ctx context.Context) {
		StartDefault(ctx)
		first := promised(ctx)
		second := waits(ctx, "mine")
		Expect(K8s.Delete(ctx, first)).To(Succeed())
		ExpectBound(ctx, second)
	})

	It("is free for others when the pod is being deleted, even if a finalizer keeps it", func(ctx context.Context) {
		Start()
		CreateProfile(ctx, "mine", "")
		first := promised(ctx, Witnessed)
		DeferCleanup(func(ctx context.Context) { Release(ctx, first) })
		second := waits(ctx, "mine")
		Expect(K8s.Delete(ctx, first)).To(Succeed())
		ExpectBound(ctx, second)
	})

	It("is free for others when the pod is bound to another node", func(ctx context.Context) {
		Start()
		CreateProfile(ctx, "mine", "")
		n2 := Node("n2", "4", "8Gi", map[string]string{"color": "red"})
		Create(ctx, n2)
		first := promised(ctx, func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: "color", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"red"}},
					}}},
				}}}
		})
		second := waits(ctx, "mine")
		Update(ctx, n2, func(node *corev1.Node) { node.Labels["color"] = "green" })
		Expect(ExpectBound(ctx, first)).To(Equal("n2"))
		Expect(ExpectBound(ctx, second)).To(Equal("n1"))
	})

	It("is free for pods of other profiles when the profile of the pod is deleted", func(ctx context.Context) {
		Start()
		CreateProfile(ctx, "mine", "")
		CreateProfile(ctx, "other", "")
		first := promised(ctx)
		second := waits(ctx, "other")
		Expect(K8s.Delete(ctx, Profile("mine", ""))).To(Succeed())
		ExpectBound(ctx, second)
		ExpectPending(ctx, first)
	})

	It("is kept for the pod by the next process when one is killed before it binds the pod", func(ctx context.Context) {
		s, f := &Script{}, &Faults{}
		announced, killed := make(chan struct{}), make(chan struct{})
		kill := sync.OnceFunc(func() {
			f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
				if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/pods/first") {
					return nil, ErrNoRoute // what the process writes while it stops
				}
				return send()
			})
			close(killed)
		})
		s.Perform(func(a *Acts) {
			a.Events = func(*Actor) ([]fwk.ClusterEventWithHint, error) {
				return []fwk.ClusterEventWithHint{
					{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}}}, nil
			}
			a.PreBind = func(ctx context.Context, _ *Actor, _ *corev1.Pod, _ string) *fwk.Status {
				select {
				case <-announced:
				case <-ctx.Done():
				}
				kill()
				return fwk.AsStatus(errors.New("killed"))
			}
		})
		run := StartUnstopped(f.Config(), s.Register)
		DeferCleanup(func() { _ = run.Stop(StopsWithin) }) // calling it twice does no harm
		CreateProfile(ctx, "mine", "plugins: {multiPoint: {enabled: [{name: Alpha}]}}")
		first := CreatePod(ctx, "mine", "first", CPU("3"))
		ExpectNominated(ctx, first, "n1")
		close(announced)
		Eventually(killed).Should(BeClosed())
		Expect(run.Stop(StopsWithin)).To(Succeed())
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(first), first)).To(Succeed())
		Expect(first.Status.NominatedNodeName).To(Equal("n1"))

		n2 := Node("n2", "4", "8Gi", nil)
		n2.Spec.Taints = []corev1.Taint{{Key: "rather", Value: "not", Effect: corev1.TaintEffectPreferNoSchedule}}
		Create(ctx, n2)
		s.Perform(func(a *Acts) {
			a.PreBind = nil
			a.PreEnqueue = func(_ *Actor, pod *corev1.Pod) *fwk.Status {
				if pod.Name == "first" && pod.Labels["ready"] == "" {
					return fwk.NewStatus(fwk.Unschedulable, "the other pod comes first")
				}
				return nil
			}
		})
		Start(s.Register)
		Expect(ExpectBound(ctx, CreatePod(ctx, "mine", "second", CPU("3")))).To(Equal("n2"))
		Update(ctx, first, Labelled("ready", "yes"))
		Expect(ExpectBound(ctx, first)).To(Equal("n1"))
	})
})
