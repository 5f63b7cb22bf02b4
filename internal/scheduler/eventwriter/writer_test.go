// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

var (
	errNoAnswer = errors.New("no answer")
	errRefused  = apierrors.NewForbidden(groupResource, "", errors.New("because"))
)

// upstreamSink is a sink of client-go's broadcaster.
type upstreamSink struct{ created chan *eventsv1.Event }

func (s upstreamSink) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	s.created <- event
	return event, nil
}

func (s upstreamSink) Update(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, errors.ErrUnsupported
}

func (s upstreamSink) Patch(context.Context, *eventsv1.Event, []byte) (*eventsv1.Event, error) {
	return nil, errors.ErrUnsupported
}

func TestEventsMatchClientGo(t *testing.T) {
	upstream := upstreamSink{make(chan *eventsv1.Event, 1)}
	broadcaster := events.NewBroadcaster(upstream)
	ctx, cancel := context.WithCancel(t.Context())
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	// client-go's goroutines take a moment to end.
	defer broadcaster.Shutdown()
	defer cancel()
	theirs := broadcaster.NewRecorder(scheme.Scheme, "mine")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-n1"}}
	for name, say := range map[string]func(events.EventRecorder){
		"a pod that is bound": func(r events.EventRecorder) {
			r.Eventf(pod("a"), nil, corev1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %v/%v to %v",
				"ns", "a", "n1")
		},
		"a pod that is not": func(r events.EventRecorder) {
			r.Eventf(pod("a"), nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling",
				"0/1 nodes are available")
		},
		"a victim and its preemptor": func(r events.EventRecorder) {
			r.Eventf(pod("victim"), pod("a"), corev1.EventTypeNormal, "Preempted", "Preempting", "by pod %v", "a")
		},
		"an object without a namespace": func(r events.EventRecorder) {
			r.Eventf(node, nil, corev1.EventTypeNormal, "Seen", "Looking", "100%%")
		},
		"a related object that is none of the API": func(r events.EventRecorder) {
			r.Eventf(node, &metav1.Status{}, corev1.EventTypeNormal, "Seen", "Looking", "it")
		},
	} {
		t.Run(name, func(t *testing.T) {
			sink := newSink()
			w := New(Config{Sink: sink})
			w.Start(t.Context())
			say(w.NewRecorder("mine"))
			w.Close(t.Context())
			say(theirs)
			want := <-upstream.created
			if len(sink.events) != 1 {
				t.Fatalf("there are %d Events", len(sink.events))
			}
			for _, got := range sink.events {
				if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(metav1.MicroTime{}),
					cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Name")); diff != "" {
					t.Errorf("(-client-go +ours):\n%s", diff)
				}
				if got.EventTime.IsZero() || got.Name == "" {
					t.Errorf("name %q, time %v", got.Name, got.EventTime)
				}
			}
		})
	}

	t.Run("no Event is created for an object that client-go rejects", func(t *testing.T) {
		sink := newSink()
		w := New(Config{Sink: sink})
		w.Start(t.Context())
		r := w.NewRecorder("mine").WithLogger(klog.Logger{})
		r.Eventf(nil, nil, corev1.EventTypeNormal, "Seen", "Looking", "it")
		r.Eventf(node, nil, "Strange", "Seen", "Looking", "it")
		w.Close(t.Context())
		if calls := sink.made(); len(calls) > 0 {
			t.Errorf("calls %q", calls)
		}
	})
}

// Here and below sleeps are on synctest's clock, which takes no time.
func TestRepeatedEvents(t *testing.T) {
	t.Run("are one Event with a count, whatever version the pod has", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.fails("a", "too big")
			synctest.Wait()
			newer := pod("a")
			newer.ResourceVersion = "8"
			f.recorder.Eventf(newer, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "too big")
			time.Sleep(time.Second)
			f.expectCalls("create too big", "patch too big")
			f.expectCounts(map[string]int{"too big": 2})
			f.end()
		})
	})

	t.Run("during the write are written afterwards", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			answer := make(chan struct{})
			f.sink.failWith(func(string) error {
				<-answer
				return nil
			})
			f.fails("a", "too big")
			synctest.Wait()
			f.fails("a", "too big")
			f.fails("a", "too big")
			close(answer)
			time.Sleep(time.Second)
			f.expectCalls("create too big", "patch too big")
			f.expectCounts(map[string]int{"too big": 3})
			f.end()
		})
	})

	t.Run("with another note, about another pod or by another scheduler are another Event", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.fails("a", "too big")
			f.fails("a", "too small")
			f.fails("b", "too big")
			f.NewRecorder("yours").Eventf(pod("a"), nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling",
				"too big")
			f.end()
			f.expectCounts(map[string]int{"too big": 3, "too small": 1})
			if n := len(f.sink.events); n != 4 {
				t.Errorf("there are %d Events", n)
			}
		})
	})

	t.Run("before the write are written once, with their count", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.sink.failWith(func(string) error { return errNoAnswer })
			f.fails("first", "x")
			synctest.Wait() // from here on, all wait for the API server
			f.sink.failWith(nil)
			for range 3 {
				f.fails("a", "too big")
			}
			time.Sleep(time.Minute)
			f.expectCalls("create x", "create x", "create too big")
			f.expectCounts(map[string]int{"too big": 3, "x": 1})
			f.end()
		})
	})

	t.Run("that continue are written every six minutes, and when the process ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			for range 100 {
				f.fails("a", "too big")
				time.Sleep(10 * time.Second)
			}
			// In 1,000 seconds: immediately, the second time, and twice after six minutes.
			f.expectCalls("create too big", "patch too big", "patch too big", "patch too big")
			f.end()
			f.expectCounts(map[string]int{"too big": 100})
		})
	})

	t.Run("that stop are counted six minutes later, and start anew after that", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			for range 5 {
				f.fails("a", "too big")
				time.Sleep(time.Second)
			}
			f.expectCounts(map[string]int{"too big": 2})
			time.Sleep(seriesTimeout + sweepInterval)
			f.expectCounts(map[string]int{"too big": 5})
			if n := f.queue.series.order.Len() + len(f.queue.series.events); n != 0 {
				t.Errorf("%d series are remembered", n)
			}
			f.fails("a", "too big")
			f.end()
			f.expectCounts(map[string]int{"too big": 6})
			if n := len(f.sink.events); n != 2 {
				t.Errorf("there are %d Events", n)
			}
		})
	})

	t.Run("after their Event has expired are written as a new one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.fails("a", "too big")
			synctest.Wait()
			f.sink.mu.Lock()
			clear(f.sink.events)
			f.sink.mu.Unlock()
			f.fails("a", "too big")
			f.end()
			f.expectCalls("create too big", "patch nothing", "create too big")
			f.expectCounts(map[string]int{"too big": 2})
		})
	})
}

func TestDelayableEvents(t *testing.T) {
	t.Run("wait while pods wait to be scheduled, and others do not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.busy.Store(true)
			f.scheduled("a")
			f.scheduled("b")
			time.Sleep(time.Second)
			f.expectCalls()
			f.fails("c", "too big")
			f.recorder.Eventf(pod("d"), pod("c"), corev1.EventTypeNormal, "Preempted", "Preempting", "by c")
			synctest.Wait()
			f.expectCounts(map[string]int{"too big": 1, "by c": 1})
			f.busy.Store(false)
			time.Sleep(2 * busyInterval)
			f.expectCounts(map[string]int{"too big": 1, "by c": 1, "assigned a": 1, "assigned b": 1})
			f.end()
		})
	})

	t.Run("are written immediately when no pod waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			for _, name := range []string{"a", "b"} {
				f.scheduled(name)
				synctest.Wait()
			}
			time.Sleep(2 * busyInterval)
			f.expectCalls("create assigned a", "create assigned b")
			f.end()
		})
	})

	t.Run("wait for half a minute at most", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.busy.Store(true)
			f.scheduled("a")
			time.Sleep(maxDelay - busyInterval)
			f.scheduled("b")
			synctest.Wait()
			f.expectCalls()
			time.Sleep(2 * busyInterval)
			f.expectCalls("create assigned a")
			f.end()
		})
	})

	t.Run("wait so long behind continuous Events, too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.busy.Store(true)
			f.fails("a", "too big")
			synctest.Wait()
			f.fails("a", "too big")
			f.scheduled("b")
			for range int(maxDelay/time.Second) + 1 {
				f.fails("a", "too big")
				time.Sleep(time.Second)
			}
			synctest.Wait()
			// The last two expire at the same moment, and each has a worker.
			slices.Sort(f.sink.calls[1:])
			f.expectCalls("create too big", "create assigned b", "patch too big")
			f.end()
		})
	})

	t.Run("do not wait when the writer is half full", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.busy.Store(true)
			time.Sleep(busyInterval)
			for i := range highWater + 100 {
				f.scheduled(fmt.Sprint(i))
			}
			time.Sleep(time.Second)
			if n := f.queue.pending(); n != highWater-1 {
				t.Errorf("%d wait", n)
			}
			f.FlushNow()
			synctest.Wait()
			if n := len(f.sink.events); n != highWater+100 {
				t.Errorf("%d were written", n)
			}
			f.end()
		})
	})
}

func TestExcessEventsAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		lost := func() float64 { return testutil.ToFloat64(metrics.EventsLost.WithLabelValues(metrics.EventLostFull)) }
		before := lost()
		answer := make(chan struct{})
		f.sink.failWith(func(string) error {
			<-answer
			return nil
		})
		for i := range workers {
			f.fails(fmt.Sprint("held-", i), "held")
		}
		synctest.Wait() // every worker waits for the API server
		for i := range maxUrgent + 3 {
			f.fails(fmt.Sprint(i), "too big")
		}
		for i := range maxDeferred + 2 {
			f.scheduled(fmt.Sprint(i))
		}
		f.fails("0", "too big") // again: no Event of its own
		if got := lost() - before; got != 5 {
			t.Errorf("%v were lost", got)
		}
		if got := testutil.ToFloat64(metrics.PendingEvents); got != workers+maxUrgent+maxDeferred {
			t.Errorf("%v are pending", got)
		}
		if n := f.queue.series.order.Len(); n != maxSeries {
			t.Errorf("%d series are remembered", n)
		}
		close(answer)
		f.end()
		if n := f.sink.counts()["too big"]; n != maxUrgent+1 {
			t.Errorf("%d failures were told", n)
		}
		if n := len(f.sink.events); n != workers+maxUrgent+maxDeferred {
			t.Errorf("%d were written", n)
		}
		if got := testutil.ToFloat64(metrics.PendingEvents); got != 0 {
			t.Errorf("%v are pending", got)
		}
	})
}

func TestAnEventThatCannotBeWritten(t *testing.T) {
	lost := func() float64 {
		return testutil.ToFloat64(metrics.EventsLost.WithLabelValues(metrics.EventLostRefused))
	}

	t.Run("is retried while there is no response, before the others and less and less often", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.sink.failWith(func(string) error { return errNoAnswer })
			f.fails("a", "first")
			synctest.Wait()
			f.fails("b", "second")
			time.Sleep(20 * time.Second)
			if calls := f.sink.made(); len(calls) > 8 || slices.Contains(calls, "create second") {
				t.Errorf("calls %q", calls)
			}
			f.sink.failWith(nil)
			time.Sleep(2 * maxPause)
			f.expectCounts(map[string]int{"first": 1, "second": 1})
			f.end()
		})
	})

	t.Run("lets only one Event at a time be tried until the API server responds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			answer := make(chan error)
			f.sink.failWith(func(string) error { return <-answer })
			f.fails("a", "first")
			synctest.Wait()
			answer <- errNoAnswer
			synctest.Wait()
			for i := range 5 {
				f.fails("b", fmt.Sprint("note ", i))
			}
			time.Sleep(2 * minPause)
			f.expectCalls("create first", "create first")
			answer <- nil
			synctest.Wait()
			if n := len(f.sink.made()); n != 7 {
				t.Errorf("there were %d calls when one was answered", n)
			}
			close(answer)
			f.end()
		})
	})

	t.Run("for minutes is dropped, and the next is tried", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			before := lost()
			f.sink.failWith(func(call string) error {
				if call == "create bad" {
					return errNoAnswer
				}
				return nil
			})
			f.fails("a", "bad")
			time.Sleep(maxTries * 2 * maxPause)
			f.fails("b", "good")
			synctest.Wait()
			f.expectCounts(map[string]int{"good": 1})
			if n := len(f.sink.made()); n != maxTries+1 {
				t.Errorf("there were %d calls", n)
			}
			if got := lost() - before; got != 1 {
				t.Errorf("%v were lost", got)
			}
			f.end()
		})
	})

	t.Run("because it is rejected is not retried, unless it is repeated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			before := lost()
			f.sink.failWith(func(string) error { return errRefused })
			f.fails("a", "too big")
			time.Sleep(time.Minute)
			f.expectCalls("create too big")
			if got := lost() - before; got != 1 {
				t.Errorf("%v were lost", got)
			}
			f.sink.failWith(nil)
			f.fails("a", "too big")
			f.end()
			f.expectCounts(map[string]int{"too big": 1})
		})
	})
}

func TestClosing(t *testing.T) {
	t.Run("writes all earlier Events, and no later ones", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.busy.Store(true)
			for i := range 1000 {
				f.scheduled(fmt.Sprint(i))
			}
			f.fails("a", "too big")
			f.end()
			f.fails("a", "too big")
			f.fails("b", "too big")
			if n := len(f.sink.events); n != 1001 {
				t.Errorf("%d were written", n)
			}
		})
	})

	t.Run("ends with its context, and reports the lost Events", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			lost := func() float64 {
				return testutil.ToFloat64(metrics.EventsLost.WithLabelValues(metrics.EventLostStopped))
			}
			before := lost()
			f.sink.failWith(func(string) error { return errNoAnswer })
			for i := range 40 {
				f.scheduled(fmt.Sprint(i))
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			began := time.Now()
			f.Close(ctx)
			if took := time.Since(began); took != time.Second {
				t.Errorf("it took %v", took)
			}
			if got := lost() - before; got != 40 {
				t.Errorf("%v were lost", got)
			}
		})
	})
}

// TestNothingIsLost records Events from many goroutines, with an API server that fails now and
// then, and counts them.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				var mu sync.Mutex // guards the variables below
				dice := rand.New(rand.NewPCG(seed, 1))
				said := map[string]int{}
				f.sink.failWith(func(string) error {
					mu.Lock()
					roll := dice.IntN(20)
					mu.Unlock()
					time.Sleep(time.Duration(roll) * time.Millisecond)
					if roll == 0 {
						return errNoAnswer
					}
					return nil
				})
				var speakers sync.WaitGroup
				for speaker := range 8 {
					speakers.Go(func() {
						dice := rand.New(rand.NewPCG(seed, uint64(speaker+2)))
						for i := range 300 {
							note := fmt.Sprint("note ", dice.IntN(40))
							if dice.IntN(3) == 0 {
								name := fmt.Sprint(speaker, "-", i)
								f.scheduled(name)
								note = "assigned " + name
							} else {
								f.fails(fmt.Sprint("pod-", dice.IntN(3)), note)
							}
							mu.Lock()
							said[note]++
							mu.Unlock()
							f.busy.Store(dice.IntN(2) == 0)
							time.Sleep(time.Duration(dice.IntN(3000)) * time.Millisecond)
						}
					})
				}
				speakers.Wait()
				f.end()
				f.expectCounts(said)
			})
		})
	}
}
