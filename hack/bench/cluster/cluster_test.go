// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/test/workload"
)

func pending(name string) *corev1.Pod {
	pod := workload.Pods{Kind: workload.Basic}.Pod(0)
	pod.Name = name
	return pod
}

func onNode(name, node string) *corev1.Pod {
	pod := pending(name)
	pod.Spec.NodeName = node
	return pod
}

func refused(name string) *corev1.Pod {
	pod := pending(name)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable}}
	return pod
}

// counts returns the exported fields as Wait reads them.
func counts(t *testing.T, p *Pods) (known, fillers, bound, refused int) {
	t.Helper()
	err := p.Wait(t.Context(), func(p *Pods) bool {
		known, fillers, bound, refused = p.Known, p.Fillers, p.Bound, p.Refused
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return known, fillers, bound, refused
}

func TestPodsAreCountedOnceHoweverOftenTheyChange(t *testing.T) {
	p := newPods()
	p.observe(1, pending("a"))
	p.observe(1, pending("b"))
	p.observe(1, workload.Filler(0))
	p.observe(0, refused("a"))
	p.observe(0, refused("a"))
	p.observe(0, onNode("a", "n1"))
	p.observe(0, onNode("a", "n1"))
	if known, fillers, bound, refused := counts(t, p); known != 3 || fillers != 1 || bound != 1 || refused != 1 {
		t.Errorf("%d known, %d fillers, %d bound, %d refused", known, fillers, bound, refused)
	}
	seen := p.Seen()
	if a, b := seen["a"], seen["b"]; len(seen) != 2 || a.Node != "n1" || a.Bound.IsZero() || a.Refused.IsZero() ||
		a.Created.After(a.Bound) || !b.Bound.IsZero() {
		t.Errorf("seen %+v", seen)
	}
	if name := p.OneWaiting(); name != "b" {
		t.Errorf("%q waits", name)
	}
	p.gone(workload.Filler(0))
	p.gone(onNode("a", "n1"))
	if known, fillers, bound, _ := counts(t, p); known != 1 || fillers != 0 || bound != 1 {
		t.Errorf("%d known, %d fillers, %d bound after two have gone", known, fillers, bound)
	}
	p.Reset()
	if known, _, bound, refused := counts(t, p); known != 1 || bound != 0 || refused != 0 || len(p.Seen()) != 0 {
		t.Errorf("%d known, %d bound, %d refused after Reset", known, bound, refused)
	}
}

func TestWaitingPodsAreTakenInTheirOrderAndOnce(t *testing.T) {
	p := newPods()
	p.observe(1, pending("a"))
	p.observe(1, onNode("other", "n1")) // has a node already
	p.observe(1, pending("b"))
	for _, want := range []string{"a", "b"} {
		pod, err := p.Take(t.Context())
		if err != nil || pod.Name != want {
			t.Fatalf("took %v, %v; want %s", pod, err, want)
		}
	}
	taken := make(chan string)
	go func() {
		pod, err := p.Take(t.Context())
		if err != nil {
			t.Error(err)
		}
		taken <- pod.Name
	}()
	p.observe(1, pending("c"))
	if name := <-taken; name != "c" {
		t.Errorf("took %s", name)
	}
}

func TestBoundPodsAreKnownInTheirOrder(t *testing.T) {
	p := newPods()
	for _, name := range []string{"a", "b"} {
		p.observe(1, pending(name))
	}
	p.observe(0, onNode("b", "n1"))
	p.observe(0, onNode("a", "n1"))
	for i, want := range []string{"b", "a"} {
		if name, err := p.NthBound(t.Context(), i); err != nil || name != want {
			t.Errorf("bound as number %d: %s, %v", i, name, err)
		}
	}
}

func TestWaitingEndsWithTheContextAndItsCause(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Millisecond, func() { cancel(cause) })
	if _, err := newPods().Take(ctx); !errors.Is(err, cause) {
		t.Errorf("the error is %v", err)
	}
}

func TestEachEndsWithTheFirstError(t *testing.T) {
	failure := errors.New("no")
	var calls atomic.Int64
	err := Each(t.Context(), 10_000, func(ctx context.Context, _ int) error {
		switch n := calls.Add(1); {
		case n == 3:
			return failure
		case n > 3:
			<-ctx.Done() // otherwise fn might have been called for all the others by then
		}
		return nil
	})
	if !errors.Is(err, failure) || calls.Load() == 10_000 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
	calls.Store(0)
	if err := Each(t.Context(), 100, func(context.Context, int) error { calls.Add(1); return nil }); err != nil ||
		calls.Load() != 100 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Each(ended, 1, func(context.Context, int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("there is no /proc here")
	}
	var usage Usage
	var err error
	// The kernel counts in ticks of ten milliseconds. Asking takes time, too.
	for end := time.Now().Add(time.Minute); err == nil && usage.CPU == 0 && time.Now().Before(end); {
		usage, err = UsageOf(os.Getpid())
	}
	if err != nil || usage.PeakRSS < 1<<20 || usage.CPU <= 0 || usage.CPU > time.Hour {
		t.Errorf("%+v, %v", usage, err)
	}
}
