// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// seriesOf counts the metric series of a scheduler name.
func seriesOf(t *testing.T, schedulerName string) int {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	must(t, err)
	count := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if strings.HasPrefix(family.GetName(), "scheduler_") && label.GetName() == "profile" &&
					label.GetValue() == schedulerName {
					count++
				}
			}
		}
	}
	return count
}

func TestTheMetricSeriesOfAProfile(t *testing.T) {
	t.Run("go with its last instance", func(t *testing.T) {
		e := newTestEnv(t, nil)
		first := e.build(t, object("with-series"))
		schedmetrics.PodScheduled("with-series", 0.1)
		if seriesOf(t, "with-series") == 0 {
			t.Fatal("a profile that is built has no series")
		}
		second := e.build(t, object("with-series"))
		first.Release(logr.Discard())
		<-first.Closed()
		if seriesOf(t, "with-series") == 0 {
			t.Error("the series went with the first of two instances")
		}
		second.Release(logr.Discard())
		<-second.Closed()
		if n := seriesOf(t, "with-series"); n != 0 {
			t.Errorf("%d series are left", n)
		}
	})

	t.Run("go with a build that failed, but not those of another name", func(t *testing.T) {
		fs := &fakes{}
		e := newTestEnv(t, fs.registry(func(f *fake) error {
			schedmetrics.PodScheduled(f.handle.ProfileName(), 0.1)
			panic("no luck")
		}))
		e.build(t, object("other"))
		if _, err := e.builder().Build(e.ctx, e.resolve(t, object("failing", "Broken"))); err == nil {
			t.Fatal("the build did not fail")
		}
		eventually(t, func() int { return seriesOf(t, "failing") }).Should(gomega.BeZero())
		if seriesOf(t, "other") == 0 {
			t.Error("the series of another profile are gone")
		}
	})
}

// slowMetric is a collector without metrics. It counts reads, and holds them up until open is
// closed.
type slowMetric struct {
	reads atomic.Int32
	open  chan struct{}
}

func (*slowMetric) Describe(ch chan<- *prometheus.Desc) {
	ch <- prometheus.NewDesc("slow", "None.", nil, nil)
}

func (m *slowMetric) Collect(chan<- prometheus.Metric) {
	m.reads.Add(1)
	<-m.open
}

// TestManyProfilesAreDeleted shows that builds do not wait until the series of deleted profiles are
// found, and that these are looked for together: with many profiles, reading the metrics takes
// long.
func TestManyProfilesAreDeleted(t *testing.T) {
	e := newTestEnv(t, nil)
	var deleted []*Instance
	for i := range 40 {
		p := e.build(t, object(fmt.Sprint("deleted-", i)))
		schedmetrics.PodScheduled(p.SchedulerName(), 0.1)
		deleted = append(deleted, p)
	}
	slow := &slowMetric{open: make(chan struct{})}
	legacyregistry.Registerer().MustRegister(slow)
	t.Cleanup(func() { legacyregistry.Registerer().Unregister(slow) })
	open := sync.OnceFunc(func() { close(slow.open) })
	t.Cleanup(open)

	deleted[0].Release(logr.Discard())
	eventually(t, slow.reads.Load).Should(gomega.BeEquivalentTo(1))
	for _, p := range deleted[1:] {
		p.Release(logr.Discard())
	}

	// One of them comes back before its series were deleted.
	for _, name := range []string{"another", "deleted-0"} {
		begun := make(chan *Build, 1)
		cfg := e.resolve(t, object(name))
		go func() { begun <- e.builder().Start(e.ctx, cfg) }()
		var b *Build
		eventually(t, begun).Should(gomega.Receive(&b), "a build waits until series are found")
		<-b.Done()
		must(t, b.Err())
		p := b.Take()
		schedmetrics.PodScheduled(name, 0.1)
		t.Cleanup(func() {
			p.Release(logr.Discard())
			<-p.Closed()
		})
	}

	unused := func() int {
		e.series.mu.Lock()
		defer e.series.mu.Unlock()
		return e.series.unused.Len()
	}
	eventually(t, unused).Should(gomega.Equal(39))
	open()
	for _, p := range deleted {
		<-p.Closed()
	}
	if reads := slow.reads.Load(); reads != 2 {
		t.Errorf("the metrics were read %d times for 40 profiles, want 2", reads)
	}
	if seriesOf(t, "deleted-0") == 0 || seriesOf(t, "another") == 0 {
		t.Error("the series of a running profile are gone")
	}
	for _, p := range deleted[1:] {
		if n := seriesOf(t, p.SchedulerName()); n != 0 {
			t.Errorf("%s: %d series are left", p.SchedulerName(), n)
		}
	}
}
