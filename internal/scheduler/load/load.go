// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load keeps the load of this replica over the last hours, for charts without a metrics
// server:
//
//	kube-scheduler's metrics ──┐
//	queue counters ────────────┼── every 10 s ──> ring of samples ──> Since
//	current profiles ──────────┘
//
// The samples are in memory only. One costs half a millisecond of CPU with ten profiles
// (BenchmarkSample).
package load

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

const (
	// Interval is the time between two samples.
	Interval = 10 * time.Second
	// Kept is how long samples and reloads are kept.
	Kept = 8 * time.Hour
	// maxReloads is the largest number of reloads that are kept.
	maxReloads = 1000
)

// Config has what a Recorder reads.
type Config struct {
	// Gatherer has kube-scheduler's metrics.
	Gatherer metrics.Gatherer
	// Counts returns the number of pods in each part of the queue.
	Counts func() queue.Counts
	// Profiles returns the current profiles.
	Profiles func() *profile.Map
	Clock    clock.WithTicker
}

// Recorder records the load of this replica. Run records from one goroutine; any goroutine may call
// Since.
type Recorder struct {
	cfg Config

	// last is what the last sample read, and when. It belongs to Run.
	last   attempts
	lastAt time.Time
	// revisions are the active revisions at the last sample, by profile. It belongs to Run.
	revisions map[string]string

	mu sync.RWMutex // guards the fields below
	// samples and reloads are in the order of their times.
	samples []v1alpha1.LoadSample
	reloads []v1alpha1.ProfileReload
}

// NewRecorder returns a Recorder without samples.
func NewRecorder(cfg Config) *Recorder { return &Recorder{cfg: cfg} }

// Run records until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	r.begin(ctx)
	ticker := r.cfg.Clock.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			r.sample(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// begin reads what the first sample is compared with. Profiles that run already are no reloads.
func (r *Recorder) begin(ctx context.Context) {
	r.last, r.lastAt, r.revisions = r.read(ctx), r.cfg.Clock.Now(), revisionsOf(r.cfg.Profiles())
}

// sample records one sample, and the reloads since the last one.
func (r *Recorder) sample(ctx context.Context) {
	now, read, counts := r.cfg.Clock.Now(), r.read(ctx), r.cfg.Counts()
	sample := read.since(r.last)
	sample.Time, sample.Seconds = metav1.NewTime(now), now.Sub(r.lastAt).Seconds()
	sample.Active, sample.Backoff = int32(counts.Active), int32(counts.Backoff+counts.ErrorBackoff)
	sample.UnschedulablePods, sample.Gated = int32(counts.Unschedulable), int32(counts.Gated)
	revisions := revisionsOf(r.cfg.Profiles())
	reloads := reloadsBetween(r.revisions, revisions, now)
	r.last, r.lastAt, r.revisions = read, now, revisions

	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := now.Add(-Kept)
	r.samples = append(dropBefore(r.samples, oldest, sampleTime), sample)
	r.reloads = append(dropBefore(r.reloads, oldest, reloadTime), reloads...)
	r.reloads = r.reloads[max(0, len(r.reloads)-maxReloads):]
}

func (r *Recorder) read(ctx context.Context) attempts {
	read, err := readAttempts(r.cfg.Gatherer)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not read the metrics of attempts; the charts lack a sample")
		return r.last
	}
	return read
}

// Since returns copies of the samples and reloads at a time and later, the oldest first.
func (r *Recorder) Since(t time.Time) ([]v1alpha1.LoadSample, []v1alpha1.ProfileReload) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	samples := append([]v1alpha1.LoadSample{}, dropBefore(r.samples, t, sampleTime)...)
	return samples, append([]v1alpha1.ProfileReload(nil), dropBefore(r.reloads, t, reloadTime)...)
}

func sampleTime(s *v1alpha1.LoadSample) time.Time { return s.Time.Time }

func reloadTime(r *v1alpha1.ProfileReload) time.Time { return r.Time.Time }

// dropBefore returns the items at a time and later, of items in the order of their times.
func dropBefore[T any](items []T, t time.Time, at func(*T) time.Time) []T {
	for len(items) > 0 && at(&items[0]).Before(t) {
		items = items[1:]
	}
	return items
}
