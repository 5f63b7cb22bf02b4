// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is what a Recorder reads.
type world struct {
	registry *prometheus.Registry
	attempts *prometheus.HistogramVec
	broken   bool
	counts   queue.Counts
	profiles *profile.Map
	clock    *clocktesting.FakeClock
}

func newWorld() (*world, *Recorder) {
	w := &world{registry: prometheus.NewRegistry(), clock: clocktesting.NewFakeClock(start), profiles: profiles(nil)}
	w.attempts = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: attemptDuration, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}, []string{"result", "profile"})
	w.registry.MustRegister(w.attempts)
	return w, NewRecorder(Config{Gatherer: w, Counts: func() queue.Counts { return w.counts },
		Profiles: func() *profile.Map { return w.profiles }, Clock: w.clock})
}

// Gather implements metrics.Gatherer.
func (w *world) Gather() ([]*dto.MetricFamily, error) {
	if w.broken {
		return nil, errors.New("broken")
	}
	return w.registry.Gather()
}

// profiles returns a map of profiles with revisions.
func profiles(revisions map[string]string) *profile.Map {
	instances := map[string]*profile.Instance{}
	for name, revision := range revisions {
		instances[name] = &profile.Instance{
			Config: &resolve.Profile{Name: name, SchedulerName: name, Revision: revision}}
	}
	return profile.NewMap(instances, "")
}

func (w *world) tick(t *testing.T, r *Recorder) {
	t.Helper()
	w.clock.Step(Interval)
	r.sample(t.Context())
}

func TestASampleHasWhatHappenedSinceTheLast(t *testing.T) {
	w, r := newWorld()
	w.attempts.WithLabelValues("scheduled", "before").Observe(5) // before the recorder began
	w.profiles = profiles(map[string]string{"a": "1", "b": "1"})
	r.begin(t.Context())
	w.attempts.WithLabelValues("scheduled", "a").Observe(0.0015)
	w.attempts.WithLabelValues("scheduled", "b").Observe(0.0015)
	w.attempts.WithLabelValues("unschedulable", "a").Observe(1)
	w.attempts.WithLabelValues("error", "a").Observe(1)
	w.counts = queue.Counts{Active: 1, Backoff: 2, ErrorBackoff: 3, Unschedulable: 4, Gated: 5, InFlight: 6}
	w.profiles = profiles(map[string]string{"b": "2", "c": "1"})
	w.tick(t, r)
	w.counts = queue.Counts{}
	w.tick(t, r)

	samples, reloads := r.Since(start)
	first := metav1.NewTime(start.Add(Interval))
	want := []v1alpha1.LoadSample{
		{Time: first, Seconds: 10, Bound: 2, Unschedulable: 1, Failed: 1,
			P50:    &metav1.Duration{Duration: 1500 * time.Microsecond},
			P99:    &metav1.Duration{Duration: 1990 * time.Microsecond},
			Active: 1, Backoff: 5, UnschedulablePods: 4, Gated: 5},
		{Time: metav1.NewTime(start.Add(2 * Interval)), Seconds: 10},
	}
	if diff := cmp.Diff(want, samples); diff != "" {
		t.Error(diff)
	}
	wanted := []v1alpha1.ProfileReload{{Time: first, Profile: "a"}, {Time: first, Profile: "b", Revision: "2"},
		{Time: first, Profile: "c", Revision: "1"}}
	if diff := cmp.Diff(wanted, reloads); diff != "" {
		t.Error(diff)
	}
	if samples, reloads := r.Since(start.Add(Interval + 1)); len(samples) != 1 || len(reloads) != 0 {
		t.Errorf("%d samples and %d reloads are later than the first", len(samples), len(reloads))
	}
}

func TestASampleWithoutMetricsLeavesTheAttemptsToTheNext(t *testing.T) {
	w, r := newWorld()
	r.begin(t.Context())
	w.attempts.WithLabelValues("scheduled", "a").Observe(0.001)
	w.broken = true
	w.tick(t, r)
	w.broken = false
	w.tick(t, r)
	samples, _ := r.Since(start)
	if len(samples) != 2 || samples[0].Bound != 0 || samples[1].Bound != 1 {
		t.Errorf("samples %+v", samples)
	}
}

func TestSamplesAndReloadsAreBounded(t *testing.T) {
	w, r := newWorld()
	r.begin(t.Context())
	for i := range int(Kept/Interval) + 100 {
		w.profiles = profiles(map[string]string{"a": string(rune('a' + i%2))})
		w.tick(t, r)
	}
	samples, reloads := r.Since(time.Time{})
	if want := int(Kept/Interval) + 1; len(samples) != want {
		t.Errorf("%d samples, want %d", len(samples), want)
	}
	if len(reloads) != maxReloads {
		t.Errorf("%d reloads, want %d", len(reloads), maxReloads)
	}
	if age := w.clock.Since(samples[0].Time.Time); age > Kept {
		t.Errorf("the oldest sample is %v old", age)
	}
	if grown := cap(r.samples); grown > 3*len(samples) {
		t.Errorf("%d samples take the room of %d", len(samples), grown)
	}
}

// The quantiles of random durations are within the bucket of the exact ones.
func TestQuantilesAreInTheRightBucket(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		w, _ := newWorld()
		before, err := readAttempts(w)
		if err != nil {
			t.Fatal(err)
		}
		var durations []float64
		for range 1 + random.IntN(200) {
			d := random.ExpFloat64() / 100
			durations = append(durations, d)
			w.attempts.WithLabelValues("scheduled", "a").Observe(d)
		}
		slices.Sort(durations)
		after, err := readAttempts(w)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []float64{0.5, 0.99} {
			got := after.quantile(before, q).Seconds()
			exact := durations[min(len(durations)-1, int(q*float64(len(durations))))]
			// Buckets double, and the exact quantile may be the next larger duration.
			lower := durations[max(0, int(q*float64(len(durations)))-1)]
			if got < lower/2-0.001 || got > exact*2+0.001 {
				t.Errorf("quantile %v of %d durations is %v, want from %v to %v", q, len(durations), got, lower, exact)
			}
		}
	}
}

func TestRunSamplesUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := newWorld()
		r.cfg.Clock = clock.RealClock{}
		ctx, cancel := context.WithCancel(t.Context())
		go r.Run(ctx)
		time.Sleep(2*Interval + 1) //nolint:forbidigo // of the bubble
		synctest.Wait()
		if samples, _ := r.Since(time.Time{}); len(samples) != 2 {
			t.Errorf("%d samples after two intervals", len(samples))
		}
		cancel() // the bubble fails if Run goes on
	})
}
