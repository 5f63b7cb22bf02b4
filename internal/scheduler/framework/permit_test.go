// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestRunPermitPlugins(t *testing.T) {
	type answer struct {
		status  *fwk.Status
		timeout time.Duration
	}
	wait := fwk.NewStatus(fwk.Wait, "for the others")
	const waiting = "one or more plugins asked to wait and no plugin rejected pod"
	for _, test := range []struct {
		name string
		a, b answer
		want string
		wait map[string]time.Duration
	}{
		{name: "all allow", want: "Success"},
		{name: "one waits", b: answer{wait, time.Minute}, want: "Wait: for the others, " + waiting,
			wait: map[string]time.Duration{"b": time.Minute}},
		{name: "both wait, no longer than 15 minutes each", a: answer{wait, time.Hour}, b: answer{wait, time.Second},
			want: "Wait: for the others, " + waiting,
			wait: map[string]time.Duration{"a": 15 * time.Minute, "b": time.Second}},
		{name: "a rejection counts more than a wait", a: answer{wait, time.Minute}, b: answer{unschedulable("no"), 0},
			want: "Unschedulable[b]: no"},
		{name: "an error counts more than a wait", a: answer{wait, time.Minute},
			b:    answer{fwk.AsStatus(errors.New("broken")), 0},
			want: `Error[b]: running Permit plugin "b": broken`},
	} {
		t.Run(test.name, func(t *testing.T) {
			plugin := func(name string, a answer) *permit {
				return &permit{named: named(name),
					run: func() (*fwk.Status, time.Duration) { return a.status, a.timeout }}
			}
			f := newTestFramework(&Plugins{Permit: []fwk.PermitPlugin{plugin("a", test.a), plugin("b", test.b)}})
			waitTimes, status := f.RunPermitPlugins(quiet(t), newState(), makePod("p"), "n1")
			expect(t, "status", describe(status), test.want)
			if diff := cmp.Diff(test.wait, waitTimes); diff != "" {
				t.Errorf("wait times (-want +got):\n%s", diff)
			}
			expect(t, "waiting pods", f.cfg.WaitingPods.Len(), 0)
		})
	}
	expect(t, "the plugin's own status", describe(wait), "Wait: for the others")
}

func TestWaitOnPermit(t *testing.T) {
	pod := makePod("p")
	for _, test := range []struct {
		name  string
		after func(f *Framework, pod fwk.WaitingPod) // runs one second into the wait
		want  string
		took  time.Duration
	}{
		{
			name: "allowed once all plugins have allowed it",
			after: func(_ *Framework, pod fwk.WaitingPod) {
				pod.Allow("a")
				pod.Allow("another plugin")
				time.AfterFunc(time.Second, func() { pod.Allow("b") })
			},
			want: "Success", took: 2 * time.Second,
		}, {
			name: "rejected by a plugin",
			after: func(_ *Framework, pod fwk.WaitingPod) {
				pod.Allow("a")
				pod.Reject("b", "the group is gone")
				pod.Allow("b")
			},
			want: "Unschedulable[b]: the group is gone", took: time.Second,
		}, {
			name:  "rejected by its UID",
			after: func(f *Framework, _ fwk.WaitingPod) { f.RejectWaitingPod("p") },
			want:  "Unschedulable: removed", took: time.Second,
		}, {
			name:  "preempted, which is no rejection",
			after: func(_ *Framework, pod fwk.WaitingPod) { pod.Preempt("DefaultPreemption", "preempted by q") },
			want:  "Error[DefaultPreemption]: waiting on permit for pod: preempted by q", took: time.Second,
		}, {
			name:  "rejected for the plugin whose timeout expires first",
			after: func(*Framework, fwk.WaitingPod) {},
			want:  "Unschedulable[b]: rejected due to timeout after waiting 1m0s at plugin b", took: time.Minute,
		}, {
			name:  "the timeout of a plugin that has allowed it does not matter",
			after: func(_ *Framework, pod fwk.WaitingPod) { pod.Allow("b") },
			want:  "Unschedulable[a]: rejected due to timeout after waiting 5m0s at plugin a", took: 5 * time.Minute,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newTestFramework(&Plugins{})
				start := time.Now()
				f.AddWaitingPod(pod, map[string]time.Duration{"a": 5 * time.Minute, "b": time.Minute})
				expect(t, "will wait", f.WillWaitOnPermit(t.Context(), pod), true)
				time.AfterFunc(time.Second, func() { test.after(f, f.cfg.WaitingPods.Get("p")) })
				status := f.WaitOnPermit(quiet(t), pod)
				expect(t, "status", describe(status), test.want)
				expect(t, "time", time.Since(start), test.took)
				expect(t, "waiting pods", f.cfg.WaitingPods.Len(), 0)
				expect(t, "will wait", f.WillWaitOnPermit(t.Context(), pod), false)
			})
		})
	}
	t.Run("a pod that does not wait continues immediately", func(t *testing.T) {
		f := newTestFramework(&Plugins{})
		expect(t, "status", describe(f.WaitOnPermit(quiet(t), pod)), "Success")
		expect(t, "rejected", f.RejectWaitingPod("p"), false)
		if wp := f.cfg.WaitingPods.Get("p"); wp != nil {
			t.Errorf("got a waiting pod %v", wp)
		}
	})
	t.Run("the end of the context ends the wait and its timers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newTestFramework(&Plugins{})
			f.AddWaitingPod(pod, map[string]time.Duration{"a": time.Minute})
			waiting := f.cfg.WaitingPods.Get("p")
			ctx, cancel := context.WithCancelCause(quiet(t))
			time.AfterFunc(time.Second, func() { cancel(errors.New("shutting down")) })
			status := f.WaitOnPermit(ctx, pod)
			expect(t, "status", describe(status), "Error: waiting on permit for pod: shutting down")
			expect(t, "rejected afterwards", waiting.Reject("a", "late"), false)
			expect(t, "waiting pods", f.cfg.WaitingPods.Len(), 0)
		})
	})
	t.Run("once the process stops no pod waits, whether the wait began before or after", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newTestFramework(&Plugins{})
			start := time.Now()
			f.AddWaitingPod(pod, map[string]time.Duration{"a": time.Minute})
			waiting := f.cfg.WaitingPods.Get("p")
			time.AfterFunc(time.Second, f.cfg.WaitingPods.Stop)
			status := f.WaitOnPermit(quiet(t), pod)
			expect(t, "status", describe(status), "Error: waiting on permit for pod: the scheduler is stopping")
			expect(t, "it can be told from others", errors.Is(status.AsError(), ErrStopping), true)
			expect(t, "rejected afterwards", waiting.Reject("a", "late"), false)

			f.AddWaitingPod(makePod("late"), map[string]time.Duration{"a": time.Minute})
			expect(t, "status", describe(f.WaitOnPermit(quiet(t), makePod("late"))),
				"Error: waiting on permit for pod: the scheduler is stopping")
			expect(t, "time", time.Since(start), time.Second)
			expect(t, "waiting pods", f.cfg.WaitingPods.Len(), 0)
		})
	})
	t.Run("a decision before the wait begins counts", func(t *testing.T) {
		f := newTestFramework(&Plugins{})
		f.AddWaitingPod(pod, map[string]time.Duration{"a": time.Minute})
		expect(t, "rejected", f.cfg.WaitingPods.Get("p").Reject("a", "no"), true)
		expect(t, "preempted too", f.cfg.WaitingPods.Get("p").Preempt("b", "no"), false)
		expect(t, "status", describe(f.WaitOnPermit(quiet(t), pod)), "Unschedulable[a]: no")
	})
}

func TestWaitingPodsAreSharedByFrameworks(t *testing.T) {
	pods := NewWaitingPods()
	old := New(Config{Plugins: &Plugins{}, WaitingPods: pods})
	replacement := New(Config{Plugins: &Plugins{}, WaitingPods: pods})
	old.AddWaitingPod(makePod("p"), map[string]time.Duration{"b": time.Minute, "a": time.Minute})
	old.AddWaitingPod(makePod("q"), map[string]time.Duration{"a": time.Minute})

	seen := map[string][]string{}
	replacement.cfg.WaitingPods.Iterate(func(pod fwk.WaitingPod) {
		seen[pod.GetPod().Name] = pod.GetPendingPlugins()
		// The callback may use the collection.
		if replacement.cfg.WaitingPods.Get(pod.GetPod().UID) != pod {
			t.Errorf("%s is another pod by UID", pod.GetPod().Name)
		}
		pod.Allow("a")
	})
	if diff := cmp.Diff(map[string][]string{"p": {"a", "b"}, "q": {"a"}}, seen); diff != "" {
		t.Errorf("pending plugins (-want +got):\n%s", diff)
	}
	replacement.cfg.WaitingPods.Get("p").Allow("b")
	expect(t, "p", describe(old.WaitOnPermit(quiet(t), makePod("p"))), "Success")
	expect(t, "q", describe(old.WaitOnPermit(quiet(t), makePod("q"))), "Success")
}
