// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// newTightScene returns a scene with room for a number of classes.
func newTightScene(t *testing.T, classes int) *scene {
	s := newScene(t, 10, 0)
	s.expect(s.pod("app-0"), None)
	first := s.engine.classes.bytes
	s.expect(s.pod("app-1"), None)
	each := s.engine.classes.bytes - first
	s.engine.classes.max = first + (classes-1)*each + each/2
	return s
}

// hits returns how many of the next pods, of classes that are used in turn, are of a known class.
func (s *scene) hits(classes, pods int) int {
	s.Helper()
	hits := 0
	for i := range pods {
		before := s.engine.classes.lastID
		s.expect(s.pod(fmt.Sprintf("app-%d", i%classes)), None)
		if s.engine.classes.lastID == before {
			hits++
		}
		if c := s.engine.classes; c.bytes > c.max {
			s.Fatalf("%d bytes are held, the limit is %d", c.bytes, c.max)
		}
	}
	return hits
}

func TestClassesThatAreUsedInTurnAreHitEvenIfTheyDoNotAllFit(t *testing.T) {
	const fit = 100
	for inTurn, want := range map[int]int{fit: 100, fit + 5: 75, fit * 5 / 4: 70, fit * 2: 40} {
		s := newTightScene(t, fit)
		s.hits(inTurn, 10*inTurn)
		if got := s.hits(inTurn, 10*inTurn) * 100 / (10 * inTurn); got < want {
			t.Errorf("%d classes in turn, of which %d fit: %d %% are hits, want %d %% at least", inTurn, fit, got, want)
		}
	}
}

func TestPodsThatAreAllDifferentEvictNoOtherClasses(t *testing.T) {
	s := newTightScene(t, 20)
	usual := map[cache.ClassID]bool{}
	for i := range 20 {
		usual[s.expect(s.pod(fmt.Sprintf("usual-%d", i%10)), None).Class.ID] = true
	}
	for i := range 1000 {
		s.expect(s.pod(fmt.Sprintf("once-%d", i)), None)
	}
	for i := range 10 {
		if !usual[s.expect(s.pod(fmt.Sprintf("usual-%d", i)), None).Class.ID] {
			t.Fatal("a class that is used often was evicted for classes that are used once")
		}
	}
}

func TestTheLeastRecentlyUsedClassesAreEvictedFirst(t *testing.T) {
	s := newTightScene(t, 20)
	use := func(name string) cache.ClassID { return s.expect(s.pod(name), None).Class.ID }
	twice := func(name string) cache.ClassID {
		use(name)
		return use(name)
	}
	kept := twice("kept")
	gone := twice("gone")
	for i := range 100 {
		twice(fmt.Sprintf("another-%d", i))
		if use("kept") != kept {
			t.Fatal("a class that is used all the time was evicted")
		}
	}
	if use("gone") == gone {
		t.Error("a class that was not used for long is still there")
	}
}

func counted(t *testing.T, counter interface{ Write(*dto.Metric) error }) int {
	t.Helper()
	var m dto.Metric
	if err := counter.Write(&m); err != nil {
		t.Fatal(err)
	}
	return int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
}

func TestMetricsOfMemory(t *testing.T) {
	s := newTightScene(t, 20)
	results := func() [4]int {
		of := func(result string) int { return counted(t, metrics.ClassLookups.WithLabelValues(result)) }
		return [4]int{of(metrics.ClassHit), of(metrics.ClassNew), of(metrics.ClassEvicted),
			counted(t, metrics.FastPathEvictions)}
	}
	expect := func(what string, act func(), hit, fresh, evicted, evictions int) {
		t.Helper()
		before := results()
		act()
		after := results()
		for i := range after {
			after[i] -= before[i]
		}
		if want := [4]int{hit, fresh, evicted, evictions}; after != want {
			t.Errorf("%s: hits, new, evicted and evictions are %v, want %v", what, after, want)
		}
		if got := counted(t, metrics.FastPathMemory); got != s.engine.classes.bytes {
			t.Errorf("%s: the metric of memory is %d, want %d", what, got, s.engine.classes.bytes)
		}
	}
	// The scene has two classes, and room for 18 more.
	expect("new classes", func() { s.hits(20, 20) }, 2, 18, 0, 0)
	expect("known classes", func() { s.hits(20, 40) }, 40, 0, 0, 0)
	expect("one too many", func() { s.hits(21, 21) }, 20, 1, 0, 1)
	expect("one that was evicted", func() { s.expect(s.pod("app-0"), None) }, 0, 0, 1, 1)
	if got := counted(t, metrics.FastPathClasses); got != 20 {
		t.Errorf("the metric of classes is %d, want 20", got)
	}
	keys := counted(t, metrics.FastPathLabelKeys)
	asks := asking("another")
	asks.Name, asks.UID, asks.Spec.NodeName = "asks", "asks", "n1"
	if err := s.cache.AddPod(klog.FromContext(s.ctx), asks); err != nil {
		t.Fatal(err)
	}
	s.expect(s.pod("app-0"), None)
	if got := counted(t, metrics.FastPathLabelKeys); got != 2 {
		t.Errorf("the metric of label keys is %d, want 2 (before: %d)", got, keys)
	}
}

func TestThrashingIsLoggedOnceInAWhile(t *testing.T) {
	s := newTightScene(t, 20)
	var lines []string
	s.ctx = klog.NewContext(s.ctx, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	s.hits(20, 3000)
	if len(lines) > 0 {
		t.Errorf("logged although all classes fit: %q", lines)
	}
	s.hits(100, 5000)
	if len(lines) != 1 || !strings.Contains(lines[0], "--fast-path-memory-limit") {
		t.Errorf("logged while classes are evicted and come back: %q, want one line that names the flag", lines)
	}
}

func TestThrashingNeedsManyReturns(t *testing.T) {
	to := discarded()
	l := lookups{hits: to.hits, news: to.news, returns: to.returns}
	now := time.Now()
	turn := func(hits, returns int) bool {
		for range hits {
			l.hit()
		}
		for range returns {
			l.miss(true)
		}
		return l.thrashing(now)
	}
	for i, step := range []struct {
		hits, returns int
		later         time.Duration
		want          bool
	}{
		{0, 999, 0, false},   // too few to tell
		{19000, 1, 0, false}, // few of these 20,000
		{900, 101, 0, true},  //
		{900, 101, 0, false}, // has warned
		{900, 101, warnInterval, true},
		{900, 100, warnInterval, false},
	} {
		now = now.Add(step.later)
		if got := turn(step.hits, step.returns); got != step.want {
			t.Errorf("step %d: thrashing is %t", i, got)
		}
	}
}

func TestEvictedClassesAreForgotten(t *testing.T) {
	var e evicted
	for i := range uint64(5 * maxEvicted) {
		e.add(i)
		if n := len(e.young) + len(e.old); n > 2*maxEvicted {
			t.Fatalf("%d are remembered", n)
		}
	}
	last := uint64(5*maxEvicted - 1)
	if e.remove(0) || !e.remove(last) || e.remove(last) {
		t.Error("the first is remembered, the last is not, or it is twice")
	}
}
