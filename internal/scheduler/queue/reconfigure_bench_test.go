// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	ownmetrics "github.com/livesched/livesched/internal/scheduler/metrics"
)

// reloadBench is a queue with pods that all wait in one place.
type reloadBench struct {
	b     *testing.B
	queue *Queue
	place Place
	order string
}

// settings are new settings of the one profile, with the registrations of the default plugins.
func (r *reloadBench) settings() *Settings {
	hints, _ := benchHints()
	gate := &chaosGate{preEnqueuer{name: "SchedulingGates", answer: func(pod *corev1.Pod) *fwk.Status {
		if len(pod.Spec.SchedulingGates) == 0 {
			return nil
		}
		return refusal
	}}}
	return &Settings{Less: defaultLess, Order: r.order, Profiles: map[string]*ProfileSettings{"default": {
		InitialBackoff: time.Second, MaxBackoff: time.Hour, Hints: hints, PreEnqueue: []fwk.PreEnqueuePlugin{gate},
	}}}
}

// fill moves all pods, and those that the last reload moved away, to the place of the benchmark.
func (r *reloadBench) fill() {
	for range r.queue.active.Len() {
		if r.place != Backoff && r.place != Unschedulable {
			return
		}
		p := r.queue.Pop(logger).Pod
		p.UnschedulablePlugins = sets.New("Plugin3", "Plugin4")
		if r.place == Backoff {
			r.queue.Move(logger, fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All}, nil, nil, nil)
		}
		if _, err := r.queue.Requeue(logger, p, nil); err != nil {
			r.b.Fatal(err)
		}
	}
}

// standstill is the sum of the longest times for which each reload held the queue, in seconds.
func standstill(b *testing.B) float64 {
	b.Helper()
	var m dto.Metric
	if err := ownmetrics.ReloadStandstill.Write(&m); err != nil {
		b.Fatal(err)
	}
	return m.GetHistogram().GetSampleSum()
}

// BenchmarkReconfigure is the reload of a profile with 10,000 pods that wait in one place, of seven
// priorities; once with another order of the queue.
func BenchmarkReconfigure(b *testing.B) {
	const waiting = 10_000
	for _, c := range []struct {
		name  string
		place Place
		order string
	}{
		{"Active", Active, "default"}, {"Backoff", Backoff, "default"}, {"Unschedulable", Unschedulable, "default"},
		{"Gated", Gated, "default"},
		{"Active in another order", Active, ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := &reloadBench{b: b, queue: New(Config{}), place: c.place, order: c.order}
			r.queue.Reconfigure(logger, r.settings(), nil)
			for _, i := range rand.Perm(waiting) {
				pod := newPod(fmt.Sprint("pod-", i), priority(int32(i%7)))
				if c.place == Gated {
					gates("shut")(pod)
				}
				r.queue.Add(logger, pod)
			}
			b.ReportAllocs()
			held := standstill(b)
			for b.Loop() {
				b.StopTimer()
				r.fill()
				next := r.settings()
				b.StartTimer()
				r.queue.Reconfigure(logger, next, sets.New("default"))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/waiting, "ns/pod")
			b.ReportMetric((standstill(b)-held)/float64(b.N)*1e6, "us-standstill")
		})
	}
}
