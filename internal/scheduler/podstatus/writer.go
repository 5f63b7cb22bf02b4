// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"
)

const (
	// workers write statuses, of one pod each at a time. With DefaultLimit of package binding they
	// stay below the 100 requests that fit on a connection.
	workers = 16
	// maxRecent bounds the pods whose last written status is remembered.
	maxRecent = 4096
)

// Update is a change of a pod's status.
type Update struct {
	// Pod is any version of the pod.
	Pod *corev1.Pod
	// Condition replaces the condition of its type. nil changes none.
	Condition *corev1.PodCondition
	// Nominating changes the nominated node. nil, or ModeNoop, leaves it as it is.
	Nominating *fwk.NominatingInfo
}

// Config configures a Writer. All fields are required.
type Config struct {
	// Patch applies a strategic merge patch to the status of a pod. Its errors are those of the
	// API.
	Patch func(ctx context.Context, pod *corev1.Pod, patch []byte) error
	// Newest returns the newest version that is known of a pod, or nil if its status must not be
	// written any more: it is gone, bound, or being bound.
	Newest func(pod *corev1.Pod) *corev1.Pod
	// Failed handles a pod whose status could not be written. It is not called if the pod turns out
	// to be gone or bound.
	Failed func(ctx context.Context, pod *corev1.Pod, err error)
}

// Writer writes the status of pods that could not be scheduled, in its own goroutines, so that the
// scheduling loop does not wait for them. An Update replaces an earlier one of the same pod that
// has not been written yet: only the latest counts. The statuses of one pod are written in order.
// The Writer omits values that the pod already has.
//
// Its methods may be called from any goroutine.
type Writer struct {
	cfg     Config
	running sync.WaitGroup
	cancel  context.CancelFunc // ends calls in progress; set by Start
	// queue holds the UIDs of the pods with something to write. It gives one UID to one worker at a
	// time.
	queue workqueue.TypedInterface[types.UID]

	mu sync.Mutex // guards the fields below
	// pods holds the pods that have something to write or are being written.
	pods map[types.UID]*entry
	// changed is broadcast when a pod leaves pods, and when the context of a Settle ends.
	changed sync.Cond
	closed  bool

	// recent holds the status that was written last (written by UID), which informers may not have
	// seen. It has its own lock; only the worker that has a pod uses the pod's value.
	recent *lru.Cache
}

// entry is a pod with something to write, or that is being written.
type entry struct {
	// next is the change to write next, nil if there is none.
	next *change
	// writing is true while a worker has the pod.
	writing bool
}

// NewWriter returns a Writer that does nothing until Start.
func NewWriter(cfg Config) *Writer {
	w := &Writer{cfg: cfg, queue: workqueue.NewTyped[types.UID](), pods: map[types.UID]*entry{}, recent: lru.New(maxRecent)}
	w.changed.L = &w.mu
	return w
}

// Start begins to write. It returns immediately. ctx provides values such as the logger; its end
// stops nothing.
func (w *Writer) Start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for range workers {
		w.running.Go(func() { w.work(ctx) })
	}
}

// Close writes the remaining changes until ctx ends, and returns when all goroutines of the Writer
// have ended.
func (w *Writer) Close(ctx context.Context) {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.queue.ShutDown()
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if left := len(w.pods); left > 0 {
			klog.FromContext(ctx).Info("The status of pods was not written in time", "pods", left)
		}
		w.cancel() // the workers skip the remaining changes
	})
	defer stop()
	w.running.Wait()
	w.cancel()
}

// Write writes an Update, later. It never waits, however slow the API server is: what is pending is
// bounded by the number of pods. After Close it does nothing.
func (w *Writer) Write(u Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	uid := u.Pod.UID
	e := w.pods[uid]
	if e == nil {
		e = &entry{}
		w.pods[uid] = e
	}
	e.next = e.next.merge(u)
	w.queue.Add(uid)
}

// Settle drops the pending change of a pod, and waits for the one that is being written, until ctx
// ends: the pod is about to be bound, and must not get a condition that it could not be scheduled.
func (w *Writer) Settle(ctx context.Context, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pods[uid]
	if e == nil {
		return
	}
	e.next = nil
	if !e.writing {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed.Broadcast()
	})
	defer stop()
	for w.pods[uid] == e && ctx.Err() == nil {
		w.changed.Wait()
	}
}

// work writes one status after the other, until the Writer is closed and all are written.
func (w *Writer) work(ctx context.Context) {
	for {
		uid, closed := w.queue.Get()
		if closed {
			return
		}
		if next := w.begin(uid); next != nil {
			w.write(ctx, next)
		}
		w.end(uid)
		w.queue.Done(uid)
	}
}

// begin takes the pending change of a pod, nil if Settle has dropped it.
func (w *Writer) begin(uid types.UID) *change {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pods[uid]
	if e == nil {
		return nil
	}
	next := e.next
	e.next, e.writing = nil, true
	return next
}

// end forgets a pod, unless there is more to write to it: then the queue has its UID again.
func (w *Writer) end(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pods[uid]
	if e == nil {
		return
	}
	e.writing = false
	if e.next == nil {
		delete(w.pods, uid)
		w.changed.Broadcast()
	}
}

// write writes the parts of a change that the pod does not have already.
func (w *Writer) write(ctx context.Context, c *change) {
	pod := w.cfg.Newest(c.pod)
	if pod == nil || ctx.Err() != nil {
		return
	}
	var last written
	if known, ok := w.recent.Get(pod.UID); ok {
		last = known.(written)
	}
	patch, err := patchFor(pod, last, c)
	if err == nil && patch != nil {
		err = w.cfg.Patch(ctx, pod, patch)
	}
	switch {
	case err == nil:
		if patch != nil {
			w.recent.Add(pod.UID, last.with(c))
		}
	case IsGone(err), IsBound(err), ctx.Err() != nil:
	default:
		w.recent.Add(pod.UID, last.unsure(c))
		w.cfg.Failed(ctx, pod, err)
	}
}
