// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/namedwatch"
)

const (
	// firstReadPatience is how long the holder of a Lease is not known at most, because the Lease
	// has not been read.
	firstReadPatience = 10 * time.Second
	// confirmTimeout bounds a read of a Lease that seems to have expired, and confirmRetry is the
	// wait before the next one.
	confirmTimeout = 5 * time.Second
	confirmRetry   = 2 * time.Second
)

// Sighting is what is known about the holder of another component's Lease.
type Sighting struct {
	// Holder is the identity of the holder, or "" if none is known.
	Holder string
	// Known is false until the Lease has been read. A Lease that cannot be read counts as read.
	Known bool
}

// HolderWatch watches who holds the Lease of another component. Run has its own goroutine, which
// alone uses the fields but current. Seen may be called from any goroutine.
type HolderWatch struct {
	client  clientset.Interface
	lease   types.NamespacedName
	changed func()
	current atomic.Pointer[Sighting]

	// events has a value when the informer has seen a change.
	events chan struct{}
	// last is the Lease as it was last observed, and expiry fires when it expires unless it is
	// renewed.
	last   coordinationv1.LeaseSpec
	expiry *time.Timer
}

// NewHolderWatch returns a watch that begins with Run. It calls changed, which must not block, when
// the sighting has changed.
func NewHolderWatch(client clientset.Interface, lease types.NamespacedName, changed func()) *HolderWatch {
	w := &HolderWatch{client: client, lease: lease, changed: changed, events: make(chan struct{}, 1),
		expiry: time.NewTimer(0)}
	w.expiry.Stop()
	w.current.Store(&Sighting{})
	return w
}

// Seen returns the present sighting.
func (h *HolderWatch) Seen() Sighting { return *h.current.Load() }

// Run watches the Lease until ctx ends.
func (h *HolderWatch) Run(ctx context.Context) {
	defer h.expiry.Stop()
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("lease", h.lease.String()))
	forbidden := make(chan struct{}, 1)
	informer, err := h.newInformer(forbidden)
	if err != nil { // only an informer that runs refuses the handlers
		klog.FromContext(ctx).Error(err, "Not watching the Lease")
		h.becomeKnown()
		return
	}
	go informer.RunWithContext(ctx)
	patience := time.NewTimer(firstReadPatience)
	defer patience.Stop()
	synced, first := informer.HasSyncedChecker().Done(), true
	for {
		select {
		case <-h.events:
			h.observe(informer.GetStore(), first)
			first = false
		case <-synced:
			synced = nil
			if len(informer.GetStore().ListKeys()) == 0 { // otherwise there is an event
				h.becomeKnown()
			}
		case <-forbidden:
			if h.becomeKnown() {
				klog.FromContext(ctx).Info("May not watch the Lease; continuing as if it had no holder")
			}
		case <-patience.C:
			if h.becomeKnown() {
				klog.FromContext(ctx).Info("Not waiting any longer for the Lease", "waited", firstReadPatience)
			}
		case <-h.expiry.C:
			h.confirm(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// newInformer returns the informer of the Lease. It sends to forbidden when it may not read it.
func (h *HolderWatch) newInformer(forbidden chan<- struct{}) (cache.SharedIndexInformer, error) {
	leases := h.client.CoordinationV1().Leases(h.lease.Namespace)
	informer, err := namedwatch.NewInformer(h.client, leases, h.lease.Name, &coordinationv1.Lease{},
		func() { notify(h.events) })
	return informer, errors.Join(err,
		informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				notify(forbidden)
				return
			}
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}))
}

// notify sends to a channel with room for one value, unless it has one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// observe reads the Lease from the informer's store. first is true when the informer begins, and
// false when the Lease has changed since.
func (h *HolderWatch) observe(store cache.Store, first bool) {
	object, exists, err := store.GetByKey(h.lease.String())
	found, ok := object.(*coordinationv1.Lease)
	// If a Lease is not fresh at first, its holder has most likely ended. If only its clock is
	// wrong, it renews the Lease soon.
	if err != nil || !exists || !ok || first && !Fresh(found, time.Now(), 0) {
		h.release()
		return
	}
	h.hold(found)
}

// confirm reads a Lease that has expired, unless it was renewed since: a watch that is late must
// not let its holder seem gone. While it cannot be read, everything stays as it is.
func (h *HolderWatch) confirm(ctx context.Context) {
	reading, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	found, err := h.read(reading)
	switch {
	case len(h.events) > 0 || ctx.Err() != nil: // the informer knows more
	case apierrors.IsForbidden(err), err == nil && (found == nil || sameRecord(&found.Spec, &h.last)):
		h.release()
	case err != nil:
		h.expiry.Reset(confirmRetry)
	default:
		h.hold(found)
	}
}

// read reads the Lease, nil if there is none. It lists, since a get takes another permission than
// the watch.
func (h *HolderWatch) read(ctx context.Context) (*coordinationv1.Lease, error) {
	list, err := h.client.CoordinationV1().Leases(h.lease.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, h.lease.Name).String(),
	})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

// hold records who holds a Lease that is valid now.
func (h *HolderWatch) hold(found *coordinationv1.Lease) {
	holder := ptr.Deref(found.Spec.HolderIdentity, "")
	if holder == "" {
		h.release()
		return
	}
	h.last = found.Spec
	h.expiry.Reset(Duration(found))
	h.set(Sighting{Holder: holder, Known: true})
}

// release records that the Lease has no holder.
func (h *HolderWatch) release() {
	h.expiry.Stop()
	h.set(Sighting{Known: true})
}

// becomeKnown records that the Lease has been read, or that it cannot be, and reports whether that
// is new.
func (h *HolderWatch) becomeKnown() bool {
	return h.set(Sighting{Holder: h.Seen().Holder, Known: true})
}

// set records a sighting, and reports whether it is new.
func (h *HolderWatch) set(next Sighting) bool {
	if next == h.Seen() {
		return false
	}
	h.current.Store(&next)
	h.changed()
	return true
}

// sameRecord reports whether a Lease was not renewed in between.
func sameRecord(a, b *coordinationv1.LeaseSpec) bool {
	return ptr.Equal(a.HolderIdentity, b.HolderIdentity) && a.RenewTime.Equal(b.RenewTime)
}
