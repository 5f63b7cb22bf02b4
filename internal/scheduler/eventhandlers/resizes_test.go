// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

func resizing(pod *corev1.Pod, reason string) *corev1.Pod {
	return objects.Edited(pod, func(pod *corev1.Pod) {
		pod.Status.Conditions = nil
		if reason != "" {
			pod.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}}
		}
	})
}

// TestDeferredResizeEvents has the cases of kube-scheduler's TestEventHandlers_DeferredResize, and
// those of its integration test TestDeferredResizeQueueingHandlers.
func TestDeferredResizeEvents(t *testing.T) {
	const nowhere = queue.Place(0)
	pending, bound := podAt("a", "1", ""), podAt("a", "2", "n1")
	deferred := resizing(podAt("a", "3", "n1"), corev1.PodReasonDeferred)
	again := objects.Edited(deferred, func(pod *corev1.Pod) { pod.ResourceVersion = "4" })
	infeasible := resizing(podAt("a", "4", "n1"), corev1.PodReasonInfeasible)
	done := resizing(podAt("a", "5", "n1"), "")
	ending := objects.Edited(again, func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} })
	recreated := podAt("b", "1", "")

	for name, c := range map[string]struct {
		// versions are those of the pod, one after the other. The last may be nil: it is deleted.
		versions []*corev1.Pod
		off      bool
		want     queue.Place
		cached   int
	}{
		"is deferred when the pod is first seen": {versions: []*corev1.Pod{deferred},
			want: queue.Active, cached: 1},
		"is deferred": {versions: []*corev1.Pod{bound, deferred},
			want: queue.Active, cached: 1},
		"is deferred and has changed": {versions: []*corev1.Pod{deferred, again},
			want: queue.Active, cached: 1},
		"is delivered again": {versions: []*corev1.Pod{deferred, deferred},
			want: queue.Active, cached: 1},
		"is deferred in the update that binds the pod": {versions: []*corev1.Pod{pending, deferred},
			want: queue.Active, cached: 1},
		"is done":               {versions: []*corev1.Pod{deferred, done}, want: nowhere, cached: 1},
		"becomes infeasible":    {versions: []*corev1.Pod{deferred, infeasible}, want: nowhere, cached: 1},
		"is infeasible at once": {versions: []*corev1.Pod{bound, infeasible}, want: nowhere, cached: 1},
		"is feasible again": {versions: []*corev1.Pod{infeasible, again},
			want: queue.Active, cached: 1},
		"of a pod that terminates":  {versions: []*corev1.Pod{deferred, ending}, want: nowhere, cached: 1},
		"of a pod that is deleted":  {versions: []*corev1.Pod{deferred, nil}, want: nowhere},
		"of a pod that is replaced": {versions: []*corev1.Pod{deferred, recreated}, want: nowhere},
		"without the gate, is deferred when the pod is first seen": {versions: []*corev1.Pod{deferred}, off: true,
			want: nowhere, cached: 1},
		"without the gate, is deferred": {versions: []*corev1.Pod{bound, deferred, again}, off: true, want: nowhere,
			cached: 1},
	} {
		t.Run("a resize "+name, func(t *testing.T) {
			h := listening(t)
			if !c.off {
				h.queue = queue.New(queue.Config{DeferredResizes: true})
				h.queue.Reconfigure(logr.Discard(),
					&queue.Settings{Profiles: map[string]*queue.ProfileSettings{"mine": {}}}, sets.New("mine"))
			}
			h.podAdded(c.versions[0])
			for i, pod := range c.versions[1:] {
				if pod == nil {
					h.podDeleted(c.versions[i], false)
				} else {
					h.podUpdated(c.versions[i], pod)
				}
			}
			if got := h.places("a")[0]; got != c.want {
				t.Errorf("in the queue it is %v, want %v", got, c.want)
			}
			if got := h.cache.Size().Pods; got != c.cached {
				t.Errorf("the cache has %d pods, want %d", got, c.cached)
			}
		})
	}
}
