// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
)

const (
	// workers write statuses, of one pod each at a time. With DefaultLimit of package binding they
	// stay below the 100 requests that fit on a connection.
	workers = 16
	// maxWaiting bounds the pods that wait to be told something. Whoever has something to tell to
	// one more waits.
	maxWaiting = 1000
	// maxRecent bounds the pods of which is remembered what was written last.
	maxRecent = 4096
)

// Update is what a pod is to be told.
type Update struct {
	// Pod is any version of the pod.
	Pod *corev1.Pod
	// Condition replaces the one of its type. nil leaves them as they are.
	Condition *corev1.PodCondition
	// Nominating says what becomes of the nominated node. nil, or ModeNoop, leaves it as it is.
	Nominating *fwk.NominatingInfo
}

// Config is what a Writer is made of. All fields are required.
type Config struct {
	// Patch applies a strategic merge patch to the status of a pod. Its errors are those of the
	// API.
	Patch func(ctx context.Context, pod *corev1.Pod, patch []byte) error
	// Newest returns the newest version that is known of a pod, or nil if it need not be told
	// anything any more: it is gone, bound, or being bound.
	Newest func(pod *corev1.Pod) *corev1.Pod
	// Failed is told of a pod whose status could not be written. It is not told if the pod turns
	// out to be gone.
	Failed func(ctx context.Context, pod *corev1.Pod, err error)
}

// Writer writes the status of pods that could not be scheduled, on a few goroutines of its own, so
// that the scheduling loop does not wait for it. What is told to a pod that has not been told the
// last thing yet replaces that: only the latest counts. The statuses of one pod are written in
// order, and nothing is written that the pod says already.
//
// Its methods may be called from any goroutine.
type Writer struct {
	cfg     Config
	running sync.WaitGroup
	cancel  context.CancelFunc // ends calls under way; set by Start

	mu sync.Mutex // guards what follows
	// ready is signalled when a pod comes to wait, changed is broadcast when one is done, both when
	// the Writer closes.
	ready, changed sync.Cond
	// pods are those that wait, or are being told.
	pods map[types.UID]*entry
	// order is that of those that wait.
	order  []*entry
	closed bool

	// recent is what pods were told last (said by UID), which informers may not have seen. It has a
	// lock of its own; the value of a pod is touched by the worker that has the pod.
	recent *lru.Cache
}

// entry is a pod that waits or is being told.
type entry struct {
	pod *corev1.Pod
	// condition and nominated are what it is to be told next, if waiting says that there is
	// something.
	condition *corev1.PodCondition
	nominated *string
	waiting   bool
	// queued says that it is in order, writing that a worker has it. It is in the map while it is
	// either.
	queued, writing bool
}

// said is what a pod was told last: nil for what it was never told.
type said struct {
	condition *corev1.PodCondition
	nominated *string
}

// NewWriter returns a Writer that does nothing until Start.
func NewWriter(cfg Config) *Writer {
	w := &Writer{cfg: cfg, pods: map[types.UID]*entry{}, recent: lru.New(maxRecent)}
	w.ready.L, w.changed.L = &w.mu, &w.mu
	return w
}

// Start begins to write. It returns at once; ctx is for values such as the logger, and ends
// nothing.
func (w *Writer) Start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for range workers {
		w.running.Go(func() { w.work(ctx) })
	}
}

// Close writes what there is until ctx ends, and returns when nothing of the Writer is running any
// more.
func (w *Writer) Close(ctx context.Context) {
	w.mu.Lock()
	w.closed = true
	w.ready.Broadcast()
	w.changed.Broadcast()
	w.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		w.cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		if left := len(w.pods); left > 0 {
			klog.FromContext(ctx).Info("Pods were not told in time why they are not scheduled", "pods", left)
		}
		w.order = nil
		w.ready.Broadcast()
	})
	defer stop()
	w.running.Wait()
	w.cancel()
}

// Write has an update written. It waits while too many pods wait, until ctx ends. After Close it
// does nothing.
func (w *Writer) Write(ctx context.Context, u Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pods[u.Pod.UID]
	if e == nil && len(w.pods) >= maxWaiting {
		w.await(ctx, func() bool { return w.closed || len(w.pods) < maxWaiting })
		e = w.pods[u.Pod.UID]
	}
	if w.closed {
		return
	}
	if e == nil {
		e = &entry{}
		w.pods[u.Pod.UID] = e
	}
	e.merge(u)
	if !e.queued && !e.writing {
		e.queued = true
		w.order = append(w.order, e)
		w.ready.Signal()
	}
}

// merge replaces what was to be told before.
func (e *entry) merge(u Update) {
	e.pod, e.waiting = u.Pod, true
	if u.Condition != nil {
		e.condition = u.Condition
	}
	if u.Nominating.Mode() == fwk.ModeOverride {
		e.nominated = &u.Nominating.NominatedNodeName
	}
}

// Settle forgets what a pod was to be told, and waits for what it is being told, until ctx ends: it
// is about to be bound, and must not be told afterwards that it could not be.
func (w *Writer) Settle(ctx context.Context, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pods[uid]
	if e == nil {
		return
	}
	e.waiting, e.condition, e.nominated = false, nil, nil
	if e.writing {
		w.await(ctx, func() bool { return w.pods[uid] != e })
	}
}

// await waits until done says so, or ctx ends. Requires mu.
func (w *Writer) await(ctx context.Context, done func() bool) {
	if done() {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed.Broadcast()
	})
	defer stop()
	for !done() && ctx.Err() == nil {
		w.changed.Wait()
	}
}

// task is what one pod is told at one time.
type task struct {
	entry     *entry
	pod       *corev1.Pod
	condition *corev1.PodCondition
	nominated *string
}

// take waits for a pod that waits. It returns false when the Writer is closed and all is written.
func (w *Writer) take() (task, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.order) > 0 {
			e := w.order[0]
			w.order[0] = nil
			if w.order = w.order[1:]; len(w.order) == 0 {
				w.order = nil
			}
			e.queued = false
			if e.waiting {
				return begin(e), true
			}
			w.drop(e) // it has been settled
		}
		if w.closed {
			return task{}, false
		}
		w.ready.Wait()
	}
}

// begin hands a pod to a worker. Requires mu.
func begin(e *entry) task {
	t := task{entry: e, pod: e.pod, condition: e.condition, nominated: e.nominated}
	e.waiting, e.condition, e.nominated, e.writing = false, nil, nil, true
	return t
}

// next takes a pod back from a worker, and returns what else it is to be told, if there is
// anything.
func (w *Writer) next(t task) (task, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.entry.waiting {
		return begin(t.entry), true
	}
	t.entry.writing = false
	w.drop(t.entry)
	return task{}, false
}

// drop forgets a pod. Requires mu.
func (w *Writer) drop(e *entry) {
	delete(w.pods, e.pod.UID)
	w.changed.Broadcast()
}

// work tells one pod after the other.
func (w *Writer) work(ctx context.Context) {
	for t, ok := w.take(); ok; t, ok = w.take() {
		for ok {
			w.write(ctx, t)
			t, ok = w.next(t)
		}
	}
}

// write tells a pod what it does not say already.
func (w *Writer) write(ctx context.Context, t task) {
	pod := w.cfg.Newest(t.pod)
	if pod == nil || ctx.Err() != nil {
		return
	}
	var last said
	if known, ok := w.recent.Get(pod.UID); ok {
		last = known.(said)
	}
	patch, err := patchFor(pod, last, t)
	if err == nil && patch != nil {
		err = w.cfg.Patch(ctx, pod, patch)
	}
	switch {
	case err == nil:
		if patch != nil {
			w.recent.Add(pod.UID, last.and(t))
		}
	case IsGone(err), ctx.Err() != nil:
	default:
		w.recent.Add(pod.UID, last.but(t))
		w.cfg.Failed(ctx, pod, err)
	}
}

// and is what was said, with what is said now.
func (s said) and(t task) said {
	return said{condition: cmp.Or(t.condition, s.condition), nominated: cmp.Or(t.nominated, s.nominated)}
}

// but is what was said, for what may have been said or not, since the answer was a failure.
func (s said) but(t task) said {
	if t.condition != nil {
		s.condition = &corev1.PodCondition{} // differs from whatever is told next
	}
	if t.nominated != nil {
		s.nominated = ptr.To("?") // the name of no node
	}
	return s
}

// patchFor makes the patch that has a pod say what it is told. It is nil if the pod says so, as far
// as informers know, and was told nothing else since.
func patchFor(pod *corev1.Pod, last said, t task) ([]byte, error) {
	changed := false
	var condition *corev1.PodCondition
	if t.condition != nil {
		condition = ptr.To(*t.condition)
		changed = podutil.UpdatePodCondition(&corev1.PodStatus{Conditions: slices.Clone(pod.Status.Conditions)}, condition)
		changed = changed || last.condition != nil && !sameWords(last.condition, condition)
	}
	if t.nominated != nil {
		changed = changed || *t.nominated != pod.Status.NominatedNodeName || last.nominated != nil && *last.nominated != *t.nominated
	}
	if !changed {
		return nil, nil
	}
	return json.Marshal(patchBody(pod.UID, condition, t.nominated))
}

// sameWords says whether two conditions of a type tell the same.
func sameWords(a, b *corev1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// patchBody is a strategic merge patch of the status of the very pod with this UID, which the API
// server compares.
func patchBody(uid types.UID, condition *corev1.PodCondition, nominated *string) map[string]any {
	status := map[string]any{}
	if condition != nil {
		status["conditions"] = []*corev1.PodCondition{condition}
	}
	switch {
	case nominated == nil:
	case *nominated == "":
		status["nominatedNodeName"] = nil // which removes it
	default:
		status["nominatedNodeName"] = *nominated
	}
	return map[string]any{"metadata": map[string]any{"uid": uid}, "status": status}
}
