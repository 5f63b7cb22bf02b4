// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

const (
	// confirmEvery is how often Unconfirmed looks which pods the informers have confirmed.
	confirmEvery = 500 * time.Millisecond
	// confirmAfter is how long a pod that is bound, or lost, waits for the informers before it is
	// read.
	confirmAfter = time.Minute
	// readPause is how long no pod is read after one could not be read.
	readPause = 2 * time.Second
)

// Unconfirmed has the pods that are bound, until the informers confirm their nodes. The API server
// may forget a binding that it has accepted: if etcd is restored from a backup, or loses its last
// writes. The informers see no change then, and the pod would keep its room forever, and never
// run. So a pod that is not confirmed in time is read: if it has no node, its binding is undone.
//
// A pod that was lost when it was to be bound may be forgotten in the same way: if etcd is restored
// before the informers have noticed its deletion, the pod is there again, and they see no change.
// So it is read, too, unless the informers notice in time: if it has no node, it is queued again.
//
// Binding goroutines add pods. Run has one goroutine, which alone removes them.
type Unconfirmed struct {
	binder *Binder
	clock  clock.Clock
	// readAgain is when pods may be read again. Only the goroutine of Run uses it.
	readAgain time.Time

	mu     sync.Mutex // guards the fields below
	cycles []*unconfirmed
	closed bool
}

// unconfirmed is the binding cycle of a pod that is bound, or lost.
type unconfirmed struct {
	*Cycle
	pod     *corev1.Pod
	logger  klog.Logger
	release func()
	// since is when the pod was bound or lost, or last read.
	since time.Time
	// unread means that the pod could not be read at least once, which was logged.
	unread bool
}

// NewUnconfirmed returns an Unconfirmed for pods that a Binder has bound.
func NewUnconfirmed(b *Binder, c clock.Clock) *Unconfirmed { return &Unconfirmed{binder: b, clock: c} }

// Add adds a pod that Binder.Run has bound. release is called once when the cycle is not needed any
// more. Until then, the profile of the cycle must not be closed.
//
// A pod that an extender took is not added: the extender may bind it when it likes.
func (u *Unconfirmed) Add(ctx context.Context, c *Cycle, release func()) {
	if c.byExtender {
		release()
		return
	}
	u.add(ctx, c, release)
}

// AddUnbound adds a pod that Binder.Run has not bound, if the pod was lost. Any other pod is back
// in the queue.
func (u *Unconfirmed) AddUnbound(ctx context.Context, c *Cycle) {
	if c.lost {
		u.add(ctx, c, func() {})
	}
}

func (u *Unconfirmed) add(ctx context.Context, c *Cycle, release func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		release()
		return
	}
	u.cycles = append(u.cycles, &unconfirmed{Cycle: c, pod: c.Pod.Pod, logger: klog.FromContext(ctx), release: release,
		since: u.clock.Now()})
}

// Run waits for confirmations until ctx ends. It must be called once.
func (u *Unconfirmed) Run(ctx context.Context) {
	timer := u.clock.NewTimer(confirmEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C():
			u.look(ctx)
			timer.Reset(confirmEvery)
		case <-ctx.Done():
			u.close()
			return
		}
	}
}

func (u *Unconfirmed) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for _, c := range u.cycles {
		c.release()
	}
	u.cycles = nil
}

// look releases the pods that are confirmed, and reads those that are overdue. After one that
// cannot be read, no other is read for readPause. It goes to the end of the list, so that it holds
// up no other for long.
func (u *Unconfirmed) look(ctx context.Context) {
	u.mu.Lock()
	cycles := u.cycles
	u.cycles = nil
	u.mu.Unlock()
	waiting := cycles[:0]
	for _, c := range cycles {
		if u.waits(c) {
			waiting = append(waiting, c)
		} else {
			c.release()
		}
	}
	clear(cycles[len(waiting):])
	var unread []*unconfirmed
	waiting = slices.DeleteFunc(waiting, func(c *unconfirmed) bool {
		if now := u.clock.Now(); now.Sub(c.since) < confirmAfter || now.Before(u.readAgain) {
			return false
		}
		undone, err := u.undoIfForgotten(ctx, c)
		switch {
		case err != nil:
			u.readAgain = u.clock.Now().Add(readPause)
			unread = append(unread, c)
		case undone:
			c.release()
		}
		return undone || err != nil
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cycles = slices.Concat(waiting, u.cycles, unread)
}

// waits reports whether the cache has the pod as this cycle has assumed it, or the informers have a
// lost pod.
func (u *Unconfirmed) waits(c *unconfirmed) bool {
	if c.lost {
		return u.binder.Queue.Wanted(c.pod)
	}
	known, err := u.binder.Cache.GetPod(c.pod)
	return err == nil && known == c.pod
}

// undoIfForgotten reads a pod, and undoes its binding, or queues a lost pod again, if the API
// server has no node for it. It returns whether it did so, or an error if the pod must be read
// again. Otherwise the informers are late.
func (u *Unconfirmed) undoIfForgotten(ctx context.Context, c *unconfirmed) (undone bool, err error) {
	ctx = klog.NewContext(ctx, c.logger)
	readCtx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	now, err := u.binder.get(readCtx, c.pod)
	if err != nil && !apierrors.IsNotFound(err) {
		if ctx.Err() == nil && !c.unread {
			c.unread = true
			c.logger.Error(err, "A pod that no informer has confirmed as bound, or gone, cannot be read; trying again",
				"pod", klog.KObj(c.pod))
		}
		return false, err
	}
	c.since = u.clock.Now()
	if err != nil || now.UID != c.pod.UID || now.Spec.NodeName != "" || !u.waits(c) {
		return false, nil
	}
	if c.lost {
		c.logger.Info("The API server has the pod again that was gone; it is scheduled", "pod", klog.KObj(c.pod))
		u.binder.Queue.Add(c.logger, now)
		return true, nil
	}
	c.logger.Info("The API server has forgotten that the pod was bound; it is scheduled again", "pod",
		klog.KObj(c.pod), "node", c.NodeName)
	forgotten := fmt.Errorf("the API server has forgotten the binding to node %s", c.NodeName)
	u.binder.undo(ctx, c.Cycle, fwk.AsStatus(forgotten), unbound)
	return true, nil
}
