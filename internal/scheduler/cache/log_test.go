// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A reader may be as many entries behind as there are slots.
func TestLogKeepsThePromisedLength(t *testing.T) {
	for _, slots := range []int{0, 3 * minLogEntries} {
		var log Log
		promised := max(slots, minLogEntries)
		for i := range 5 * promised {
			log.add(Change{Slot: Slot(i)}, slots)
			reach := min(i+1, promised)
			changes, ok := log.Since(log.End() - uint64(reach))
			if !ok || len(changes) != reach || changes[0].Slot != Slot(i+1-reach) {
				t.Fatalf("%d slots, entry %d: the last %d entries are not there", slots, i, reach)
			}
			if changes, ok := log.Since(log.End() - uint64(2*promised) - 1); ok && i >= 2*promised {
				t.Fatalf("%d slots, entry %d: %d entries are kept", slots, i, len(changes))
			}
		}
	}
}

// The start of a pod is no change to plugins, and has a log of its own.
func TestStarts(t *testing.T) {
	f := newFixture(t, newNode("n1", "z"))
	pod := newPod("p", "n1")
	f.must(f.AddPod(quiet, pod))
	f.refresh()
	update := func(edits ...func(*corev1.Pod)) (starts int) {
		t.Helper()
		pos := f.snapshot.Starts().End()
		now := pod.DeepCopy()
		for _, edit := range edits {
			edit(now)
		}
		f.must(f.UpdatePod(quiet, pod, now))
		pod = now
		f.expectLog()
		changes, ok := f.snapshot.Starts().Since(pos)
		if !ok {
			t.Error("the log has a gap")
		}
		return len(changes)
	}
	started := func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: time.Unix(1, 0)} }
	ready := func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }
	restarted := func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: time.Unix(2, 0)} }
	if got := update(ready); got != 0 {
		t.Errorf("%d starts when the pod is ready", got)
	}
	if got := update(started); got != 1 {
		t.Errorf("%d starts when the pod starts", got)
	}
	if got := update(started, ready); got != 0 {
		t.Errorf("%d starts when it starts at the same time", got)
	}
	if got := update(restarted); got != 1 {
		t.Errorf("%d starts when it starts at another time", got)
	}
}
