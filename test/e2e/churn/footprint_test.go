// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// footprint counts what the process holds while the cluster is empty.
type footprint struct {
	// goroutines counts them by the function that started them and by where they are.
	goroutines map[string]int
	handlers   int
	heap       uint64 // bytes
	// series counts metric series by name; profiled are those that name a profile.
	series   map[string]int
	profiled []string
}

// leftBehind are goroutines that a library does not end when a manager stops. livesched cannot end
// them.
var leftBehind = []string{
	// The workqueue of a controller that is stopped while it hands out an item never notices.
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...]).handleReadyItems",
}

// The tolerances of the comparison: connections and timers come and go.
const (
	// A watch has four goroutines. After warm-up, some of those that were cut may wait for their
	// back-off: 6 were seen. What leaks with each reload or restart is far more in a soak.
	slackGoroutines = 40
	slackHeap       = 24 << 20
	// Series without a profile's name appear when a plugin first meets an event, and stay. That
	// ends.
	slackSeries = 400
	// A profile has dozens of series. A few may appear after a replica has released its profiles,
	// from bindings that continue briefly after it lost its lease. In a real cluster, these end
	// with the process.
	slackProfiled = 10
)

func (w *world) measure() (footprint, error) {
	f := footprint{goroutines: map[string]int{}, series: map[string]int{}}
	for _, r := range w.fleet.all() {
		f.handlers += r.Informers.Handlers()
	}
	for stack := range strings.SplitSeq(stacks(), "\n\n") {
		if !slices.ContainsFunc(leftBehind, func(known string) bool { return strings.Contains(stack, known) }) {
			f.goroutines[origin(stack)]++
		}
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return f, err
	}
	ours, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		return f, err
	}
	for _, family := range append(families, ours...) {
		f.series[family.GetName()] = len(family.GetMetric())
		for _, metric := range family.GetMetric() {
			if slices.ContainsFunc(metric.GetLabel(),
				func(l *dto.LabelPair) bool { return l.GetName() == "profile" && l.GetValue() != "" }) {
				f.profiled = append(f.profiled, fmt.Sprint(family.GetName(), metric.GetLabel()))
			}
		}
	}
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	f.heap = memory.HeapAlloc
	return f, nil
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	buffer := make([]byte, 16<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}

// origin returns the function that a goroutine began in.
func origin(stack string) string {
	lines := strings.Split(strings.TrimSpace(stack), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if created, ok := strings.CutPrefix(lines[i], "created by "); ok {
			name, _, _ := strings.Cut(created, " in goroutine")
			return name
		}
	}
	return lines[0]
}

// growth returns how a footprint exceeds an earlier one.
func (f footprint) growth(before footprint) (found findings) {
	if grown := total(f.goroutines) - total(before.goroutines); grown > slackGoroutines {
		found.add("%d goroutines more than after warm-up: %s", grown, more(f.goroutines, before.goroutines))
	}
	if f.handlers != before.handlers {
		found.add("%d informer handlers, after warm-up there were %d", f.handlers, before.handlers)
	}
	if len(f.profiled) > slackProfiled {
		found.add("%d metric series name a profile, of which there is none: %v", len(f.profiled), f.profiled)
	}
	if grown := total(f.series) - total(before.series); grown > slackSeries {
		found.add("%d metric series more than after warm-up: %s", grown, more(f.series, before.series))
	}
	if f.heap > before.heap+before.heap/2+slackHeap {
		found.add("the heap is %d MiB, after warm-up it was %d", f.heap>>20, before.heap>>20)
	}
	return found
}

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d informer handlers, %d metric series, heap of %.1f MiB", total(f.goroutines),
		f.handlers, total(f.series), float64(f.heap)/(1<<20))
}

func total(of map[string]int) (n int) {
	for _, v := range of {
		n += v
	}
	return n
}

func more(now, before map[string]int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(now)) {
		if grown := now[what] - before[what]; grown > 0 {
			parts = append(parts, fmt.Sprintf("%s +%d", what, grown))
		}
	}
	return strings.Join(parts, ", ")
}
