// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/queue"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// moment is the stage at which a pod is held, the first time that it gets there, and the outcome.
type moment struct {
	point   string
	outcome fwk.Code
	// late means that the pod is held on Permit, rather than in the plugin's call.
	late bool
}

// holder holds one pod.
type holder struct {
	at      moment
	held    chan struct{} // closed once the pod is held
	release chan struct{} // closed to release it
	once    sync.Once
}

func newHolder(s moment) *holder {
	return &holder{at: s, held: make(chan struct{}), release: make(chan struct{})}
}

// first returns the plugin's status at a point: the outcome of the moment for the first call at its
// point, otherwise success.
func (h *holder) first(point string, pod *corev1.Pod) (status *fwk.Status) {
	if point != h.at.point || pod.Name != "pod" {
		return nil
	}
	h.once.Do(func() {
		close(h.held)
		if !h.at.late {
			<-h.release
		}
		if h.at.outcome != fwk.Success {
			status = fwk.NewStatus(h.at.outcome, "not this time")
		}
	})
	return status
}

// hold makes the plugins of a script hold the pod.
func (h *holder) hold(a *Acts) {
	a.Filter = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
		return h.first("Filter", pod)
	}
	a.Reserve = func(_ *Actor, pod *corev1.Pod, _ string) *fwk.Status { return h.first("Reserve", pod) }
	a.Permit = func(_ *Actor, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
		return h.first("Permit", pod), 10 * time.Minute
	}
	a.PreBind = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
		return h.first("PreBind", pod)
	}
	a.Bind = func(_ context.Context, _ *Actor, pod *corev1.Pod, _ string) *fwk.Status {
		if status := h.first("Bind", pod); status != nil {
			return status
		}
		return fwk.NewStatus(fwk.Skip)
	}
}

// stages are all stages at which a pod can be held, by name.
var stages = map[string]moment{
	"it passes Filter":        {point: "Filter"},
	"Filter refuses it":       {point: "Filter", outcome: fwk.Unschedulable},
	"Filter fails":            {point: "Filter", outcome: fwk.Error},
	"it passes Reserve":       {point: "Reserve"},
	"Reserve refuses it":      {point: "Reserve", outcome: fwk.Unschedulable},
	"it passes Permit":        {point: "Permit"},
	"Permit refuses it":       {point: "Permit", outcome: fwk.Unschedulable},
	"it waits on Permit":      {point: "Permit", outcome: fwk.Wait, late: true},
	"it passes PreBind":       {point: "PreBind"},
	"PreBind fails":           {point: "PreBind", outcome: fwk.Error},
	"it is about to be bound": {point: "Bind"},
	"Bind fails":              {point: "Bind", outcome: fwk.Error},
}

func entriesOfMoments(only func(moment) bool) []TableEntry {
	var entries []TableEntry
	for name, s := range stages {
		if only(s) {
			entries = append(entries, Entry(name, s))
		}
	}
	return entries
}

func anyMoment(moment) bool { return true }

// refusedAt reports whether a plugin rejects the pod at a stage.
func refusedAt(s moment) bool { return s.outcome == fwk.Unschedulable || s.late }

var _ = Describe("While a pod is in its cycle and", Ordered, ContinueOnFailure, func() {
	var (
		w wakers
		s *Script
		h *holder
	)
	const alphaEverywhere = "plugins: {multiPoint: {enabled: [{name: Alpha}]}, bind: {enabled: [{name: Alpha}, " +
		"{name: DefaultBinder}], disabled: [{name: '*'}]}}"

	BeforeAll(func() {
		s = &Script{}
		w.run = Start(s.Register)
	})
	// begin creates a pod and waits until it is held at a stage.
	begin := func(ctx context.Context, at moment) *corev1.Pod {
		GinkgoHelper()
		w.expectCleared(ctx)
		h = newHolder(at)
		s.LetGo()
		DeferCleanup(func() {
			Eventually(w.run.Parts().Queue.Counts).
				Should(Equal(queue.Counts{}), "nothing stays behind, no event and no pod")
		})
		DeferCleanup(func() {
			select {
			case <-h.release:
			default:
				close(h.release)
			}
		})
		s.Perform(func(a *Acts) {
			h.hold(a)
			a.Events = func(*Actor) ([]fwk.ClusterEventWithHint, error) {
				return []fwk.ClusterEventWithHint{
					{Event: of(fwk.Pod, fwk.UpdatePodLabel)}, {Event: of(fwk.Node, fwk.UpdateNodeLabel)},
				}, nil
			}
		})
		Create(ctx, QuickRetries())
		CreateNodes(ctx, "n1")
		w.expectCaughtUp(ctx)
		CreateProfile(ctx, "mine", alphaEverywhere)
		pod := CreatePod(ctx, "mine", "pod")
		Eventually(h.held).Should(BeClosed())
		if at.late {
			Eventually(s.Waiting).WithArguments(pod).ShouldNot(BeNil())
		}
		return pod
	}
	// goOn releases the pod. A pod that waits on Permit is rejected.
	goOn := func(pod *corev1.Pod) {
		close(h.release)
		if waiting := s.Waiting(pod); h.at.late && waiting != nil {
			waiting.Reject(Alpha, "not this time")
		}
	}
	// expectRoom makes sure that exactly that much CPU of the node is free.
	expectRoom := func(ctx context.Context, free string) {
		GinkgoHelper()
		ExpectBound(ctx, CreatePod(ctx, "mine", "filler", CPU(free)))
		ExpectUnscheduled(ctx, CreatePod(ctx, "mine", "last"), corev1.PodReasonUnschedulable,
			ContainSubstring("Insufficient cpu"))
	}

	DescribeTable("is updated: it is bound in its new form, whether", func(ctx context.Context, at moment) {
		pod := begin(ctx, at)
		Update(ctx, pod, Labelled("now", "yes"))
		w.expectCaughtUp(ctx)
		goOn(pod)
		Expect(ExpectBound(ctx, pod)).To(Equal("n1"))
		Expect(pod.Labels).To(HaveKeyWithValue("now", "yes"))
		expectRoom(ctx, "3900m")
	}, entriesOfMoments(anyMoment))

	DescribeTable("is deleted: its room is free, whether", func(ctx context.Context, at moment) {
		pod := begin(ctx, at)
		Expect(K8s.Delete(ctx, pod)).To(Succeed())
		w.expectCaughtUp(ctx)
		goOn(pod)
		expectRoom(ctx, "4")
	}, entriesOfMoments(anyMoment))

	DescribeTable("is deleted and created again: its successor is bound, whether", func(ctx context.Context,
		at moment) {
		pod := begin(ctx, at)
		Expect(K8s.Delete(ctx, pod)).To(Succeed())
		successor := CreatePod(ctx, "mine", "pod", CPU("1"))
		w.expectCaughtUp(ctx)
		goOn(pod)
		Expect(ExpectBound(ctx, successor)).To(Equal("n1"))
		expectRoom(ctx, "3")
	}, entriesOfMoments(anyMoment))

	DescribeTable("an event occurs that may help it: it is retried immediately, where", func(ctx context.Context,
		at moment) {
		pod := begin(ctx, at)
		label := of(fwk.Node, fwk.UpdateNodeLabel)
		before := w.handled(label)
		have(NodeOf("n1"), Relabelled("better", "yes"))(ctx)
		Eventually(w.handled).WithArguments(label).Should(BeNumerically(">", before))
		goOn(pod)
		ExpectBound(ctx, pod)
		Expect(s.At(pod, at.point)).To(HaveLen(2))
	}, entriesOfMoments(refusedAt))

	DescribeTable("an event occurs that does not help it: it waits, where", func(ctx context.Context, at moment) {
		pod := begin(ctx, at)
		seen := of(fwk.Node, fwk.UpdateNodeAnnotation)
		before := w.handled(seen)
		have(NodeOf("n1"), func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, "seen", "yes") })(ctx)
		Eventually(w.handled).WithArguments(seen).Should(BeNumerically(">", before))
		goOn(pod)
		Eventually(func() queue.Place { return w.state(pod).Place }).Should(Equal(queue.Unschedulable))
		Expect(w.state(pod).UnschedulablePlugins).To(Equal([]string{Alpha}))
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, ContainSubstring("not this time"))
		Expect(w.state(pod).Attempts).To(Equal(1))

		By("labelling the node")
		have(NodeOf("n1"), Relabelled("better", "yes"))(ctx)
		ExpectBound(ctx, pod)
	}, entriesOfMoments(refusedAt))
})
