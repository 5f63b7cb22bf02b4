// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

const (
	// workers is the number of goroutines that write Events.
	workers = 16
	// busyInterval is the interval between calls of Busy while there are deferred Events.
	busyInterval = 20 * time.Millisecond
	// sweepInterval is the interval between searches for series that have ended.
	sweepInterval = time.Minute

	// maxTries bounds the attempts to write an Event while the API server does not answer, and
	// maxPause the time for which all Events wait after a failure. Both are client-go's.
	maxTries = 12
	maxPause = 10 * time.Second
	minPause = 250 * time.Millisecond
)

// Config holds the dependencies of a Writer.
type Config struct {
	// Sink takes the Events.
	Sink Sink
	// Busy reports whether pods are pending, which Events would slow down. One goroutine calls it
	// every few milliseconds while there are deferred Events. nil means that pods are never
	// pending.
	Busy func() bool
}

// Writer writes the Events of its recorders. Recorders may be used before Start.
//
// Between Start and Close it runs a few goroutines: the workers, reportIdle and sweep. FlushNow may
// be called from any goroutine.
type Writer struct {
	cfg     Config
	queue   *queue
	running sync.WaitGroup
	// cancel ends calls in progress. Set by Start.
	cancel context.CancelFunc
	// stopped is closed by Close.
	stopped chan struct{}
	// unregister removes the queue from the metric of pending Events. Set by Start.
	unregister func()
}

// New returns a Writer.
func New(cfg Config) *Writer {
	if cfg.Busy == nil {
		cfg.Busy = func() bool { return false }
	}
	return &Writer{cfg: cfg, queue: newQueue(), stopped: make(chan struct{})}
}

// Start starts the goroutines and returns immediately. ctx provides values such as the logger; its
// end stops nothing.
func (w *Writer) Start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.unregister = metrics.AddPendingEvents(w.queue.pending)
	for range workers {
		w.running.Go(func() { w.runWorker(ctx) })
	}
	w.running.Go(func() { wait.Until(w.reportIdle, busyInterval, w.stopped) })
	w.running.Go(func() { wait.Until(func() { w.queue.sweep(time.Now()) }, sweepInterval, w.stopped) })
}

// FlushNow lets deferred Events be written even while pods are pending: the process is about to
// end.
func (w *Writer) FlushNow() { w.queue.flushNow() }

// Close writes the remaining Events until ctx ends, and returns when all goroutines of the Writer
// have ended. Later Events are not recorded.
func (w *Writer) Close(ctx context.Context) {
	w.queue.close()
	close(w.stopped)
	stop := context.AfterFunc(ctx, func() {
		w.cancel()
		if left := w.queue.abandon(); left > 0 {
			klog.FromContext(ctx).Info("Events were not written in time", "events", left)
		}
	})
	defer stop()
	w.running.Wait()
	w.cancel()
	w.unregister()
}

// abandon drops all Events that are not written, and returns their number.
func (q *queue) abandon() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.urgent.Len() + q.deferred.Len() + q.inFlight
	q.urgent.Init()
	q.deferred.Init()
	metrics.EventsLost.WithLabelValues(metrics.EventLostStopped).Add(float64(left))
	q.ready.Broadcast()
	return left
}

// reportIdle waits for deferred Events, and then tells the queue whether the scheduler is idle.
func (w *Writer) reportIdle() {
	if w.queue.awaitDeferred() {
		w.queue.setIdle(!w.cfg.Busy())
	}
}

// runWorker writes one Event after the other until the queue is closed and empty.
func (w *Writer) runWorker(ctx context.Context) {
	for {
		t, ok := w.queue.take()
		if !ok {
			return
		}
		err := w.write(ctx, t)
		switch {
		case err == nil:
			w.queue.done(t, true)
		case ctx.Err() == nil && retriable(err) && t.tries+1 < maxTries:
			klog.FromContext(ctx).V(2).Info("Could not write an Event; retrying", "err", err, "regarding",
				klog.KRef(t.regarding.Namespace, t.regarding.Name), "reason", t.reason)
			w.queue.retry(t, pauseAfter(t.tries))
		default:
			w.giveUp(ctx, t, err)
			w.queue.done(t, false)
		}
	}
}

// giveUp logs and counts an Event that will not be written.
func (w *Writer) giveUp(ctx context.Context, t task, err error) {
	if ctx.Err() != nil {
		return // Close reports it
	}
	logger := klog.FromContext(ctx).WithValues("regarding", klog.KRef(t.regarding.Namespace, t.regarding.Name), "kind",
		t.regarding.Kind, "reason", t.reason, "note", t.note)
	if apierrors.IsAlreadyExists(err) {
		logger.V(5).Info("The Event exists already", "err", err)
		return
	}
	metrics.EventsLost.WithLabelValues(metrics.EventLostRefused).Inc()
	logger.Error(err, "Could not write an Event")
}

// write creates the Event, or updates its series if it was written before. As Events expire, it may
// have to be created again.
func (w *Writer) write(ctx context.Context, t task) error {
	if t.written > 0 {
		patch, err := seriesPatch(t.count, t.last)
		if err != nil {
			return err
		}
		if err := w.cfg.Sink.Patch(ctx, t.namespace(), t.name, patch); !apierrors.IsNotFound(err) {
			return err
		}
	}
	return w.cfg.Sink.Create(ctx, t.object(t.count, t.last))
}

// retriable reports whether the API server may accept the same Event later. It would refuse a
// refused Event again; the client handles overload by waiting.
func retriable(err error) bool {
	var refused *apierrors.StatusError
	var malformed *rest.RequestConstructionError
	return !errors.As(err, &refused) && !errors.As(err, &malformed)
}

// pauseAfter returns the pause of all writing after a failure.
func pauseAfter(tries int) time.Duration {
	return wait.Jitter(min(minPause<<tries, maxPause), 0.25)
}
