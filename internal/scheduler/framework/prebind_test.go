// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestRunPreBindPreFlights(t *testing.T) {
	flight := func(parallel bool, s *fwk.Status) func() (*fwk.PreBindPreFlightResult, *fwk.Status) {
		return func() (*fwk.PreBindPreFlightResult, *fwk.Status) {
			return &fwk.PreBindPreFlightResult{AllowParallel: parallel}, s
		}
	}
	skip := fwk.NewStatus(fwk.Skip)
	for _, test := range []struct {
		name              string
		a, b              func() (*fwk.PreBindPreFlightResult, *fwk.Status)
		want              string
		skipped, parallel sets.Set[string]
	}{
		{"one has something to do", flight(true, skip), flight(true, nil), "Success", sets.New("a"),
			sets.New("a", "b")},
		{"none has", flight(false, skip), flight(false, skip), "Skip", sets.New("a", "b"), sets.New[string]()},
		{"an error ends it", flight(true, fwk.AsStatus(errors.New("broken"))), nil,
			`Error: running PreBindPreFlight "a": broken`, nil, nil},
		{"a rejection is an error", flight(false, unschedulable("no")), nil,
			`Error: running PreBindPreFlight plugin "a": it returned the status Unschedulable, it may return ` +
				`Success, Skip or Error`, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newTestFramework(&Plugins{PreBind: []fwk.PreBindPlugin{
				&preBind{named: "a", flight: test.a}, &preBind{named: "b", flight: test.b},
			}})
			state := newState()
			status := f.RunPreBindPreFlights(quiet(t), state, makePod("p"), "n1")
			expect(t, "status", describe(status), test.want)
			if diff := cmp.Diff(test.skipped, state.GetSkipPreBindPlugins()); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.parallel, state.GetParallelPreBindPlugins()); diff != "" {
				t.Errorf("parallel (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPreBindPluginsKnowThePod(t *testing.T) {
	pod := makePod("p")
	var got *corev1.Pod
	f := newTestFramework(&Plugins{PreBind: []fwk.PreBindPlugin{&preBind{named: "a",
		run: func(ctx context.Context) *fwk.Status {
			got = PodOf(ctx)
			return nil
		}}}})
	if status := f.RunPreBindPlugins(quiet(t), newState(), pod, "n1"); !status.IsSuccess() || got != pod {
		t.Errorf("%v: the pod of the context is %v", status, got)
	}
	if other := PodOf(t.Context()); other != nil {
		t.Errorf("another context has the pod %v", other)
	}
}

func TestPreBindGroups(t *testing.T) {
	for _, test := range []struct {
		name              string
		parallel, skipped []string
		want              [][]string
	}{
		{"one after the other by default", nil, nil, [][]string{{"a"}, {"b"}, {"c"}, {"d"}}},
		{"neighbours that allow it run together", []string{"b", "c"}, nil, [][]string{{"a"}, {"b", "c"}, {"d"}}},
		{"a skipped one is left out", []string{"a", "b", "c", "d"}, []string{"b"}, [][]string{{"a", "c", "d"}}},
		{"a skipped one that does not allow it still parts its neighbours",
			[]string{"a", "c", "d"}, []string{"b"}, [][]string{{"a"}, {"c", "d"}}},
		{"nothing is left", nil, []string{"a", "b", "c", "d"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newTestFramework(&Plugins{PreBind: []fwk.PreBindPlugin{
				&preBind{named: "a"}, &preBind{named: "b"}, &preBind{named: "c"}, &preBind{named: "d"},
			}})
			state := newState()
			state.SetParallelPreBindPlugins(sets.New(test.parallel...))
			state.SetSkipPreBindPlugins(sets.New(test.skipped...))
			var got [][]string
			for _, group := range f.preBindGroups(state) {
				var names []string
				for _, pl := range group {
					names = append(names, pl.Name())
				}
				got = append(got, names)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunPreBindPluginsInOrder(t *testing.T) {
	for _, test := range []struct {
		name  string
		b     *fwk.Status
		want  string
		calls []string
	}{
		{"all succeed", nil, "Success", []string{"a", "b", "c"}},
		{"a rejection ends it", unschedulable("no"), "Unschedulable[b]: no", []string{"a", "b"}},
		{"an error ends it", fwk.AsStatus(errors.New("broken")), `Error: running PreBind plugin "b": broken`,
			[]string{"a", "b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var calls []string
			plugin := func(name string, s *fwk.Status) *preBind {
				return &preBind{named: named(name), run: func(context.Context) *fwk.Status {
					calls = append(calls, name)
					return s
				}}
			}
			f := newTestFramework(
				&Plugins{PreBind: []fwk.PreBindPlugin{plugin("a", nil), plugin("b", test.b), plugin("c", nil)}})
			status := f.RunPreBindPlugins(quiet(t), newState(), makePod("p"), "n1")
			expect(t, "status", describe(status), test.want)
			if diff := cmp.Diff(test.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// Plugins sleep on synctest's clock, which takes no time.
func TestParallelPreBindPlugins(t *testing.T) {
	run := func(t *testing.T, ctx context.Context, a, b, c func(context.Context) *fwk.Status) *fwk.Status {
		f := newTestFramework(&Plugins{PreBind: []fwk.PreBindPlugin{
			&preBind{named: "a", run: a}, &preBind{named: "b", run: b}, &preBind{named: "c", run: c},
		}})
		state := newState()
		state.SetParallelPreBindPlugins(sets.New("a", "b"))
		return f.RunPreBindPlugins(ctx, state, makePod("p"), "n1")
	}
	takes := func(d time.Duration) func(context.Context) *fwk.Status {
		return func(context.Context) *fwk.Status { time.Sleep(d); return nil }
	}
	untilCancelled := func(ctx context.Context) *fwk.Status {
		<-ctx.Done()
		return fwk.AsStatus(ctx.Err())
	}

	t.Run("they run at the same time, the others wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			status := run(t, quiet(t), takes(time.Minute), takes(time.Minute), takes(time.Second))
			expect(t, "status", describe(status), "Success")
			expect(t, "time", time.Since(start), time.Minute+time.Second)
		})
	})
	t.Run("the first failure cancels the plugins of its group, and the others do not run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			refuse := func(context.Context) *fwk.Status { time.Sleep(time.Second); return unschedulable("no") }
			status := run(t, quiet(t), untilCancelled, refuse,
				func(context.Context) *fwk.Status { panic("not reached") })
			expect(t, "status", describe(status), "Unschedulable[b]: no")
		})
	})
	t.Run("a plugin that was canceled from outside returns the cause", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(quiet(t))
			time.AfterFunc(time.Second, func() { cancel(errors.New("preempted by q")) })
			status := run(t, ctx, takes(2*time.Second), untilCancelled, nil)
			expect(t, "status", describe(status), `Error: running PreBind plugin "b": preempted by q`)
		})
	})
	t.Run("a cancelled pod does not look prepared", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(quiet(t))
		cancel(errors.New("shutting down"))
		status := run(t, ctx, nil, nil, nil)
		expect(t, "status", describe(status), "Error: shutting down")
	})
}

func TestPodsInPreBind(t *testing.T) {
	t.Run("a pod that is preempted must not be bound", func(t *testing.T) {
		pods := NewPodsInPreBind()
		ctx, cancel := context.WithCancelCause(t.Context())
		pods.Add("p", cancel)
		pod := pods.Get("p")
		expect(t, "cancelled", pod.CancelPod("preempted by q"), true)
		expect(t, "cancelled again", pod.CancelPod("preempted by r"), true)
		expect(t, "cause", context.Cause(ctx).Error(), "preempted by q")
		expect(t, "prebound", pod.MarkPrebound(), false)
	})
	t.Run("a pod that is about to be bound cannot be preempted there", func(t *testing.T) {
		pods := NewPodsInPreBind()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		pods.Add("p", cancel)
		expect(t, "prebound", pods.Get("p").MarkPrebound(), true)
		expect(t, "cancelled", pods.Get("p").CancelPod("preempted"), false)
		expect(t, "context", ctx.Err(), nil)
	})
	t.Run("a pod that is gone is an untyped nil", func(t *testing.T) {
		pods := NewPodsInPreBind()
		pods.Add("p", nil)
		pods.Remove("p")
		if pod := pods.Get("p"); pod != nil {
			t.Errorf("got %v", pod)
		}
		expect(t, "pods", len(pods.pods), 0)
	})
	t.Run("either it is cancelled or it is bound", func(t *testing.T) {
		for range 200 {
			pods := NewPodsInPreBind()
			pods.Add("p", func(error) {})
			var cancelled, prebound bool
			var wg sync.WaitGroup
			wg.Go(func() { cancelled = pods.Get("p").CancelPod("preempted") })
			wg.Go(func() { prebound = pods.Get("p").MarkPrebound() })
			wg.Wait()
			if cancelled == prebound {
				t.Fatalf("cancelled is %v and prebound is %v", cancelled, prebound)
			}
		}
	})
}
