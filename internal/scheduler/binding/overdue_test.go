// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

func TestABindingThatTakesTooLongFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		b := &binder{bind: func(ctx context.Context, _ *corev1.Pod) *fwk.Status {
			<-ctx.Done()
			return fwk.AsStatus(ctx.Err())
		}}
		began := time.Now()
		f.cycle = b.on(f, "slow") // the pod that the API server has
		f.Run(f.ctx, f.cycle)
		if took := time.Since(began); took != bindTimeout {
			t.Errorf("it took %v", took)
		}
		if f.failure == nil || !strings.HasPrefix(f.failure.Message(), "not bound within 1m0s: ") ||
			!f.failure.IsError() {
			t.Errorf("it failed with %v", f.failure)
		}
		if n := f.Cache.Size().Pods; n != 1 { // the fixture's own pod
			t.Errorf("%d pods are assumed", n)
		}
	})
}

func TestARejectionAtTheEndOfTheTimeIsARejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		b := &binder{bind: func(ctx context.Context, _ *corev1.Pod) *fwk.Status {
			<-ctx.Done()
			return fwk.NewStatus(fwk.Unschedulable, "no room")
		}}
		f.cycle = b.on(f, "slow") // the pod that the API server has
		f.Run(f.ctx, f.cycle)
		if !f.failure.IsRejected() {
			t.Errorf("it failed with %v", f.failure)
		}
	})
}

func TestABindingThatDoesNotReturnHoldsUpNoOtherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Limit = NewLimit(1)
		goOn := make(chan struct{})
		b := &binder{bind: func(_ context.Context, pod *corev1.Pod) *fwk.Status {
			if pod.Name == "hangs" {
				<-goOn
			}
			return nil
		}}
		var running sync.WaitGroup
		hangs, other := b.on(f, "hangs"), b.on(f, "other")
		running.Go(func() { f.Run(f.ctx, hangs) })
		synctest.Wait()
		began := time.Now()
		f.Run(f.ctx, other)
		if waited := time.Since(began); waited != overdueAfter {
			t.Errorf("the other pod waited %v", waited)
		}
		synctest.Wait()
		expectBindCalls(t, 0, 0)
		expectOverdue(t, 1)
		f.expectEvent("Warning FailedScheduling binding to node n1 has not ended after 1m5s: a Bind plugin or an " +
			"extender does not return")
		if n := f.Cache.Size().Pods; n != 3 { // the fixture's own pod, too
			t.Errorf("%d pods have room; the one that hangs may still become bound", n)
		}

		close(goOn)
		running.Wait()
		if f.failure != nil {
			t.Errorf("it returned at last, but failed: %v", f.failure)
		}
		expectBindCalls(t, 0, 0)
		expectOverdue(t, 0)
		f.Run(f.ctx, f.cycle) // the place is given back only once
		expectBindCalls(t, 0, 0)
	})
}

func expectOverdue(t *testing.T, want float64) {
	t.Helper()
	if got := testutil.ToFloat64(metrics.BindCalls.WithLabelValues(metrics.BindCallOverdue)); got != want {
		t.Errorf("%v calls are overdue, want %v", got, want)
	}
}
