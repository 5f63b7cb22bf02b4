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
	// workers write Events, one each at a time.
	workers = 16
	// lookEvery is how often the scheduler is asked whether it is idle while Events wait for that.
	lookEvery = 20 * time.Millisecond
	// sweepEvery is how often series are looked through for those that have ended.
	sweepEvery = time.Minute

	// maxTries is how often an Event is tried while the API server does not answer, and maxPause
	// how long all Events wait after a failure, both as in client-go.
	maxTries = 12
	maxPause = 10 * time.Second
	minPause = 250 * time.Millisecond
)

// Config is what a Writer is made of.
type Config struct {
	// Sink takes the Events.
	Sink Sink
	// Busy says whether pods wait for what Events would take away from them. It is called every few
	// milliseconds while Events wait for it to be false, on one goroutine. nil means never.
	Busy func() bool
}

// Writer writes what its recorders are told. Recorders may be used before Start.
//
// It has a few goroutines of its own from Start until Close.
type Writer struct {
	cfg     Config
	backlog *backlog
	running sync.WaitGroup
	// cancel ends calls that are under way. Set by Start.
	cancel context.CancelFunc
	// stopped is closed by Close.
	stopped chan struct{}
	// uncount ends the counting of what waits.
	uncount func()
}

// New returns a Writer.
func New(cfg Config) *Writer {
	if cfg.Busy == nil {
		cfg.Busy = func() bool { return false }
	}
	return &Writer{cfg: cfg, backlog: newBacklog(), stopped: make(chan struct{})}
}

// Start begins to write. It returns at once; ctx is for values such as the logger, and does not end
// anything.
func (w *Writer) Start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.uncount = metrics.AddPendingEvents(w.backlog.waiting)
	for range workers {
		w.running.Go(func() { w.work(ctx) })
	}
	w.running.Go(w.watch)
	w.running.Go(w.sweep)
}

// Hurry has nothing wait for idle times any more: the process is about to end.
func (w *Writer) Hurry() { w.backlog.hurry() }

// Close writes what there is until ctx ends, and returns when nothing of the Writer is running any
// more. What recorders are told from now on is not written.
func (w *Writer) Close(ctx context.Context) {
	w.backlog.close()
	close(w.stopped)
	done := make(chan struct{})
	go func() {
		w.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		w.cancel()
		if left := w.backlog.abandon(); left > 0 {
			klog.FromContext(ctx).Info("Events were not written in time", "events", left)
		}
		<-done
	}
	w.cancel()
	w.uncount()
}

// abandon gives up what is not written, and returns how much that is.
func (b *backlog) abandon() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.first.len() + b.later.len() + b.writing
	b.first, b.later = lane{}, lane{}
	metrics.EventsLost.WithLabelValues(metrics.EventLostStopped).Add(float64(left))
	b.ready.Broadcast()
	return left
}

// watch asks whether the scheduler is idle, as long as there are Events for which that matters.
func (w *Writer) watch() {
	for w.backlog.awaitDeferred() {
		w.backlog.setIdle(!w.cfg.Busy())
		select {
		case <-time.After(lookEvery):
		case <-w.stopped:
		}
	}
}

func (w *Writer) sweep() {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			w.backlog.sweep(now)
		case <-w.stopped:
			return
		}
	}
}

// work writes one Event after the other.
func (w *Writer) work(ctx context.Context) {
	for {
		t, ok := w.backlog.take()
		if !ok {
			return
		}
		err := w.write(ctx, t)
		switch {
		case err == nil:
			w.backlog.done(t, true)
		case ctx.Err() == nil && retriable(err) && t.tries+1 < maxTries:
			klog.FromContext(ctx).V(2).Info("An Event could not be written; trying again", "err", err, "regarding", klog.KRef(t.regarding.Namespace, t.regarding.Name), "reason", t.reason)
			w.backlog.retry(t, pauseAfter(t.tries))
		default:
			w.giveUp(ctx, t, err)
			w.backlog.done(t, false)
		}
	}
}

// giveUp reports an Event that is not written.
func (w *Writer) giveUp(ctx context.Context, t task, err error) {
	if ctx.Err() != nil {
		return // told by Close
	}
	logger := klog.FromContext(ctx).WithValues("regarding", klog.KRef(t.regarding.Namespace, t.regarding.Name), "kind", t.regarding.Kind, "reason", t.reason, "note", t.note)
	if apierrors.IsAlreadyExists(err) {
		logger.V(5).Info("An Event is there already", "err", err)
		return
	}
	metrics.EventsLost.WithLabelValues(metrics.EventLostRefused).Inc()
	logger.Error(err, "An Event could not be written")
}

// write creates the Event, or updates the series of one that exists. Events expire, and so a series
// may have to be created again.
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

// retriable says whether the API server may take the same Event later. What it refuses it would
// refuse again; that it is overloaded, the client waits for.
func retriable(err error) bool {
	var refused *apierrors.StatusError
	var malformed *rest.RequestConstructionError
	return !errors.As(err, &refused) && !errors.As(err, &malformed)
}

// pauseAfter is how long nothing is written after a failure.
func pauseAfter(tries int) time.Duration {
	return wait.Jitter(min(minPause<<tries, maxPause), 0.25)
}
