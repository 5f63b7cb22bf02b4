// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1listers "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

func TestRejectorsOfAFailure(t *testing.T) {
	fitError := &schedframework.FitError{
		Diagnosis: schedframework.Diagnosis{NodeToStatus: schedframework.NewDefaultNodeToStatus()}}
	fitError.Diagnosis.AddPluginStatus(fwk.NewStatus(fwk.Unschedulable).WithPlugin("Refuses"))
	fitError.Diagnosis.AddPluginStatus(fwk.NewStatus(fwk.Pending).WithPlugin("Waits"))
	for name, test := range map[string]struct {
		status                 *fwk.Status
		unschedulable, pending int
	}{
		// a plugin that returns Pending also counts as rejecting
		"a refusal names its plugins": {fwk.NewStatus(fwk.Unschedulable).WithError(fitError), 2, 1},
		"an error names none":         {fwk.AsStatus(errors.New("broken")), 0, 0},
		"no nodes are nobody's fault": {fwk.NewStatus(fwk.UnschedulableAndUnresolvable).
			WithError(algorithm.ErrNoNodesAvailable), 0, 0},
	} {
		queued := &schedframework.QueuedPodInfo{PodInfo: &schedframework.PodInfo{Pod: &corev1.Pod{}}}
		queued.UnschedulablePlugins = sets.New("of", "the", "last", "attempt")
		a := Attempt{Pod: queued, Status: test.status}
		a.noteRejectors(t.Context())
		if len(queued.UnschedulablePlugins) != test.unschedulable || len(queued.PendingPlugins) != test.pending {
			t.Errorf("%s: unschedulable by %v, pending by %v", name, queued.UnschedulablePlugins, queued.PendingPlugins)
		}
	}
}

func TestAReplicaThatMayNotLeadAnyMoreReportsNothing(t *testing.T) {
	metrics.Register()
	over := lease.NewTerm(time.Hour)
	over.Renew(time.Now())
	over.End()
	for name, test := range map[string]struct {
		term      *lease.Term
		status    *fwk.Status
		nominated string
	}{
		"a pod that fits nowhere": {over,
			fwk.NewStatus(fwk.Unschedulable).WithError(algorithm.ErrNoNodesAvailable), ""},
		"a binding that was not sent":       {over, fwk.AsStatus(errors.New("broken")), ""},
		"a binding, and the leader goes on": {nil, fwk.AsStatus(fmt.Errorf("binding: %w", lease.ErrOver)), ""},
		"a pod that has lost its nomination": {over,
			fwk.NewStatus(fwk.Unschedulable).WithError(algorithm.ErrNoNodesAvailable), "n1"},
	} {
		q := queue.New(queue.Config{})
		q.Reconfigure(logr.Discard(), &queue.Settings{Profiles: map[string]*queue.ProfileSettings{"mine": {
			Hints: queue.HintMap{schedframework.EventAssignedPodDelete: {{Plugin: "Fit"}}},
		}}}, sets.New("mine"))
		pop := func(name string) *schedframework.QueuedPodInfo {
			q.Add(logr.Discard(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
				Spec: corev1.PodSpec{SchedulerName: "mine"}})
			return q.Pop(logr.Discard()).Pod
		}
		other := pop("other")
		other.UnschedulablePlugins = sets.New("Fit")
		if _, err := q.Requeue(logr.Discard(), other, nil); err != nil {
			t.Fatal(err)
		}
		popped := pop("pod")
		pods := corev1listers.NewPodLister(toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, nil))
		h := &Handler{Queue: q, Pods: pods, Term: test.term} // it has nothing to report with
		h.Handle(klog.NewContext(t.Context(), logr.Discard()), Attempt{Pod: popped, Status: test.status,
			Nominated: test.nominated})
		want := 1
		if test.nominated != "" { // its room is free for the other one
			want = 2
		}
		if counts := q.Counts(); counts.Active+counts.Backoff+counts.ErrorBackoff != want || counts.InFlight != 0 {
			t.Errorf("%s: not %d to be retried: %+v", name, want, counts)
		}
	}
}

func TestANominationThatEndsBeforeItIsWritten(t *testing.T) {
	for name, test := range map[string]struct {
		before, now, inStatus string
		ends                  bool
	}{
		"it has none":                        {"", "", "", false},
		"it gets one":                        {"", "n1", "", false},
		"it loses it":                        {"n1", "", "", true},
		"it gets another one":                {"n1", "n2", "", true},
		"it keeps it":                        {"n1", "n1", "", false},
		"its status names it":                {"n1", "", "n1", false},
		"its status names an earlier one":    {"n1", "", "n0", true},
		"it goes back to that of its status": {"n1", "n0", "n0", true},
		"only its status names one":          {"", "", "n1", false},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{NominatedNodeName: test.inStatus}}
		if got := endsUnwritten(pod, test.before, test.now); got != test.ends {
			t.Errorf("%s: ends %v", name, got)
		}
	}
}

// TestAPodThatIsBackInTheQueueIsTheQueues relies on the race detector: an informer's event updates
// the pod in the queue while the failed attempt is still being handled.
func TestAPodThatIsBackInTheQueueIsTheQueues(t *testing.T) {
	metrics.Register()
	q := queue.New(queue.Config{})
	q.Reconfigure(logr.Discard(), &queue.Settings{Profiles: map[string]*queue.ProfileSettings{"mine": {}}},
		sets.New("mine"))
	h := &Handler{Queue: q, Pods: corev1listers.NewPodLister(toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc,
		nil))}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: "pod"},
		Spec: corev1.PodSpec{SchedulerName: "mine"}}
	for range 100 {
		q.Add(logr.Discard(), pod)
		popped := q.Pop(logr.Discard()).Pod
		var updates sync.WaitGroup
		updates.Go(func() {
			for range 20 {
				q.Update(logr.Discard(), pod, pod.DeepCopy())
			}
		})
		h.Handle(klog.NewContext(t.Context(), logr.Discard()),
			Attempt{Pod: popped, Status: fwk.AsStatus(lease.ErrOver)})
		updates.Wait()
		q.Delete(logr.Discard(), pod)
	}
}

// TestStatusesAreOfPodsThatWait has the pods whose condition must not be written any more: it would
// stay on a pod that is bound meanwhile (kubernetes/kubernetes#139602).
func TestStatusesAreOfPodsThatWait(t *testing.T) {
	metrics.Register()
	pod := objects.Stored("ns", "pod")
	onNode := func(p *corev1.Pod) { p.Spec.NodeName = "n" }
	deleting := objects.Edited(pod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
	changed := objects.Edited(pod, func(p *corev1.Pod) { p.Generation++ })
	successor := objects.Edited(pod, func(p *corev1.Pod) { p.UID = "2" })
	for name, test := range map[string]struct {
		known   *corev1.Pod // nil: informers do not have it
		assumed bool
		written bool
	}{
		"a pod that waits":                            {pod, false, true},
		"a pod that was changed":                      {changed, false, true},
		"a pod that is being bound":                   {pod, true, false},
		"a pod that is bound":                         {objects.Edited(pod, onNode), false, false},
		"a pod that is being deleted":                 {deleting, false, false},
		"a pod that was deleted":                      {nil, false, false},
		"a pod that was created again under its name": {successor, false, false},
	} {
		indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, nil)
		if test.known != nil {
			if err := indexer.Add(test.known); err != nil {
				t.Fatal(err)
			}
		}
		c := cache.New()
		if test.assumed {
			info, err := schedframework.NewPodInfo(objects.Edited(pod, onNode))
			if err == nil {
				err = c.AssumePod(logr.Discard(), info)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		newest := pendingPods{pods: corev1listers.NewPodLister(indexer), cache: c}.Newest(pod)
		if test.written && newest != test.known || !test.written && newest != nil {
			t.Errorf("%s: got %v", name, newest)
		}
	}
}

// TestNewNumbersAreWrittenFromTimeToTime has the condition of an attempt, and the next one.
func TestNewNumbersAreWrittenFromTimeToTime(t *testing.T) {
	const message = "pod group ml/g: 3 of 8 pods fit in rack=r7; g-3: 0/12 nodes are available"
	condition := unscheduledCondition(&corev1.Pod{}, corev1.PodReasonUnschedulable, message)
	h := &Handler{Statuses: podstatus.NewWriter(nil, nil)}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{*condition}}}
	for message, want := range map[string]bool{
		message: false, // nothing is written in any case
		"pod group ml/g: 5 of 8 pods fit in rack=r12; g-5: 0/13 nodes are available":            true,
		"pod group ml/g: 5 of 8 pods fit; g-5: 0/12 nodes are available":                        false,
		"pod group ml/g: 5 of 8 pods fit in rack=r7; g-5: 0/12 nodes are available: 12 tainted": false,
	} {
		if got := h.differsInNumbers(pod, unscheduledCondition(pod, corev1.PodReasonUnschedulable, message)); got !=
			want {
			t.Errorf("%q differs in numbers alone: %v", message, got)
		}
	}
	others := strings.ReplaceAll(message, "3", "4")
	if h.differsInNumbers(pod, unscheduledCondition(pod, corev1.PodReasonSchedulerError, others)) {
		t.Error("the reason is another one")
	}
	// The condition of another attempt is on its way, and would stay.
	h.Statuses.Write(podstatus.Update{Pod: pod,
		Condition: unscheduledCondition(pod, corev1.PodReasonSchedulerError, "the binding failed")})
	if h.differsInNumbers(pod, unscheduledCondition(pod, corev1.PodReasonUnschedulable, others)) {
		t.Error("the pod gets another condition meanwhile")
	}
	h.Statuses.Write(podstatus.Update{Pod: pod,
		Condition: unscheduledCondition(pod, corev1.PodReasonUnschedulable, message)})
	if !h.differsInNumbers(pod, unscheduledCondition(pod, corev1.PodReasonUnschedulable, others)) {
		t.Error("the pod gets a condition that differs in numbers, too")
	}
	first := time.Now()
	for name, test := range map[string]struct {
		alone       bool
		before, now time.Duration // since the first attempt
		want        bool
	}{
		"the first attempt":                {before: -time.Second, now: 0},
		"one soon after the one before":    {before: time.Minute, now: 2 * time.Minute},
		"the first one in the next period": {before: 4 * time.Minute, now: 5 * time.Minute, want: true},
		"a pod without a group":            {alone: true, before: time.Minute, now: 2 * time.Minute, want: true},
	} {
		queued := &schedframework.QueuedPodInfo{QueueingParams: schedframework.QueueingParams{
			Timestamp: first.Add(test.before), InitialAttemptTimestamp: &first}}
		a := Attempt{Pod: queued, InGroup: !test.alone, Start: first.Add(test.now)}
		if got := a.refreshes(); got != test.want {
			t.Errorf("%s is reported in any case: %v", name, got)
		}
	}
}

func TestTheMessageOfAConditionIsBounded(t *testing.T) {
	for name, test := range map[string]struct{ message, want string }{
		"a usual one is whole":        {"0/3 nodes are available", "0/3 nodes are available"},
		"one that just fits is whole": {strings.Repeat("n", maxMessage), strings.Repeat("n", maxMessage)},
		"one of very many reasons is cut": {strings.Repeat("n", 50*maxMessage),
			strings.Repeat("n", maxMessage-4) + " ..."},
		"characters remain whole": {strings.Repeat("\u00e9", maxMessage),
			strings.Repeat("\u00e9", maxMessage/2-2) + " ..."},
		"bytes that are not UTF-8 are replaced": {"a\xffb", "a\uFFFDb"},
	} {
		condition := unscheduledCondition(&corev1.Pod{}, corev1.PodReasonUnschedulable, test.message)
		if condition.Message != test.want {
			t.Errorf("%s: %d bytes, want %d: %.100q", name, len(condition.Message), len(test.want), condition.Message)
		}
	}
}
