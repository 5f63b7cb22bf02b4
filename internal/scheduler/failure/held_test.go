// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

func TestMessagesOfHeldPods(t *testing.T) {
	for want, reason := range map[string]queue.HoldReason{
		"The PreEnqueue plugin DynamicResources holds the pod: no such claim": {Plugin: "DynamicResources",
			Message: "no such claim"},
		"The pod waits for its pod group: there is no PodGroup ns/g": {Plugin: podgroup.Gate,
			Message: "there is no PodGroup ns/g"},
		"A PreEnqueue plugin failed: Quota: sorry": {Message: "Quota: sorry"},
	} {
		if got := heldMessage(reason); got != want {
			t.Errorf("%+v: %q, want %q", reason, got, want)
		}
	}
}

// shut is a PreEnqueue plugin that admits no pod.
type shut struct{}

func (shut) Name() string { return "Quota" }
func (shut) PreEnqueue(context.Context, *corev1.Pod) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, "the quota is used up")
}

// noted is a recorder that keeps the notes of Events.
type noted struct{ notes *[]string }

func (n noted) WithLogger(klog.Logger) events.EventRecorderLogger { return n }
func (n noted) Eventf(_, _ runtime.Object, eventType, reason, _, _ string, args ...any) {
	*n.notes = append(*n.notes, eventType+" "+reason+" "+args[0].(string))
}

// theOnly implements podstatus.Pods with one pod.
type theOnly struct{ *corev1.Pod }

func (p theOnly) Newest(*corev1.Pod) *corev1.Pod               { return p.Pod }
func (theOnly) NotWritten(context.Context, *corev1.Pod, error) {}

// quotaMessage is the message of the condition of a pod that shut holds.
const quotaMessage = "The PreEnqueue plugin Quota holds the pod: the quota is used up"

func TestHeldPodsAreReported(t *testing.T) {
	metrics.Register()
	over := lease.NewTerm(time.Hour)
	over.Renew(time.Now())
	over.End()
	for name, test := range map[string]struct {
		before corev1.PodCondition
		term   *lease.Term
		events []string
		reason string // of the condition that is written
	}{
		"with an Event and a condition": {
			events: []string{"Warning FailedScheduling " + quotaMessage}, reason: v1alpha1.PodReasonPreEnqueueRejected,
		},
		"instead of the reason of an earlier attempt": {
			before: corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes"},
			events: []string{"Warning FailedScheduling " + quotaMessage}, reason: v1alpha1.PodReasonPreEnqueueRejected,
		},
		"not if the leader before has done it": {
			before: corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: v1alpha1.PodReasonPreEnqueueRejected, Message: quotaMessage},
		},
		"not by a replica that may not lead any more": {term: over},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				q := queue.New(queue.Config{Clock: clock.RealClock{}})
				q.Reconfigure(logr.Discard(), &queue.Settings{Profiles: map[string]*queue.ProfileSettings{
					"mine": {PreEnqueue: []fwk.PreEnqueuePlugin{shut{}}},
				}}, sets.New("mine"))
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: "pod"},
					Spec: corev1.PodSpec{SchedulerName: "mine"}}
				if test.before.Type != "" {
					pod.Status.Conditions = []corev1.PodCondition{test.before}
				}
				q.Add(logr.Discard(), pod)

				client := fake.NewClientset(pod)
				statuses := podstatus.NewWriter(client, theOnly{pod})
				statuses.Start(t.Context())
				var notes []string
				h := &Handler{
					Queue: q, Statuses: statuses,
					Recorder: func(string) events.EventRecorderLogger { return noted{&notes} }, Term: test.term,
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					h.ReportHeld(klog.NewContext(ctx, logr.Discard()), clock.RealClock{}, nil)
				}()
				time.Sleep(time.Hour) //nolint:forbidigo // of the bubble: the pod has been held for long
				cancel()
				<-ended
				statuses.Close(t.Context())

				g.Expect(notes).To(Equal(test.events))
				stored, err := client.CoreV1().Pods("").Get(t.Context(), "pod", metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				if test.reason == "" {
					g.Expect(stored.Status).To(Equal(pod.Status))
					return
				}
				g.Expect(stored.Status.Conditions).
					To(ConsistOf(And(HaveField("Reason", test.reason), HaveField("Message", quotaMessage))))
			})
		})
	}
}

// TestAReportOfAHeldPodThatGotLostIsRepeated lets the first write of the condition fail.
func TestAReportOfAHeldPodThatGotLostIsRepeated(t *testing.T) {
	metrics.Register()
	handlers := utilruntime.ErrorHandlers
	defer func() { utilruntime.ErrorHandlers = handlers }()
	utilruntime.ErrorHandlers = nil // one of them sleeps, by a clock outside of the bubble
	held := unscheduledCondition(&corev1.Pod{}, reasonHeld, quotaMessage)
	for name, status := range map[string]corev1.PodStatus{
		"the condition": {},
		"the end of its nomination": {NominatedNodeName: "node",
			Conditions: []corev1.PodCondition{*held}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				stored := statusAfterLostReport(t, status)
				g.Expect(stored.Conditions).To(ConsistOf(HaveField("Reason", v1alpha1.PodReasonPreEnqueueRejected)))
				g.Expect(stored.NominatedNodeName).To(BeEmpty())
			})
		})
	}
}

// statusAfterLostReport returns the status of a held pod three minutes after the first write of its
// status got lost. If it is nominated, that ends at the beginning.
func statusAfterLostReport(t *testing.T, status corev1.PodStatus) corev1.PodStatus {
	t.Helper()
	g := NewWithT(t)
	q := queue.New(queue.Config{Clock: clock.RealClock{}})
	q.Reconfigure(logr.Discard(), &queue.Settings{Profiles: map[string]*queue.ProfileSettings{
		"mine": {PreEnqueue: []fwk.PreEnqueuePlugin{shut{}}},
	}}, sets.New("mine"))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "pod"},
		Spec: corev1.PodSpec{SchedulerName: "mine"}, Status: status}
	q.Add(logr.Discard(), pod)
	known := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	g.Expect(known.Add(pod)).To(Succeed())

	client, attempts := fake.NewClientset(pod), 0
	client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		attempts++
		return attempts == 1, nil, errors.New("connection reset by peer")
	})
	statuses := NewStatusWriter(client, corev1listers.NewPodLister(known), cache.New(), q)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	statuses.Start(ctx)
	if status.NominatedNodeName != "" {
		q.Nominator().DeleteNominatedPodIfExists(pod)
		statuses.Write(podstatus.Update{Pod: pod, Nominating: ClearNomination})
	}
	h := &Handler{Queue: q, Statuses: statuses,
		Recorder: func(string) events.EventRecorderLogger { return noted{&[]string{}} }}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.ReportHeld(ctx, clock.RealClock{}, nil)
	}()
	time.Sleep(3 * time.Minute) //nolint:forbidigo // of the bubble
	cancel()
	<-ended
	statuses.Close(t.Context())

	stored, err := client.CoreV1().Pods("ns").Get(t.Context(), "pod", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	return stored.Status
}
