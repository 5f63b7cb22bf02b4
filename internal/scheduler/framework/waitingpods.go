// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// WaitingPods holds the pods that have a node and wait for Permit plugins, by UID. There is one
// collection per process: plugins of all profiles and instances find all waiting pods in it, and
// preemption reaches those whose profile was replaced while they waited. It is safe for concurrent
// use.
type WaitingPods struct {
	mu   sync.RWMutex // guards the fields below; never held while a waiting pod's mu is taken
	pods map[types.UID]*waitingPod
	// stopped means that no pod may wait any more.
	stopped bool
}

// ErrStopping ends the wait of pods when the process stops.
var ErrStopping = errors.New("the scheduler is stopping")

// NewWaitingPods returns an empty collection.
func NewWaitingPods() *WaitingPods {
	return &WaitingPods{pods: map[types.UID]*waitingPod{}}
}

// Add makes the pod wait until all plugins in waitTimes have allowed it, it is rejected, or the
// timeout of one of the plugins expires. It starts one timer per plugin; they are stopped when the
// wait is decided.
func (w *WaitingPods) Add(pod *corev1.Pod, waitTimes map[string]time.Duration) {
	wp := newWaitingPod(pod, waitTimes)
	w.mu.Lock()
	w.pods[pod.UID] = wp
	stopped := w.stopped
	w.mu.Unlock()
	if stopped {
		wp.end(ErrStopping)
	}
}

// Stop ends all waits with ErrStopping, including later ones: the pods might be allowed only after
// the process has ended. The next leader schedules them again.
func (w *WaitingPods) Stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	for _, wp := range w.all() {
		wp.end(ErrStopping)
	}
}

// Get returns the waiting pod with that UID, or nil.
func (w *WaitingPods) Get(uid types.UID) fwk.WaitingPod {
	if wp := w.get(uid); wp != nil {
		return wp
	}
	return nil
}

// Reject rejects the waiting pod with that UID, without naming a plugin, and reports whether there
// was one that still waited.
func (w *WaitingPods) Reject(uid types.UID) bool {
	wp := w.get(uid)
	return wp != nil && wp.Reject("", "removed")
}

// Iterate calls callback for the pods that wait at this moment, with no lock held, so callback may
// use the collection.
func (w *WaitingPods) Iterate(callback func(fwk.WaitingPod)) {
	for _, wp := range w.all() {
		callback(wp)
	}
}

func (w *WaitingPods) all() []*waitingPod {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return slices.Collect(maps.Values(w.pods))
}

// Len returns the number of waiting pods.
func (w *WaitingPods) Len() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.pods)
}

// Wait blocks until the wait of the pod with that UID is decided or ctx has ended, removes the pod
// from the collection, and returns the decision; nil means allowed. waited is false, and the status
// nil, if there is no such pod.
func (w *WaitingPods) Wait(ctx context.Context, uid types.UID) (status *fwk.Status, waited bool) {
	wp := w.get(uid)
	if wp == nil {
		return nil, false
	}
	defer w.remove(wp)
	select {
	case <-wp.decided:
	case <-ctx.Done():
		wp.end(context.Cause(ctx))
	}
	return wp.status, true // it is decided, so the status is final
}

func (w *WaitingPods) get(uid types.UID) *waitingPod {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.pods[uid]
}

func (w *WaitingPods) remove(wp *waitingPod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods[wp.pod.UID] == wp {
		delete(w.pods, wp.pod.UID)
	}
}

// waitingPod is one pod's wait. The first decision is final.
type waitingPod struct {
	pod     *corev1.Pod
	decided chan struct{} // closed when status is set

	mu      sync.Mutex             // guards the fields below
	pending map[string]*time.Timer // by name of the plugins that have not allowed the pod yet
	status  *fwk.Status            // nil means allowed
	done    bool
}

var _ fwk.WaitingPod = (*waitingPod)(nil)

func newWaitingPod(pod *corev1.Pod, waitTimes map[string]time.Duration) *waitingPod {
	w := &waitingPod{pod: pod, decided: make(chan struct{}), pending: map[string]*time.Timer{}}
	// A timer may fire before the last one is set, and must wait for it.
	w.mu.Lock()
	defer w.mu.Unlock()
	for plugin, timeout := range waitTimes {
		w.pending[plugin] = time.AfterFunc(timeout, func() {
			w.Reject(plugin, fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", timeout, plugin))
		})
	}
	return w
}

// GetPod returns the pod as it was when its wait began.
func (w *waitingPod) GetPod() *corev1.Pod { return w.pod }

// GetPendingPlugins returns the plugins that have not allowed the pod yet, sorted.
func (w *waitingPod) GetPendingPlugins() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.pending))
}

// Allow records that the plugin allows the pod. The pod is allowed when all plugins have allowed
// it.
func (w *waitingPod) Allow(plugin string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if timer, ok := w.pending[plugin]; ok {
		timer.Stop()
		delete(w.pending, plugin)
	}
	if len(w.pending) == 0 {
		w.decideLocked(nil)
	}
}

// Reject refuses the pod on behalf of the plugin, whose events then decide when it is retried. It
// returns false if the wait was decided already.
func (w *waitingPod) Reject(plugin, msg string) bool {
	return w.decide(fwk.NewStatus(fwk.Unschedulable, msg).WithPlugin(plugin))
}

// Preempt ends the wait in favour of another pod. Unlike a rejected pod, this one is not
// unschedulable: it is retried after its backoff. It returns false if the wait was decided already.
func (w *waitingPod) Preempt(plugin, msg string) bool {
	return w.decide(fwk.AsStatus(fmt.Errorf("waiting on permit for pod: %s", msg)).WithPlugin(plugin))
}

// end ends the wait with an error.
func (w *waitingPod) end(cause error) {
	w.decide(fwk.AsStatus(fmt.Errorf("waiting on permit for pod: %w", cause)))
}

func (w *waitingPod) decide(status *fwk.Status) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.decideLocked(status)
}

func (w *waitingPod) decideLocked(status *fwk.Status) bool {
	if w.done {
		return false
	}
	w.done, w.status = true, status
	for _, timer := range w.pending {
		timer.Stop()
	}
	close(w.decided)
	return true
}
