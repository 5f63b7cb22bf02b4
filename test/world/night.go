// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"runtime"
	"strings"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// playNight lets hours pass without trouble, in which pods come and go. What livesched holds must
// not grow.
func (w *World) playNight() {
	hours := w.plan.Night
	if hours == 0 || w.failure != nil {
		return
	}
	w.log.add("the night begins")
	w.passHours(1)
	before := w.measure()
	w.passHours(hours)
	if w.failure != nil {
		return
	}
	after := w.measure()
	w.log.add("after the first hour: %v", before)
	w.log.add("after the night: %v", after)
	if after.goroutines > before.goroutines+maxMoreGoroutines || after.bytes > before.bytes+maxMoreBytes {
		w.fail("there were %v, and %v after %d hours without trouble", before, after, hours)
		for stack, n := range after.stacks {
			if more := n - before.stacks[stack]; more > 0 {
				w.log.add("%d more goroutines at %s", more, stack)
			}
		}
	}
}

// What livesched holds differs a little: windows of time fill, and what remembers the latest writes
// and Events; maps and buffers grow to the size that they need, and a watch, which takes a dozen
// goroutines, begins anew every few minutes. Of 38 hours, the last 30 added 1.3 MiB.
const (
	maxMoreGoroutines = 40
	maxMoreBytes      = 6 << 20
)

// passHours lets hours pass, deletes all pods, and checks that the cluster comes to rest. What is
// old disappears as in a real cluster.
func (w *World) passHours(hours int) {
	for range hours {
		end := time.Now().Add(time.Hour)
		w.startActors(map[string]int{"workloads": 120}, end)
		for time.Now().Before(end) && w.failure == nil {
			w.RunUntil(time.Now().Add(5*time.Minute), nil)
			w.forget()
		}
		w.expireEvents()
	}
	for _, pod := range sorted(w.cluster.pods) {
		w.deletePod(pod)
	}
	w.RunUntil(time.Now().Add(calm), nil)
	if w.failure == nil {
		w.checkRest()
	}
	w.expireEvents()
	w.forget()
}

// forget makes etcd forget its history, as API servers do every five minutes.
func (w *World) forget() {
	w.observe()
	w.etcd.Compact(w.cluster.revision)
	w.cluster.oldest = w.cluster.revision
}

// expireEvents deletes the Events, which have a time to live of an hour.
func (w *World) expireEvents() {
	for _, namespace := range []string{metav1.NamespaceDefault, otherNamespace, ownNamespace} {
		w.must(w.cluster.kube.EventsV1().Events(namespace).DeleteCollection(w.ctx, metav1.DeleteOptions{},
			metav1.ListOptions{}))
	}
}

// held is what the process of the world holds.
type held struct {
	goroutines int
	bytes      int
	// stacks are how many goroutines there are of each stack.
	stacks map[string]int
}

func (h held) String() string {
	return fmt.Sprintf("%d goroutines, %.1f MiB", h.goroutines, float64(h.bytes)/(1<<20))
}

// measure returns what the process holds, without the transcript.
func (w *World) measure() held {
	own := cap(w.log.lines) * int(unsafe.Sizeof(""))
	for _, line := range w.log.lines {
		own += cap(append([]byte(nil), line...)) // what is allocated for it
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return held{runtime.NumGoroutine(), int(m.HeapAlloc) - own, goroutineStacks()}
}

// goroutineStacks returns how many goroutines there are of each stack.
func goroutineStacks() map[string]int {
	records := make([]runtime.StackRecord, 2*runtime.NumGoroutine())
	n, _ := runtime.GoroutineProfile(records)
	stacks := map[string]int{}
	for _, record := range records[:n] {
		var stack []string
		for frames, more := runtime.CallersFrames(record.Stack()), true; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			stack = append(stack, fmt.Sprintf("%s:%d", frame.Function, frame.Line))
		}
		stacks[strings.Join(stack, " < ")]++
	}
	return stacks
}
