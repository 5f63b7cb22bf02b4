// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/hack/bench/cluster"
)

// sampleInterval is the time between the samples of the throughput.
const sampleInterval = time.Second

// observation is the resource usage at one time.
type observation struct {
	scheduler cluster.Usage
	// api is the CPU time of API server and etcd.
	api time.Duration
}

// collection counts the pods of namespaces that are scheduled, from its start to its end.
type collection struct {
	name          string
	before, after observation
	began, ended  time.Time

	mu    sync.Mutex
	count int       // guarded by mu
	last  time.Time // of the pods in count; guarded by mu

	// unlimited ends the limit of the time of the collection.
	unlimited func()

	samples sampler // of the goroutine of run, until it has ended
	end     context.CancelFunc
	stopped chan struct{}
}

// collect begins to collect metrics of the pods of namespaces that have labels.
func (e *executor) collect(name string, namespaces []string, selector map[string]string) error {
	if e.collection != nil {
		return errors.New("metrics are collected already")
	}
	c := &collection{name: name, stopped: make(chan struct{})}
	var err error
	if c.before, err = e.observe(); err != nil {
		return err
	}
	c.began = time.Now()
	handle, err := e.onBound(func(pod *corev1.Pod) {
		if slices.Contains(namespaces, pod.Namespace) && hasLabels(pod, selector) {
			c.scheduled()
		}
	})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	c.end = func() { end(); _ = e.pods.RemoveEventHandler(handle) }
	go c.run(ctx)
	e.collection = c
	c.unlimited = e.begin()
	return nil
}

func (e *executor) stopCollecting() error {
	c := e.collection
	if c == nil {
		return errors.New("no metrics are collected")
	}
	e.collection = nil
	c.ended = time.Now()
	c.unlimited()
	c.end()
	<-c.stopped
	var err error
	c.after, err = e.observe()
	e.done = append(e.done, c)
	return err
}

// abandonCollection ends a collection after an error, so that the report has what was measured.
func (e *executor) abandonCollection() {
	if e.collection != nil {
		_ = e.stopCollecting() // there is an error already
	}
}

func (o *startCollectingMetrics) run(_ context.Context, e *executor, _ int) error {
	return e.collect(o.Name, o.Namespaces, o.LabelSelector)
}

func (o *stopCollectingMetrics) run(_ context.Context, e *executor, _ int) error {
	return e.stopCollecting()
}

// Profiles of the scheduler change nothing that is measured here, and are left out.

func (o *startCollectingProfile) run(context.Context, *executor, int) error { return nil }

func (o *stopCollectingProfile) run(context.Context, *executor, int) error { return nil }

func (c *collection) scheduled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	c.last = time.Now()
}

func (c *collection) scheduledSoFar() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// run takes samples until ctx ends.
func (c *collection) run(ctx context.Context) {
	defer close(c.stopped)
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.samples.add(time.Now(), c.scheduledSoFar())
		}
	}
}

// whole returns the pods per second from the start to the last pod, or NaN if there is none.
func (c *collection) whole() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == 0 || !c.last.After(c.began) {
		return math.NaN()
	}
	return float64(c.count) / c.last.Sub(c.began).Seconds()
}

// sampler computes the throughput from samples, as upstream does:
//
//   - The first sample with a pod only starts the clock.
//   - If no pod is added, the sample waits for the next one that has more. That one counts as often
//     as there were samples since.
type sampler struct {
	throughputs []float64
	started     bool
	last        time.Time
	lastCount   int
	skipped     int
}

// add takes a sample of the number of pods.
func (s *sampler) add(now time.Time, count int) {
	switch {
	case count == 0:
		return
	case !s.started:
		s.started = true
	case count == s.lastCount:
		s.skipped++
		return
	default:
		throughput := float64(count-s.lastCount) / now.Sub(s.last).Seconds()
		for range s.skipped + 1 {
			s.throughputs = append(s.throughputs, throughput)
		}
	}
	s.last, s.lastCount, s.skipped = now, count, 0
}

// average returns NaN if there are no samples.
func (s *sampler) average() float64 {
	total := 0.0
	for _, throughput := range s.throughputs {
		total += throughput
	}
	return total / float64(len(s.throughputs))
}
