// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// binder is a Bind plugin that records the pods it binds, and treats each as the test specifies.
type binder struct {
	bind func(ctx context.Context, pod *corev1.Pod) *fwk.Status

	mu    sync.Mutex // guards the fields below
	begun []string
}

func (b *binder) Name() string { return "binder" }

func (b *binder) Bind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	b.mu.Lock()
	b.begun = append(b.begun, pod.Name)
	b.mu.Unlock()
	return b.bind(ctx, pod)
}

func (b *binder) pods() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.begun)
}

// on returns a cycle of a pod that the plugin binds.
func (b *binder) on(f *fixture, name string) *Cycle {
	f.t.Helper()
	c := f.assume(name)
	c.Framework = framework.New(framework.Config{
		ProfileName: schedulerName,
		Plugins:     &framework.Plugins{Bind: []fwk.BindPlugin{b}},
		WaitingPods: f.waiting,
	})
	return c
}

func expectBindCalls(t *testing.T, running, waiting float64) {
	t.Helper()
	gotRunning := testutil.ToFloat64(metrics.BindCalls.WithLabelValues(metrics.BindCallRunning))
	gotWaiting := testutil.ToFloat64(metrics.BindCalls.WithLabelValues(metrics.BindCallWaiting))
	if gotRunning != running || gotWaiting != waiting {
		t.Errorf("%v pods are being bound and %v wait, want %v and %v", gotRunning, gotWaiting, running, waiting)
	}
}

func TestLimitBoundsConcurrentBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, pods = 3, 20
		f := newFixture(t)
		f.Limit = NewLimit(limit)
		next := make(chan struct{})
		b := &binder{bind: func(_ context.Context, pod *corev1.Pod) *fwk.Status {
			<-next
			switch pod.Name {
			case "pod-4":
				panic("out of luck")
			case "pod-5":
				return broken
			}
			return nil
		}}
		var running sync.WaitGroup
		var want []string
		for i := range pods {
			c := b.on(f, fmt.Sprintf("pod-%d", i))
			want = append(want, c.Pod.Pod.Name)
			running.Go(func() { f.Run(f.ctx, c) })
			synctest.Wait() // the bindings start one after the other
		}
		for bound := range pods {
			synctest.Wait()
			if n := len(b.pods()); n != min(bound+limit, pods) {
				t.Fatalf("%d pods have been or are being bound when %d are done", n, bound)
			}
			expectBindCalls(t, float64(min(limit, pods-bound)), float64(max(pods-bound-limit, 0)))
			next <- struct{}{}
		}
		running.Wait()
		expectBindCalls(t, 0, 0)
		if got := b.pods(); !slices.Equal(got, want) {
			t.Errorf("they were bound in the order %v", got)
		}
	})
}

func TestPodsThatWaitForOtherReasonsDoNotCountTowardsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Limit = NewLimit(1)
		var running sync.WaitGroup
		release := make(chan struct{})
		f.first.preBind = func(context.Context) *fwk.Status {
			<-release
			return nil
		}
		b := &binder{bind: func(context.Context, *corev1.Pod) *fwk.Status { return nil }}
		gang := []*Cycle{b.on(f, "gang-0"), b.on(f, "gang-1")}
		for _, c := range gang {
			c.Framework.AddWaitingPod(c.Pod.Pod, map[string]time.Duration{"gang": time.Hour})
			running.Go(func() { f.Run(f.ctx, c) })
		}
		running.Go(func() { f.Run(f.ctx, f.cycle) }) // it hangs in PreBind
		synctest.Wait()
		expectBindCalls(t, 0, 0)

		f.Run(f.ctx, b.on(f, "other"))
		if got := b.pods(); !slices.Equal(got, []string{"other"}) {
			t.Errorf("bound: %v", got)
		}
		for _, c := range gang {
			f.waiting.Get(c.Pod.Pod.UID).Allow("gang")
		}
		close(release)
		running.Wait()
		if n := len(b.pods()); n != 3 {
			t.Errorf("%d pods were bound, want 3", n)
		}
	})
}

func TestQueuedBindingIsUndoneWhenTheProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Limit = NewLimit(1)
		next := make(chan struct{})
		b := &binder{bind: func(context.Context, *corev1.Pod) *fwk.Status {
			<-next
			return nil
		}}
		var running sync.WaitGroup
		slow := b.on(f, "slow")
		running.Go(func() { f.Run(f.ctx, slow) })
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(f.ctx)
		running.Go(func() { f.Run(ctx, b.on(f, "late")) })
		synctest.Wait()
		expectBindCalls(t, 1, 1)

		cancel(errors.New("the process ends"))
		synctest.Wait()
		expectBindCalls(t, 1, 0)
		if f.failure == nil || f.failure.Message() != "waiting to be bound: the process ends" {
			t.Errorf("it failed with %v", f.failure)
		}
		if got := b.pods(); !slices.Equal(got, []string{"slow"}) {
			t.Errorf("bound: %v", got)
		}
		close(next)
		running.Wait()
	})
}

func TestTheContextOfPluginsEndsWithTheBindingCycle(t *testing.T) {
	for name, status := range map[string]*fwk.Status{"that succeeds": nil, "that fails": broken} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var given context.Context
			b := &binder{bind: func(ctx context.Context, _ *corev1.Pod) *fwk.Status {
				given = ctx
				return status
			}}
			f.Run(f.ctx, b.on(f, "other"))
			if given.Err() == nil {
				t.Error("what a plugin began and bound to the context goes on for ever")
			}
		})
	}
}

func TestLoopPausesWhileFourTimesTheLimitOfPodsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Limit = NewLimit(2)
		next := make(chan struct{})
		b := &binder{bind: func(context.Context, *corev1.Pod) *fwk.Status {
			<-next
			return nil
		}}
		ctx, cancel := context.WithCancel(f.ctx)
		var running, loop sync.WaitGroup
		var decided atomic.Int32
		loop.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				f.Limit.AwaitRoom(ctx)
				if ctx.Err() != nil {
					return
				}
				decided.Add(1)
				c := b.on(f, fmt.Sprintf("pod-%d", i))
				running.Go(func() { f.Run(f.ctx, c) })
				<-time.After(time.Millisecond) // a decision takes time
			}
		})
		for bound := range 10 {
			<-time.After(time.Second)
			if n := int(decided.Load()); n != bound+10 {
				t.Fatalf("%d pods were decided when %d were bound; 2 may be and 8 may wait", n, bound)
			}
			expectBindCalls(t, 2, 8)
			next <- struct{}{}
		}
		cancel()
		loop.Wait()
		if n := len(b.pods()); n < 10 {
			t.Errorf("%d pods were begun with", n)
		}
		close(next)
		running.Wait()
		f.Limit.AwaitRoom(f.ctx) // returns, as no pod is being bound
	})
}

// TestALargeGroupDoesNotStopTheLoop has a group of many more pods than may wait, and a pod that
// comes later.
func TestALargeGroupDoesNotStopTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Limit = NewLimit(2)
		next := make(chan struct{})
		b := &binder{bind: func(context.Context, *corev1.Pod) *fwk.Status {
			<-next
			return nil
		}}
		const pods = 40
		barrier := NewBarrier(BarrierConfig{
			Needed: pods, Pods: pods, Exists: func(*corev1.Pod) bool { return true }, OnOpen: func() {},
			OnBreak: func(error) {},
		})
		var running sync.WaitGroup
		for i := range pods {
			c := b.on(f, fmt.Sprintf("member-%d", i))
			c.Barrier = barrier
			running.Go(func() { f.Run(f.ctx, c) })
		}
		synctest.Wait()
		expectBindCalls(t, 2, pods-2)

		f.Limit.AwaitRoom(f.ctx) // returns
		c := b.on(f, "later")
		running.Go(func() { f.Run(f.ctx, c) })
		for range 6 {
			synctest.Wait()
			next <- struct{}{}
		}
		synctest.Wait()
		if got := b.pods(); !slices.Contains(got, "later") {
			t.Errorf("these were bound first: %v", got)
		}
		close(next)
		running.Wait()
		expectBindCalls(t, 0, 0)
	})
}

func TestALimitIsCrowdedWhenMoreThanAQuarterIsTaken(t *testing.T) {
	l := NewLimit(8)
	for taken := 1; taken <= 8; taken++ {
		if _, err := l.enter(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if got, want := l.Crowded(), taken > 2; got != want {
			t.Errorf("with %d of 8 taken: crowded %v", taken, got)
		}
	}
	metrics.BindCalls.WithLabelValues(metrics.BindCallRunning).Set(0)
}
