// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package latest writes the latest value of each key in the background, so that the caller does not
// wait for the API server:
//
//	Set --> pending, by key --> workers --> Target.Write
//	           ^                                |
//	           +------ again, after a while ----+
package latest

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"
)

// maxRecent bounds the keys whose last written value is remembered.
const maxRecent = 4096

// Target is where a Writer writes its values.
type Target[K comparable, V any] interface {
	// Merge returns the value to write if next was set before earlier was written. The Writer's
	// lock is held.
	Merge(earlier, next V) V
	// Write writes a value. last is what the last Write of the key returned as written, except nil,
	// or the zero value if that is not known. There is one call for a key at a time.
	Write(ctx context.Context, key K, value, last V) (written *V, err error)
}

// Config configures a Writer.
type Config struct {
	// What names the values in the log.
	What string
	// Workers is the number of values that are written at the same time.
	Workers int
	// Attempts is how often a value is written at most. One that the API server refuses for good is
	// written once. The waits between attempts double from FirstRetry to LastRetry.
	Attempts              int
	FirstRetry, LastRetry time.Duration
	// Recent is how long a written value is remembered. By then, informers should have it. Zero:
	// as long as there is room.
	Recent time.Duration
}

// Writer writes values in its own goroutines. A value replaces an earlier one of the same key that
// has not been written yet, or is merged with it. The values of one key are written in order.
//
// Its methods may be called from any goroutine.
type Writer[K comparable, V any] struct {
	cfg     Config
	target  Target[K, V]
	running sync.WaitGroup
	cancel  context.CancelFunc // ends calls in progress; set by Start
	// recent holds a *written by key, which informers may not have seen. It has its own lock. Its
	// values do not change.
	recent *lru.Cache

	mu sync.Mutex // guards the fields below, but not the use of queue
	// queue holds the keys with a pending value, and gives one key to one worker at a time. It is
	// nil before Start.
	queue   workqueue.TypedRateLimitingInterface[K]
	pending map[K]V
	writing map[K]*write[V]
	closed  bool
}

// write is a write in progress.
type write[V any] struct {
	value V
	ended chan struct{}
	// settled is true if it must not be repeated.
	settled bool
}

// written is what was written last.
type written[V any] struct {
	value V
	at    time.Time
}

// New returns a Writer that writes nothing until Start.
func New[K comparable, V any](cfg Config, target Target[K, V]) *Writer[K, V] {
	return &Writer[K, V]{cfg: cfg, target: target, recent: lru.New(maxRecent), pending: map[K]V{},
		writing: map[K]*write[V]{}}
}

// Start begins to write. It returns immediately. ctx provides values such as the logger; its end
// stops nothing.
func (w *Writer[K, V]) Start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](w.cfg.FirstRetry, w.cfg.LastRetry))
	for key := range w.pending {
		w.queue.Add(key)
	}
	for range w.cfg.Workers {
		w.running.Go(func() { w.work(ctx, w.queue) })
	}
}

// Close writes the pending values until ctx ends, except those that wait for another attempt. It
// returns when all goroutines of the Writer have ended.
func (w *Writer[K, V]) Close(ctx context.Context) {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.queue.ShutDown()
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		klog.FromContext(ctx).Info("Not everything was written in time", "what", w.cfg.What, "left",
			len(w.pending)+len(w.writing))
		w.cancel() // the workers skip the pending values
	})
	defer stop()
	w.running.Wait()
	w.cancel()
}

// Set lets a value be written. It never waits, however slow the API server is: the number of keys
// bounds what is pending. After Close it does nothing.
func (w *Writer[K, V]) Set(key K, value V) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if earlier, ok := w.pending[key]; ok {
		value = w.target.Merge(earlier, value)
	}
	w.pending[key] = value
	if w.queue != nil {
		w.queue.Add(key)
	}
}

// Last returns what a key got last, merged with what it is about to get. It is the zero value if
// there is neither, or the key was written long ago.
func (w *Writer[K, V]) Last(key K) (value V) {
	w.mu.Lock()
	defer w.mu.Unlock()
	value = w.lastWritten(key)
	if current := w.writing[key]; current != nil {
		value = w.target.Merge(value, current.value)
	}
	if next, ok := w.pending[key]; ok {
		value = w.target.Merge(value, next)
	}
	return value
}

// lastWritten returns what was written last, the zero value if that is not remembered.
func (w *Writer[K, V]) lastWritten(key K) (value V) {
	known, ok := w.recent.Get(key)
	if !ok {
		return value
	}
	last := known.(*written[V])
	if w.cfg.Recent > 0 && time.Since(last.at) > w.cfg.Recent {
		return value
	}
	return last.value
}

// Settle drops the pending value of a key, and waits for the one that is being written, until ctx
// ends.
func (w *Writer[K, V]) Settle(ctx context.Context, key K) {
	if current := w.drop(key); current != nil {
		select {
		case <-current.ended:
		case <-ctx.Done():
		}
	}
}

// drop drops the pending value of a key, and returns the write in progress, nil if there is none.
func (w *Writer[K, V]) drop(key K) *write[V] {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, key)
	current := w.writing[key]
	if current != nil {
		current.settled = true
	}
	return current
}

// work writes one value after the other, until the Writer is closed and all are written.
func (w *Writer[K, V]) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[K]) {
	for {
		key, closed := queue.Get()
		if closed {
			return
		}
		if value, pending := w.begin(key); pending {
			w.end(key, value, ctx.Err() == nil && w.write(ctx, key, value))
		}
		queue.Done(key)
	}
}

// begin takes the pending value of a key, unless Settle has dropped it.
func (w *Writer[K, V]) begin(key K) (value V, pending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if value, pending = w.pending[key]; pending {
		delete(w.pending, key)
		w.writing[key] = &write[V]{value: value, ended: make(chan struct{})}
	}
	return value, pending
}

// write writes a value, and reports whether that has to be repeated.
func (w *Writer[K, V]) write(ctx context.Context, key K, value V) (again bool) {
	stored, err := w.target.Write(ctx, key, value, w.lastWritten(key))
	if stored != nil {
		w.recent.Add(key, &written[V]{*stored, time.Now()})
	}
	if err == nil || ctx.Err() != nil {
		return false
	}
	again = w.queue.NumRequeues(key) < w.cfg.Attempts-1 && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err)
	if !again {
		klog.FromContext(ctx).Error(err, "Writing failed", "what", w.cfg.What, "key", key)
	}
	return again
}

// end ends the write of a value, which becomes pending again if that has to be repeated.
func (w *Writer[K, V]) end(key K, value V, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	current := w.writing[key]
	close(current.ended)
	delete(w.writing, key)
	if !again || current.settled {
		w.queue.Forget(key)
		return
	}
	if next, newer := w.pending[key]; newer {
		value = w.target.Merge(value, next)
	}
	w.pending[key] = value
	w.queue.AddRateLimited(key)
}
