// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/namedwatch"
)

const (
	// leasePatience is how long a profile waits for the first read of the Lease: scheduling beside
	// a kube-scheduler is better than not scheduling.
	leasePatience = 10 * time.Second
	// confirmTimeout bounds a read of a Lease that seems to have expired, and confirmRetry is the
	// wait before the next one.
	confirmTimeout = 5 * time.Second
	confirmRetry   = 2 * time.Second
)

// sighting is what is known about a kube-scheduler beside livesched.
type sighting struct {
	// holder is the identity of a kube-scheduler that runs, "" if none is known to.
	holder string
	// known is false until the Lease has been read. A Lease that cannot be read counts as read.
	known bool
}

// leaseWatch watches the Lease of kube-scheduler. Its informer and its timers have their own
// goroutines, and call changed when the sighting has changed.
type leaseWatch struct {
	ctx     context.Context
	stop    context.CancelFunc
	changed func()
	// read reads the Lease, nil if there is none.
	read func(context.Context) (*coordinationv1.Lease, error)

	mu      sync.Mutex // guards the rest
	current sighting
	record  coordinationv1.LeaseSpec // of the holder, as it was last observed
	expiry  *time.Timer
	updates int // the number of calls of setLocked
}

// startLeaseWatch returns a watch that runs until stop is called or ctx ends.
func startLeaseWatch(ctx context.Context, client clientset.Interface, changed func()) *leaseWatch {
	leases := client.CoordinationV1().Leases(lease.KubeScheduler.Namespace)
	w := &leaseWatch{changed: changed}
	w.ctx, w.stop = context.WithCancel(ctx)
	w.read = func(ctx context.Context) (*coordinationv1.Lease, error) {
		// To get it would take another permission than the watch does.
		list, err := leases.List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, lease.KubeScheduler.Name).String(),
		})
		if err != nil || len(list.Items) == 0 {
			return nil, err
		}
		return &list.Items[0], nil
	}
	logger := klog.FromContext(w.ctx).WithValues("lease", lease.KubeScheduler.String())
	var informer toolscache.SharedIndexInformer
	first := true // belongs to the informer's goroutine
	informer, err := namedwatch.NewInformer(client, leases, lease.KubeScheduler.Name, &coordinationv1.Lease{}, func() {
		w.observe(informer.GetStore(), first)
		first = false
	})
	mayNotRead := sync.OnceFunc(func() {
		logger.Info("May not watch the Lease of kube-scheduler, so a profile with its scheduler name neither waits for it nor warns about it")
		w.becomeKnown()
	})
	err = errors.Join(err, informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *toolscache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			mayNotRead()
			return
		}
		toolscache.DefaultWatchErrorHandler(ctx, r, err)
	}))
	if err != nil { // only an informer that runs refuses these
		logger.Error(err, "Not watching the Lease of kube-scheduler")
		w.current.known = true
		return w
	}
	go w.awaitFirstRead(informer)
	go func() {
		informer.RunWithContext(w.ctx)
		w.stopTimer()
	}()
	return w
}

// seen returns the present sighting.
func (w *leaseWatch) seen() sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

// awaitFirstRead makes the sighting known when the informer has read that there is no Lease, or
// takes too long.
func (w *leaseWatch) awaitFirstRead(informer toolscache.SharedIndexInformer) {
	patience := time.NewTimer(leasePatience)
	defer patience.Stop()
	select {
	case <-informer.HasSyncedChecker().Done():
		if _, exists, err := informer.GetStore().GetByKey(lease.KubeScheduler.String()); err == nil && exists {
			return // the informer is about to call observe
		}
	case <-patience.C:
		klog.FromContext(w.ctx).Info("Not waiting any longer for the Lease of kube-scheduler", "lease", lease.KubeScheduler.String(), "waited", leasePatience)
	case <-w.ctx.Done():
		return
	}
	w.becomeKnown()
}

// becomeKnown notes that the Lease has been read, or that it cannot be.
func (w *leaseWatch) becomeKnown() {
	w.update(func() bool {
		changed := !w.current.known
		w.current.known = true
		return changed
	})
}

// observe reads the Lease from the informer's store. first is true when the informer begins, and
// false when the Lease has changed since.
func (w *leaseWatch) observe(store toolscache.Store, first bool) {
	object, exists, err := store.GetByKey(lease.KubeScheduler.String())
	found, ok := object.(*coordinationv1.Lease)
	// If a Lease is not fresh at first, its holder has most likely ended. If only its clock is
	// wrong, it renews the Lease soon.
	if err != nil || !exists || !ok || first && !lease.Fresh(found, time.Now(), 0) {
		w.update(func() bool { return w.setLocked("", 0) })
		return
	}
	w.update(func() bool { return w.holdLocked(found) })
}

// update makes a change under the lock, and calls changed afterwards if the change returns true.
func (w *leaseWatch) update(change func() (changed bool)) {
	w.mu.Lock()
	changed := change()
	w.mu.Unlock()
	if changed {
		w.changed()
	}
}

// holdLocked records who holds a Lease that is valid now, and reports whether the sighting changes.
func (w *leaseWatch) holdLocked(found *coordinationv1.Lease) (changed bool) {
	w.record = found.Spec
	return w.setLocked(ptr.Deref(found.Spec.HolderIdentity, ""), lease.Duration(found))
}

// setLocked records who holds the Lease, and reports whether the sighting changes. After the
// duration, the Lease is read again unless it is renewed.
func (w *leaseWatch) setLocked(holder string, duration time.Duration) (changed bool) {
	w.updates++
	update := w.updates
	if w.expiry != nil {
		w.expiry.Stop()
		w.expiry = nil
	}
	if holder != "" && w.ctx.Err() == nil {
		w.expiry = time.AfterFunc(duration, func() { w.expire(update) })
	}
	next := sighting{holder: holder, known: true}
	changed = next != w.current
	w.current = next
	return changed
}

// expire forgets the holder, unless there was an update since, or the API server knows of a
// renewal: a watch that is late must not make a profile run beside kube-scheduler. While the Lease
// cannot be read, everything stays as it is.
func (w *leaseWatch) expire(update int) {
	w.mu.Lock()
	renewed := w.updates != update
	w.mu.Unlock()
	if renewed {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, confirmTimeout)
	found, err := w.read(ctx)
	cancel()
	w.update(func() bool {
		switch {
		case w.updates != update || w.ctx.Err() != nil:
			return false
		case apierrors.IsForbidden(err) || err == nil && found == nil:
			return w.setLocked("", 0)
		case err != nil:
			return w.setLocked(w.current.holder, confirmRetry)
		case sameRecord(&found.Spec, &w.record):
			return w.setLocked("", 0)
		default:
			return w.holdLocked(found)
		}
	})
}

// sameRecord reports whether a Lease was not renewed in between.
func sameRecord(a, b *coordinationv1.LeaseSpec) bool {
	return ptr.Equal(a.HolderIdentity, b.HolderIdentity) && a.RenewTime.Equal(b.RenewTime)
}

// stopTimer ends the timer when the watch has ended: set starts no other one then.
func (w *leaseWatch) stopTimer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expiry != nil {
		w.expiry.Stop()
	}
}
