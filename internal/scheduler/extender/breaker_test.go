// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/tools/events"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// fixture is one circuit, with a clock of its own.
type fixture struct {
	t        *testing.T
	now      time.Time
	recorder *events.FakeRecorder
	*circuit
}

func newFixture(t *testing.T) *fixture {
	recorder := events.NewFakeRecorder(10)
	f := &fixture{t: t, now: time.Now(), recorder: recorder,
		circuit: newCircuit(recorder, Policy{Name: t.Name()}, "https://a", "filter")}
	t.Cleanup(f.forget)
	return f
}

// call makes a call that takes some time, and reports whether it was admitted.
func (f *fixture) call(took time.Duration, v verdict) bool {
	admitted, probe := f.admit(f.now)
	if !admitted {
		return false
	}
	f.now = f.now.Add(took)
	f.conclude(f.now, took, probe, v)
	return true
}

func (f *fixture) expectEvent(part string) {
	f.t.Helper()
	select {
	case got := <-f.recorder.Events:
		if !strings.Contains(got, part) {
			f.t.Errorf("the Event is %q, without %q", got, part)
		}
	default:
		f.t.Errorf("no Event has %q", part)
	}
}

func (f *fixture) expectOpen(want float64) {
	f.t.Helper()
	if got := testutil.ToFloat64(metrics.ExtenderCircuitOpen.WithLabelValues(f.labels()...)); got != want {
		f.t.Errorf("livesched_extender_circuit_open is %v, want %v", got, want)
	}
}

func TestACircuitOpensAfterFailuresInARow(t *testing.T) {
	f := newFixture(t)
	f.expectOpen(0)
	for range maxFailures - 1 {
		f.call(time.Millisecond, broken)
	}
	f.call(time.Millisecond, works)
	for range maxFailures {
		if !f.call(time.Millisecond, broken) {
			t.Fatal("it is open early")
		}
	}
	f.expectOpen(1)
	f.expectEvent("Warning ExtenderUnavailable Extender \"https://a\", filter: is not called for now: its last calls " +
		"failed (5 in a row; failed calls took 9ms recently)")
	if f.call(time.Millisecond, works) {
		t.Error("it is closed")
	}
	f.now = f.now.Add(minPause)
	for range 2 {
		if !f.call(time.Millisecond, works) {
			t.Error("it stays open")
		}
	}
	f.expectOpen(0)
	f.expectEvent("Normal ExtenderAvailable")
	if got := testutil.ToFloat64(metrics.ExtenderFailures.WithLabelValues(f.labels()...)); got != 2*maxFailures-1 {
		t.Errorf("%v failures are counted", got)
	}
}

// Whatever the timeout, callers wait for the first calls only: probes are not theirs.
func TestCallersWaitOnlyUntilTheCircuitOpens(t *testing.T) {
	for _, timeout := range []time.Duration{time.Millisecond, 500 * time.Millisecond, 5 * time.Second,
		resolve.MaxHTTPTimeout} {
		f := newFixture(t)
		start, waited, probes := f.now, time.Duration(0), 0
		for f.now.Sub(start) < time.Hour {
			admitted, probe := f.admit(f.now)
			f.now = f.now.Add(max(timeout, 10*time.Millisecond))
			switch {
			case probe:
				probes++
				f.conclude(f.now, timeout, true, broken)
			case admitted:
				waited += timeout
				f.conclude(f.now, timeout, false, broken)
			}
		}
		if first := max(maxWasted+timeout, maxFailures*timeout); waited > first {
			t.Errorf("with a timeout of %v, callers waited for %v", timeout, waited)
		}
		if perMinute := float64(probes) / 60; perMinute < 0.7 || perMinute > 1.2 {
			t.Errorf("with a timeout of %v, there were %d probes in an hour", timeout, probes)
		}
	}
}

// An extender whose calls work from time to time, and one that answers probes only, hold up callers
// no longer than a fifth of the time, after the first two minutes.
func TestCallersWaitForAFlappingExtenderAFifthOfTheTime(t *testing.T) {
	for _, timeout := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second, 9 * time.Second,
		resolve.MaxHTTPTimeout} {
		for _, good := range []int{0, 1, 10} { // calls that work between those that fail
			for _, bad := range []int{1, maxFailures - 1} {
				f := newFixture(t)
				f.circuit.recorder = nil // the Events are not read
				const length = time.Hour
				waited := time.Duration(0)
				for start, calls := f.now, 0; f.now.Sub(start) < length; {
					f.now = f.now.Add(50 * time.Millisecond)
					admitted, probe := f.admit(f.now)
					switch {
					case !admitted:
						f.now = f.retry
					case probe:
						f.conclude(f.now, 0, true, works)
					case calls%(good+bad) < bad:
						waited += timeout
						f.now = f.now.Add(timeout)
						f.conclude(f.now, timeout, false, broken)
						calls++
					default:
						f.conclude(f.now, 0, false, works)
						calls++
					}
				}
				if limit := length/5 + 2*time.Minute; waited > limit {
					t.Errorf("with a timeout of %v, %d failures and %d successes in turn: callers waited for %v in "+
						"%v, more than %v", timeout, bad, good, waited, length, limit)
				}
			}
		}
	}
}

// A circuit that opened long ago is as one that never did.
func TestAnExtenderThatWorksIsForgiven(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		for f.call(5*time.Second, broken) {
		}
		f.now = f.retry
		f.call(0, works)
	}
	if f.pause != 4*minPause {
		t.Errorf("the third pause is %v", f.pause)
	}
	f.now = f.now.Add(wasteShare * maxRemembered)
	f.call(0, works)
	if f.call(5*time.Second, broken); f.open {
		t.Error("one failure opens it")
	}
	if f.call(5*time.Second, broken); !f.open || f.pause != minPause {
		t.Errorf("open: %v, for %v", f.open, f.pause)
	}
}

func TestOneCallAtATimeTriesAnOpenCircuit(t *testing.T) {
	f := newFixture(t)
	for range maxFailures {
		f.call(0, broken)
	}
	f.now = f.now.Add(minPause)
	admitted, probe := f.admit(f.now)
	if second, _ := f.admit(f.now); !admitted || !probe || second {
		t.Fatal("not one call passes")
	}
	f.conclude(f.now, time.Hour, false, broken) // one that began before changes nothing
	f.conclude(f.now, 0, false, unknown)
	if second, _ := f.admit(f.now); second {
		t.Fatal("a second call passes")
	}
	f.conclude(f.now, 0, true, unknown) // given up: the next call tries
	if !f.call(0, broken) || f.call(0, works) {
		t.Error("a try that fails does not begin another pause")
	}
}

func TestOnlyFaultsOfTheExtenderCount(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	spent, cancel := context.WithDeadlineCause(t.Context(), time.Now(), errBudget)
	defer cancel()
	<-spent.Done()
	for _, test := range []struct {
		name string
		ctx  context.Context
		err  error
		want verdict
	}{
		{"an answer", t.Context(), nil, works},
		{"an error that the extender reports", t.Context(), said("no"), works},
		{"an invalid answer", t.Context(), problem("invalid"), broken},
		{"no answer", t.Context(), errors.New("timeout"), broken},
		{"the end of the cycle or of the process", ended, context.Canceled, unknown},
		{"the end of the budget", spent, context.DeadlineExceeded, broken},
		{"a call that is not made, since another replica may lead", t.Context(), lease.ErrOver, unknown},
	} {
		if got := verdictOf(test.ctx, test.err); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestExtendersOfOneConfigurationShareTheirCircuits(t *testing.T) {
	before := testutil.CollectAndCount(metrics.ExtenderCircuitOpen)
	b := NewBreakers(nil)
	policy := Policy{Name: "q", UID: "u"}
	cfg := resolve.Extender{URLPrefix: "https://a", FilterVerb: "filter", Timeout: time.Second}
	other := cfg
	other.Timeout = 2 * time.Second
	made := func(cfg resolve.Extender, policy Policy) *Extender {
		e, err := New(&cfg, policy, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first, second, third, fourth := made(cfg, policy), made(cfg, policy), made(other, policy),
		made(cfg, Policy{Name: "r", UID: "v"})
	if first.circuits["filter"] != second.circuits["filter"] {
		t.Error("two instances of one extender have two circuits")
	}
	if first.circuits["filter"] == third.circuits["filter"] || first.circuits["filter"] == fourth.circuits["filter"] {
		t.Error("a change of the extender, or another policy, has the same circuit")
	}
	for _, e := range []*Extender{first, first, second, third, fourth} { // closing twice is closing once
		e.Close()
	}
	if len(b.all) != 0 {
		t.Errorf("%d are left", len(b.all))
	}
	if testutil.CollectAndCount(metrics.ExtenderCircuitOpen) != before {
		t.Error("metrics are left")
	}
}

func TestTheCallsOfACycleShareABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cycle := WithBudget(t.Context())
		time.Sleep(cycleBudget) //nolint:forbidigo // of the bubble: before the first call, nothing is spent
		first, cancel := withinBudget(cycle)
		defer cancel()
		time.Sleep(cycleBudget - time.Second) //nolint:forbidigo // of the bubble
		second, cancel := withinBudget(cycle)
		defer cancel()
		if first.Err() != nil || second.Err() != nil {
			t.Fatal("it is spent early")
		}
		time.Sleep(time.Second) //nolint:forbidigo // of the bubble
		synctest.Wait()
		if !errors.Is(context.Cause(first), errBudget) || !errors.Is(context.Cause(second), errBudget) {
			t.Errorf("the causes are %v and %v", context.Cause(first), context.Cause(second))
		}
		if third, cancel := withinBudget(t.Context()); third.Err() != nil {
			t.Error("a binding has a budget")
		} else {
			cancel()
		}
	})
}
