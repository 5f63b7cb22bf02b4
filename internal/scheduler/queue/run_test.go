// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

func TestBackoffAfter(t *testing.T) {
	tests := []struct {
		initial, most time.Duration
		count         int
		want          time.Duration
	}{
		{time.Second, 10 * time.Second, 1, time.Second},
		{time.Second, 10 * time.Second, 2, 2 * time.Second},
		{time.Second, 10 * time.Second, 4, 8 * time.Second},
		{time.Second, 10 * time.Second, 5, 10 * time.Second},
		{time.Second, 10 * time.Second, 64, 10 * time.Second},
		{time.Second, 10 * time.Second, 1 << 30, 10 * time.Second},
		{time.Second, time.Second, 3, time.Second},
		{5 * time.Second, time.Second, 1, time.Second},
		{time.Second, 0, 1, 0},
		{0, 10 * time.Second, 7, 0},
	}
	for _, tt := range tests {
		p := newProfileRules("default", &ProfileSettings{InitialBackoff: tt.initial, MaxBackoff: tt.most}, nil)
		if got := p.backoffAfter(tt.count); got != tt.want {
			t.Errorf("failure %d with %v to %v: got %v, want %v", tt.count, tt.initial, tt.most, got, tt.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Run("a back-off lasts until its window is over", func(t *testing.T) {
		f := newFixture(t)
		f.clock.Step(700 * time.Millisecond)
		f.Add(logger, newPod("a"))
		pod := f.reject("A")
		f.event(nodeAdded)
		state, _ := f.Get(pod.UID)
		f.Expect(state.BackoffEnd).To(Equal(f.clock.Now().Truncate(time.Second).Add(time.Second)),
			"0.7 s + 1 s, rounded down")
		f.step(1200 * time.Millisecond) // 1.9 s
		f.Expect(f.place(pod)).To(Equal(Backoff))
		f.step(100 * time.Millisecond) // 2.0 s
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("pods of one window are popped in the order of the queue sort", func(t *testing.T) {
		f := newFixture(t)
		for i, pod := range []*corev1.Pod{newPod("low"), newPod("high", priority(1)), newPod("middle")} {
			f.Add(logger, pod)
			f.reject("A")
			f.clock.Step(time.Duration(i+1) * time.Millisecond)
		}
		f.clock.Step(time.Second)
		f.Add(logger, newPod("later", priority(9)))
		f.reject("A")
		f.event(nodeAdded)
		for _, name := range []string{"high", "low", "middle", "later"} {
			f.Expect(f.pop().Pod.Name).To(Equal(name))
		}
	})
	t.Run("each profile has its own back-off", func(t *testing.T) {
		f := newFixture(t)
		f.settings.Profiles["slow"] = profileOf(func(p *ProfileSettings) {
			p.InitialBackoff, p.MaxBackoff = time.Minute,
				time.Hour
		})
		f.settings.Profiles["none"] = profileOf(func(p *ProfileSettings) { p.MaxBackoff = 0 })
		f.Reconfigure(logger, f.settings, nil)
		ends := map[string]time.Duration{"default": time.Second, "slow": time.Minute}
		for name, end := range ends {
			f.Add(logger, newPod(name, scheduler(name)))
			pod := f.reject()
			state, _ := f.Get(pod.UID)
			f.Expect(state.BackoffEnd).To(Equal(f.clock.Now().Add(end)))
		}
		f.Add(logger, newPod("none", scheduler("none")))
		f.Expect(f.place(f.reject())).To(Equal(Active))
	})
	t.Run("consecutive errors increase the back-off, rejections in between do not count", func(t *testing.T) {
		f := newFixture(t, func(p *ProfileSettings) { p.MaxBackoff = time.Hour })
		f.Add(logger, newPod("a"))
		for _, tt := range []struct {
			rejectors []string
			want      time.Duration
		}{{nil, 1}, {nil, 2}, {[]string{"A"}, 1}, {[]string{"A"}, 2}, {nil, 1}, {[]string{"A"}, 4}} {
			pod := f.reject(tt.rejectors...)
			f.event(nodeAdded)
			state, _ := f.Get(pod.UID)
			f.Expect(state.BackoffEnd).To(Equal(f.clock.Now().Add(tt.want * time.Second)))
			f.step(time.Hour)
		}
	})
}

func TestFlush(t *testing.T) {
	t.Run("a pod that has been unschedulable for too long is retried, and marked", func(t *testing.T) {
		f := newFixture(t, func(p *ProfileSettings) { p.MaxInUnschedulable = time.Minute })
		f.settings.Profiles["default-time"] = profileOf()
		f.Reconfigure(logger, f.settings, nil)
		f.Add(logger, newPod("a"))
		a := f.reject("A")
		f.Add(logger, newPod("b", scheduler("default-time")))
		b := f.reject("A")
		f.clock.Step(time.Minute)
		f.flushNow()
		f.Expect(f.place(a)).To(Equal(Unschedulable))
		f.clock.Step(time.Millisecond)
		f.flushNow()
		f.Expect(f.place(a)).To(Equal(Active))
		f.Expect(f.place(b)).To(Equal(Unschedulable))
		f.Expect(f.pop().WasFlushedFromUnschedulable).To(BeTrue())
		f.clock.Step(DefaultMaxInUnschedulable)
		f.flushNow()
		f.Expect(f.place(b)).To(Equal(Active))
	})
	t.Run("another wait applies from the reload on, also to pods that are already unschedulable", func(t *testing.T) {
		f := newFixture(t, func(p *ProfileSettings) { p.MaxInUnschedulable = time.Hour })
		f.Add(logger, newPod("a"))
		a := f.reject("A")
		f.clock.Step(2 * time.Minute)
		f.flushNow()
		f.Expect(f.place(a)).To(Equal(Unschedulable))
		f.Reconfigure(logger, f.with(profileOf(func(p *ProfileSettings) { p.MaxInUnschedulable = time.Minute })), nil)
		f.Expect(f.place(a)).To(Equal(Active))
		a = f.reject("A")
		f.clock.Step(time.Minute + time.Millisecond)
		f.flushNow()
		f.Expect(f.place(a)).To(Equal(Active))
	})
	t.Run("a gated pod is checked again, too, once per period", func(t *testing.T) {
		shut := newDoor("G", refusal) // G waits for no event
		f := newFixture(t, preEnqueueOf(shut))
		pod := newPod("a")
		f.Add(logger, pod)
		f.clock.Step(DefaultMaxInUnschedulable + time.Second)
		f.flushNow()
		f.flushNow()
		f.Expect(shut.calls).To(Equal(2))
		f.Expect(f.place(pod)).To(Equal(Gated))
		f.clock.Step(DefaultMaxInUnschedulable)
		f.flushNow()
		f.Expect(shut.calls).To(Equal(2))
		shut.status = nil
		f.clock.Step(time.Second)
		f.flushNow()
		f.Expect(shut.calls).To(Equal(3))
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("the time that a pod was unschedulable counts when it is gated later", func(t *testing.T) {
		shut := newDoor("A", nil)
		f := newFixture(t, preEnqueueOf(shut))
		f.Add(logger, newPod("a"))
		pod := f.reject("A")
		f.clock.Step(4 * time.Minute)
		shut.status = refusal
		f.event(nodeAdded)
		shut.status = nil
		f.clock.Step(2 * time.Minute)
		f.flushNow()
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("a flushed pod that is still backing off continues to back off", func(t *testing.T) {
		f := newFixture(t, func(p *ProfileSettings) {
			p.MaxInUnschedulable, p.InitialBackoff = time.Millisecond,
				5*time.Second
		})
		f.Add(logger, newPod("a"))
		pod := f.reject("A")
		f.clock.Step(time.Second)
		f.flushNow()
		f.Expect(f.place(pod)).To(Equal(Backoff))
	})
}

func TestRun(t *testing.T) {
	run := func(f *fixture) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx)
		}()
		return func() {
			cancel()
			<-done
		}
	}
	// The queue has the bubble's clock, which stands still while any goroutine runs.
	inBubble := func(t *testing.T, test func(*fixture)) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.Queue.clock = clock.RealClock{}
			test(f)
		})
	}
	t.Run("pods are moved at the full second after their back-off, whenever Run was started", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			time.Sleep(300 * time.Millisecond)
			defer run(f)()
			f.Add(logger, newPod("a"))
			pod := f.reject() // ends at 1.3 s, so after the window from 1 s to 2 s
			time.Sleep(1699 * time.Millisecond)
			synctest.Wait()
			f.Expect(f.place(pod)).To(Equal(ErrorBackoff))
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			f.Expect(f.place(pod)).To(Equal(Active))
		})
	})
	t.Run("pods that have been unschedulable for too long are found within half a minute", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			defer run(f)()
			f.Add(logger, newPod("a"))
			pod := f.reject("A")
			time.Sleep(DefaultMaxInUnschedulable)
			synctest.Wait()
			f.Expect(f.place(pod)).To(Equal(Unschedulable))
			time.Sleep(31 * time.Second)
			synctest.Wait()
			f.Expect(f.place(pod)).To(Equal(Active))
		})
	})
	t.Run("Run ends with its context, aligned or not, and when the queue is closed", func(t *testing.T) {
		for _, started := range []time.Duration{0, 5 * time.Second} {
			inBubble(t, func(f *fixture) {
				stop := run(f)
				time.Sleep(started)
				stop()
			})
			inBubble(t, func(f *fixture) {
				stop := run(f)
				time.Sleep(started)
				f.Close()
				synctest.Wait()
				stop()
			})
		}
	})
}
