// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLog(t *testing.T) {
	t.Run("a reader that has never read must start again", func(t *testing.T) {
		log := Log{first: 1}
		if _, ok := log.Since(0); ok {
			t.Error("position 0 was served")
		}
	})

	t.Run("a reader gets what came after its position", func(t *testing.T) {
		log := Log{first: 1}
		pos := log.End()
		want := []Change{{Slot: 1, Kind: PodAdded, Pod: 3}, {Slot: 2, Kind: NodeRemoved}}
		for _, change := range want {
			log.add(change, 0)
		}
		if got, ok := log.Since(pos); !ok || !slices.Equal(got, want) {
			t.Errorf("got %v, %v", got, ok)
		}
		if got, ok := log.Since(pos + 1); !ok || !slices.Equal(got, want[1:]) {
			t.Errorf("from the second on: got %v, %v", got, ok)
		}
		if got, ok := log.Since(log.End()); !ok || len(got) != 0 {
			t.Errorf("at the end: got %v, %v", got, ok)
		}
	})

	t.Run("a position beyond the end, read from another log, is rejected", func(t *testing.T) {
		log := Log{first: 1}
		if _, ok := log.Since(log.End() + 1); ok {
			t.Error("it was served")
		}
	})

	t.Run("it keeps the promised length, and a reader that fell behind gets nothing", func(t *testing.T) {
		for _, slots := range []int{0, 3 * minLogEntries} {
			log := Log{first: 1}
			promised := max(slots, minLogEntries)
			start := log.End()
			for i := range 5 * promised {
				log.add(Change{Slot: Slot(i)}, slots)
				if log.End() != start+uint64(i)+1 {
					t.Fatalf("%d slots: after %d entries the end is at %d, from %d", slots, i+1, log.End(), start)
				}
				reach := min(i+1, promised)
				changes, ok := log.Since(log.End() - uint64(reach))
				if !ok || len(changes) != reach || changes[0].Slot != Slot(i+1-reach) {
					t.Fatalf("%d slots, entry %d: the last %d entries are not there", slots, i, reach)
				}
				if _, ok := log.Since(log.first - 1); ok {
					t.Fatalf("%d slots, entry %d: a reader that fell off was served", slots, i)
				}
				if len(log.entries) > 2*promised {
					t.Fatalf("%d entries are kept", len(log.entries))
				}
			}
		}
	})

	t.Run("no reader passes a gap", func(t *testing.T) {
		log := Log{first: 1}
		log.add(Change{}, 0)
		pos := log.End()
		log.cut()
		if _, ok := log.Since(pos); ok {
			t.Error("a reader got over it")
		}
		if _, ok := log.Since(log.End()); !ok {
			t.Error("a reader that starts after it is refused")
		}
	})
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
