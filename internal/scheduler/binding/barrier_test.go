// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/objects"
)

func podNumber(i int) *corev1.Pod {
	return objects.Stored("", fmt.Sprint(i))
}

// crowd is the binding cycles of a group's pods at a barrier.
type crowd struct {
	t       *testing.T
	ctx     context.Context
	cancel  context.CancelCauseFunc
	barrier *Barrier
	deleted map[types.UID]bool // changes only while nobody is at the barrier
	arrived int

	passed, refused atomic.Int32
	opens, breaks   atomic.Int32 // how often the barrier opened and broke
	reason          atomic.Value // a string
}

func newCrowd(t *testing.T, needed, pods int, timeout time.Duration) *crowd {
	c := &crowd{t: t, deleted: map[types.UID]bool{}}
	c.ctx, c.cancel = context.WithCancelCause(t.Context())
	c.barrier = NewBarrier(BarrierConfig{
		Group: podgroup.Key{Namespace: "ml", Name: "train"}, Needed: needed, Pods: pods, Timeout: timeout,
		Exists: func(pod *corev1.Pod) bool { return !c.deleted[pod.UID] },
		OnOpen: func() {
			if c.passed.Load() > 0 {
				t.Error("pods have passed before the barrier opened")
			}
			c.opens.Add(1)
		},
		OnBreak: func(reason error) {
			if c.refused.Load() > 0 {
				t.Error("pods were refused before the barrier broke")
			}
			c.breaks.Add(1)
		},
	})
	return c
}

// arrive makes one more pod ready.
func (c *crowd) arrive() {
	c.arrived++
	pod := podNumber(c.arrived)
	go func() {
		if err := c.barrier.pass(c.ctx, pod); err != nil {
			c.reason.Store(err.Error())
			c.refused.Add(1)
			return
		}
		c.passed.Add(1)
	}()
	synctest.Wait()
}

func (c *crowd) expect(when string, passed, refused int32) {
	c.t.Helper()
	if p, r := c.passed.Load(), c.refused.Load(); p != passed || r != refused {
		c.t.Errorf("%s: %d have passed and %d were refused, want %d and %d", when, p, r, passed, refused)
	}
	if broken := refused > 0; broken != (c.breaks.Load() == 1) || c.breaks.Load() > 1 {
		c.t.Errorf("%s: the barrier broke %d times", when, c.breaks.Load())
	}
	if opened := c.opens.Load(); opened > 1 || (passed > 0) != (opened == 1) {
		c.t.Errorf("%s: the barrier opened %d times", when, opened)
	}
}

func (c *crowd) expectReason(want string) {
	c.t.Helper()
	if got, _ := c.reason.Load().(string); got != want {
		c.t.Errorf("the reason is %q, want %q", got, want)
	}
}

func TestTheBarrierOpensWhenEnoughPodsAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2, 4, 0)
		c.arrive()
		c.expect("one of two", 0, 0)
		c.barrier.drop(errors.New("no volume"))
		c.expect("another one will not come", 0, 0)
		c.arrive()
		c.expect("two of two", 2, 0)
		c.arrive()
		c.expect("a late one", 3, 0)
	})
}

func TestPodsThatJoinLaterCountLikeTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2, 2, 0)
		if !c.barrier.Join(1, func(error) { t.Error("the barrier broke") }) || c.barrier.Decided() {
			t.Error("the barrier is decided already")
		}
		c.arrive()
		c.barrier.drop(errors.New("no volume"))
		c.expect("one is dropped, another one has joined", 0, 0)
		c.arrive()
		c.expect("two are ready", 2, 0)
		if c.barrier.Join(1, func(error) {}) || !c.barrier.Decided() {
			t.Error("the barrier is not decided")
		}

		c = newCrowd(t, 2, 2, 0)
		broken := 0
		c.barrier.Join(1, func(error) { broken++ })
		c.arrive()
		c.barrier.drop(errors.New("no volume"))
		c.barrier.drop(errors.New("no device"))
		synctest.Wait()
		c.expect("two are dropped", 0, 1)
		if broken != 1 || c.barrier.Join(1, func(error) {}) {
			t.Errorf("those that joined heard of it %d times", broken)
		}
	})
}

func TestTheBarrierBreaksWhenTooFewPodsAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 3, 4, 0)
		c.arrive()
		c.arrive()
		c.barrier.drop(errors.New("no device"))
		c.expect("three are left", 0, 0)
		c.barrier.drop(errors.New("no volume"))
		synctest.Wait()
		c.expect("two are left", 0, 2)
		c.expectReason("pod group ml/train: another pod cannot be bound: no volume")
	})
}

func TestADeletedPodDoesNotOpenTheBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2, 3, 0)
		c.arrive()
		c.deleted["1"] = true
		c.arrive()
		c.expect("one of the two was deleted", 0, 0)
		c.arrive()
		c.expect("two others are ready", 3, 0) // the deleted one fails at Bind

		c = newCrowd(t, 2, 2, 0)
		c.arrive()
		c.deleted["1"] = true
		c.arrive()
		c.expect("nobody else comes", 0, 2)
		c.expectReason("pod group ml/train: another pod cannot be bound: it was deleted")
	})
}

func TestThePodsAtTheBarrierDoNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2, 2, time.Minute)
		c.arrive()
		<-time.After(59 * time.Second)
		synctest.Wait()
		c.expect("before the timeout", 0, 0)
		<-time.After(2 * time.Second)
		synctest.Wait()
		c.expect("after the timeout", 0, 1)
		c.expectReason("pod group ml/train: not enough of its pods were ready to be bound in time")
		c.arrive()
		c.expect("one that comes too late", 0, 2)

		c = newCrowd(t, 2, 2, 0)
		c.arrive()
		c.cancel(errors.New("the end"))
		synctest.Wait()
		c.expect("the process ends", 0, 1)
		c.expectReason("pod group ml/train: the end")
	})
}

func TestAPodThatIsCancelledLeavesTheBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			pods, arrive, more, passed, refused int
		}{
			"others may come":  {pods: 4, arrive: 2, more: 2, passed: 3},
			"too few are left": {pods: 3, arrive: 2, refused: 2},
		} {
			c := newCrowd(t, 3, test.pods, 0)
			ctx, cancel := context.WithCancelCause(t.Context())
			left := make(chan error, 1)
			go func() { left <- c.barrier.pass(ctx, podNumber(100)) }()
			for range test.arrive - 1 {
				c.arrive()
			}
			synctest.Wait()
			cancel(errors.New("preempted"))
			if err := <-left; err == nil || !strings.HasSuffix(err.Error(), "preempted") {
				t.Errorf("%s: the pod that is cancelled gets %v", name, err)
			}
			synctest.Wait()
			for range test.more {
				c.arrive()
			}
			c.expect(name, int32(test.passed), int32(max(0, test.refused-1)))
		}
	})
}

func TestNoBarrierLetsEveryPodPass(t *testing.T) {
	var none *Barrier
	none.drop(errors.New("no volume"))
	if err := none.pass(t.Context(), podNumber(1)); err != nil {
		t.Error(err)
	}
}
