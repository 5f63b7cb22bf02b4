// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

var (
	nothingToDo = fwk.NewStatus(fwk.Skip)
	broken      = fwk.AsStatus(errors.New("out of order"))
)

func TestAPodThatIsBound(t *testing.T) {
	t.Run("is released to the queue before PreBind, and stays assumed", func(t *testing.T) {
		f := newFixture(t)
		f.second.flight = nothingToDo
		f.Run(f.ctx, f.cycle)
		f.expectLog("first prepares, assumed", "first binds, assumed", "first has heard, assumed",
			"second has heard, assumed")
		f.expectEvent("Normal Scheduled Successfully assigned default/pod to n1")
		if f.PodsInPreBind.Get("pod") != nil {
			t.Error("the pod is left in PreBind")
		}
	})

	t.Run("wakes the pods that plugins asked for", func(t *testing.T) {
		f := newFixture(t)
		f.unschedulable("sibling")
		state, _ := f.Queue.Get("sibling")
		f.cycle.PodsToActivate.Map["default/sibling"] = state.Pod
		f.Run(f.ctx, f.cycle)
		f.expectPlace("sibling", queue.Active)
	})
}

func TestAPodWhoseBindingFails(t *testing.T) {
	t.Run("in Bind is unreserved in reverse order, forgotten, and requeued, in this order", func(t *testing.T) {
		f := newFixture(t)
		f.first.bind = broken
		f.Run(f.ctx, f.cycle)
		f.expectLog("first prepares, assumed", "second prepares, assumed", "first binds, assumed",
			"second unreserves, assumed", "first unreserves, assumed",
			`failed: running Bind plugin "first": out of order`)
		f.expectEvent("")
	})

	t.Run("because every Bind plugin skips it gets that error", func(t *testing.T) {
		f := newFixture(t)
		f.first.bind = nothingToDo
		f.Run(f.ctx, f.cycle)
		if f.failure == nil || f.failure.IsRejected() ||
			f.failure.Message() != "no Bind plugin of the profile took the pod" {
			t.Errorf("it failed with %v", f.failure)
		}
	})

	t.Run("in PreBind is not bound", func(t *testing.T) {
		f := newFixture(t)
		f.first.preBind = func(context.Context) *fwk.Status { return broken }
		f.Run(f.ctx, f.cycle)
		f.expectLog("first prepares, assumed",
			"second unreserves, assumed", "first unreserves, assumed",
			`failed: running PreBind plugin "first": out of order`)
		if f.PodsInPreBind.Get("pod") != nil {
			t.Error("the pod is left in PreBind")
		}
	})

	t.Run("wakes the pods that wait for room", func(t *testing.T) {
		f := newFixture(t)
		f.unschedulable("other")
		f.first.bind = broken
		f.Run(f.ctx, f.cycle)
		f.expectPlace("other", queue.Active)
	})

	t.Run("no longer counts for its group", func(t *testing.T) {
		f := newFixture(t)
		pod := f.cycle.Pod.Pod
		group := podgroup.Key{Namespace: pod.Namespace, Name: "train"}
		pod.Labels = map[string]string{podgroup.Label: group.Name}
		f.Groups = podgroup.NewRegistry()
		f.Groups.SetGroup(podgroup.Group{Key: group, MinMember: 2})
		f.Groups.SetAssumed(pod)
		if needed, _ := f.Groups.Needed(group); needed != 1 {
			t.Fatalf("%d more pods are needed before, instead of 1", needed)
		}
		f.first.bind = broken
		f.Run(f.ctx, f.cycle)
		if needed, _ := f.Groups.Needed(group); needed != 2 {
			t.Errorf("%d more pods are needed, instead of 2", needed)
		}
	})

	t.Run("because it was preempted in PreBind gets that error", func(t *testing.T) {
		f := newFixture(t)
		f.first.preBind = func(ctx context.Context) *fwk.Status {
			f.PodsInPreBind.Get("pod").CancelPod("preempted by a test")
			<-ctx.Done()
			return fwk.AsStatus(ctx.Err())
		}
		f.Run(f.ctx, f.cycle)
		if f.failure == nil || !f.failure.IsError() ||
			f.failure.Message() != `running PreBind plugin "first": preempted by a test` {
			t.Errorf("it failed with %v", f.failure)
		}
	})

	t.Run("because it was preempted in PreBind is not bound, though no plugin noticed", func(t *testing.T) {
		f := newFixture(t)
		f.second.preBind = func(context.Context) *fwk.Status {
			f.PodsInPreBind.Get("pod").CancelPod("preempted by a test")
			return nil
		}
		f.Run(f.ctx, f.cycle)
		f.expectLog("first prepares, assumed", "second prepares, assumed",
			"second unreserves, assumed", "first unreserves, assumed", "failed: preempted by a test")
	})

	t.Run("because it was preempted at the barrier of its group gets that error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.cycle.Barrier = NewBarrier(BarrierConfig{
				Needed: 2, Pods: 3, Exists: func(*corev1.Pod) bool { return true },
				OnBreak: func(error) { t.Error("the barrier breaks") },
			})
			go func() {
				synctest.Wait()
				f.PodsInPreBind.Get("pod").CancelPod("preempted by a test")
			}()
			f.Run(f.ctx, f.cycle)
			if f.failure == nil || !f.failure.IsError() || f.failure.Message() != "pod group /: preempted by a test" {
				t.Errorf("it failed with %v", f.failure)
			}
			if f.PodsInPreBind.Get("pod") != nil {
				t.Error("the pod is left in PreBind")
			}
		})
	})

	t.Run("before Permit does not stay among the waiting pods", func(t *testing.T) {
		f := newFixture(t)
		f.first.flight = broken
		f.cycle.Framework.AddWaitingPod(f.cycle.Pod.Pod, map[string]time.Duration{"gate": time.Hour})
		f.Run(f.ctx, f.cycle)
		f.expectLog("second unreserves, in flight, assumed", "first unreserves, in flight, assumed",
			`failed: running PreBindPreFlight "first": out of order, in flight`)
		if n := f.waiting.Len(); n != 0 {
			t.Errorf("%d pods still wait", n)
		}
	})

	t.Run("although the API server has bound it is requeued and wakes no pod: its room is taken", func(t *testing.T) {
		f := newFixture(t)
		f.unschedulable("other")
		f.first.bind = broken
		f.first.preBind = func(context.Context) *fwk.Status {
			if err := f.Cache.AddPod(logr.Discard(), f.cycle.Pod.Pod); err != nil {
				t.Error(err)
			}
			return nil
		}
		f.Run(f.ctx, f.cycle)
		f.expectPlace("other", queue.Unschedulable)
		if f.failure == nil || f.Cache.Size().Pods != 1 {
			t.Errorf("failure: %v, pods in the cache: %d", f.failure, f.Cache.Size().Pods)
		}
	})
}

func TestAPodWhoseBindingSeemsToFail(t *testing.T) {
	run := func(t *testing.T, live func(*corev1.Pod)) *fixture {
		f := newFixture(t)
		f.first.bind = broken
		f.live = f.cycle.Pod.Pod.DeepCopy()
		live(f.live)
		f.Run(f.ctx, f.cycle)
		return f
	}

	t.Run("but is on its node is bound: only the response was lost", func(t *testing.T) {
		f := run(t, func(*corev1.Pod) {})
		f.expectLog("first prepares, assumed", "second prepares, assumed", "first binds, assumed",
			"first has heard, assumed", "second has heard, assumed")
		f.expectEvent("Normal Scheduled Successfully assigned default/pod to n1")
	})

	for name, live := range map[string]func(*corev1.Pod){
		"and is on another node":          func(pod *corev1.Pod) { pod.Spec.NodeName = "n2" },
		"and is another pod of this name": func(pod *corev1.Pod) { pod.UID = "successor" },
		"and was made again, and waits":   func(pod *corev1.Pod) { pod.UID, pod.Spec.NodeName = "successor", "" },
	} {
		t.Run(name+" gives its room back, and nobody is told that it failed", func(t *testing.T) {
			f := run(t, live)
			if f.failure != nil || f.Cache.Size().Pods != 0 {
				t.Errorf("failure %v, %d pods in the cache", f.failure, f.Cache.Size().Pods)
			}
			f.expectEvent("")
		})
	}

	t.Run("and is gone frees its room, and no failure is reported", func(t *testing.T) {
		f := newFixture(t)
		f.unschedulable("other")
		f.first.bind = broken
		f.liveErr = apierrors.NewNotFound(corev1.Resource("pods"), "pod")
		f.Run(f.ctx, f.cycle)
		if f.failure != nil || f.Cache.Size().Pods != 0 {
			t.Errorf("failure %v, %d pods in the cache", f.failure, f.Cache.Size().Pods)
		}
		f.expectPlace("other", queue.Active)
	})

	for name, boundTo := range map[string]string{"and is bound": nodeName, "and is not bound": ""} {
		t.Run(name+" keeps its room until the API server can be reached again", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const outage = 10 * time.Minute
				f := newFixture(t)
				f.first.bind = broken
				start := time.Now()
				f.read = func() (*corev1.Pod, error) {
					if f.Cache.Size().Pods != 1 {
						t.Error("its room was given back before it was known whether it is bound")
					}
					if time.Since(start) < outage {
						return nil, errors.New("no route to host")
					}
					pod := f.cycle.Pod.Pod.DeepCopy()
					pod.Spec.NodeName = boundTo
					return pod, nil
				}
				f.Run(f.ctx, f.cycle)
				if late := time.Since(start) - outage; late > readBackoff.Cap {
					t.Errorf("it was read %v after the end of the outage", late)
				}
				if failed := f.failure != nil; failed != (boundTo == "") {
					t.Errorf("it failed with %v", f.failure)
				}
				if kept := f.Cache.Size().Pods == 1; kept != (boundTo != "") {
					t.Errorf("it has its room: %v", kept)
				}
			})
		})
	}

	t.Run("gives its room back when the process ends before the API server can be reached again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.first.bind = broken
			f.liveErr = errors.New("no route to host")
			ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
			defer cancel()
			f.Run(ctx, f.cycle)
			if f.failure == nil || f.failure.Message() != `running Bind plugin "first": out of order` {
				t.Errorf("it failed with %v", f.failure)
			}
		})
	})

	t.Run("and that the third read finds bound is bound", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.first.bind = broken
			asked := 0
			f.read = func() (*corev1.Pod, error) {
				if asked++; asked < 3 {
					return nil, errors.New("connection reset by peer")
				}
				return f.cycle.Pod.Pod, nil
			}
			f.Run(f.ctx, f.cycle)
			f.expectEvent("Normal Scheduled Successfully assigned default/pod to n1")
			if asked != 3 {
				t.Errorf("the API server was asked %d times", asked)
			}
		})
	})

	t.Run("is not read again without the permission to do so", func(t *testing.T) {
		f := newFixture(t)
		f.first.bind = broken
		f.liveErr = apierrors.NewForbidden(corev1.Resource("pods"), "pod", errors.New("no"))
		f.Run(f.ctx, f.cycle)
		if f.failure == nil {
			t.Error("it did not fail")
		}
	})
}

func TestAPodIsNotBoundByAReplicaThatHasLostTheLease(t *testing.T) {
	f := newFixture(t)
	f.Term = lease.NewTerm(time.Hour)
	f.Term.Renew(time.Now())
	f.Term.End()
	f.cycle.Extenders = func(context.Context) []fwk.Extender {
		return []fwk.Extender{&extenderBinder{f: f, name: "the extender", binds: true}}
	}
	f.Run(f.ctx, f.cycle)
	if f.failure == nil || !errors.Is(f.failure.AsError(), lease.ErrOver) {
		t.Errorf("it failed with %v", f.failure)
	}
	for _, line := range f.log {
		if strings.Contains(line, "binds") {
			t.Error(line)
		}
	}
}

func TestAPodThatIsRefusedOnPermit(t *testing.T) {
	refused := func(t *testing.T) *fixture {
		f := newFixture(t)
		f.cycle.Framework.AddWaitingPod(f.cycle.Pod.Pod, map[string]time.Duration{rejector: time.Hour})
		f.waiting.Get("pod").Reject(rejector, "not today")
		return f
	}

	t.Run("gets the message of an unschedulable pod, with the plugin's name", func(t *testing.T) {
		f := refused(t)
		f.Run(f.ctx, f.cycle)
		const message = "0/1 nodes are available: 1 not today."
		f.expectLog("second unreserves, in flight, assumed",
			"first unreserves, in flight, assumed", "failed: "+message+", in flight")
		var fitError *schedframework.FitError
		if !f.failure.IsRejected() || !errors.As(f.failure.AsError(), &fitError) ||
			!fitError.Diagnosis.UnschedulablePlugins.Has(rejector) {
			t.Errorf("it failed with %v", f.failure)
		}
	})

	t.Run("is not woken by freeing its own room, but others are", func(t *testing.T) {
		f := refused(t)
		f.unschedulable("other")
		f.Run(f.ctx, f.cycle)
		f.expectPlace("pod", queue.Unschedulable)
		f.expectPlace("other", queue.Active)
	})

	t.Run("is woken by a pod that frees its room while it is in flight", func(t *testing.T) {
		f := refused(t)
		f.Queue.Move(logr.Discard(), schedframework.EventAssignedPodDelete, &corev1.Pod{}, nil, nil)
		f.Run(f.ctx, f.cycle)
		f.expectPlace("pod", queue.Active)
	})

	t.Run("by the end of the process fails with an error and is not unschedulable", func(t *testing.T) {
		f := newFixture(t)
		f.cycle.Framework.AddWaitingPod(f.cycle.Pod.Pod, map[string]time.Duration{rejector: time.Hour})
		ctx, cancel := context.WithCancelCause(f.ctx)
		cancel(errors.New("the process ends"))
		f.Run(ctx, f.cycle)
		if f.failure == nil || f.failure.IsRejected() ||
			f.failure.Message() != "waiting on permit for pod: the process ends" {
			t.Errorf("it failed with %v", f.failure)
		}
	})
}
