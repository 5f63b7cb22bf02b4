// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease holds the Lease by which replicas elect the leader:
//
//	client-go's LeaderElector --> Lock --> the Lease
//	                               |
//	                             Term <-- Guard: the transport of the scheduler's clients
//	                                  <-- bindings and reports of failures
//
// A Lock makes followers watch the Lease, so that one of them takes it as soon as the leader has
// released it. A Term tells for how long the leader may act.
//
// A HolderWatch watches the Lease of another component, such as kube-scheduler.
package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/namedwatch"
)

// ErrLost is the error of a process that lost the lease and tries to take or release it. It must
// not take it again, since it does not know what another leader has done in between, and must not
// release the lease of another leader.
var ErrLost = errors.New("this process has lost the lease")

// ErrStopping is the error of a process that would take the lease, and stops.
var ErrStopping = errors.New("this process stops, and does not take the lease")

// Config configures a Lock. All fields but Stopping are required.
type Config struct {
	Namespace, Name string
	// Identity names this process in the Lease.
	Identity string
	// Client reads and writes the Lease. Its requests have a timeout shorter than the renew
	// deadline. Watch watches the Lease, and has no timeout.
	Client, Watch clientset.Interface
	// RetryPeriod is the retry period of the elector.
	RetryPeriod time.Duration
	// Term begins and ends with the lease.
	Term *Term
	// Stopping is closed when the process begins to stop. It does not take the lease then.
	Stopping <-chan struct{}
}

// Lock is the lock of a client-go LeaderElector. The elector of a follower polls: it calls Get, and
// while another process holds the lease, calls it again after one to two retry periods. Get of this
// Lock does not return while another process holds the lease. It watches the Lease and returns as
// soon as the holder has released it or has not renewed it in time, and the elector takes it at
// once. Without a working watch, Get polls as the elector would.
//
// All methods but Holder are called by the elector's goroutine, which alone uses the fields but
// holder.
type Lock struct {
	*resourcelock.LeaseLock
	cfg Config
	// held reports whether this process has held the lease. From then on Get does not wait.
	held bool
	// acquired is when this process took the lease.
	acquired metav1.Time
	// seen is the record of another holder, and since is when it was first seen: the holder has
	// renewed the lease by then.
	seen  []byte
	since time.Time
	// holder is the identity of the holder as it was last seen, nil before the first read.
	holder atomic.Pointer[string]
}

var _ resourcelock.Interface = (*Lock)(nil)

// NewLock returns a Lock for one elector. Set LockConfig.EventRecorder to record Events.
func NewLock(cfg Config) *Lock {
	return &Lock{cfg: cfg, LeaseLock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: cfg.Namespace, Name: cfg.Name},
		Client:     cfg.Client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: cfg.Identity},
	}}
}

// Holder returns the identity of the holder of the lease as this process last saw it, "" if it has
// seen none. A holder that has died stays until the lease expires. Any goroutine may call it.
func (l *Lock) Holder() string { return ptr.Deref(l.holder.Load(), "") }

// Get returns the record of the lease once this process may take it: the record has no holder if
// the lease has expired. A process that has held the lease gets the record as it is.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.read(ctx)
	switch {
	case err != nil || record.HolderIdentity == l.cfg.Identity:
		return record, raw, err
	case l.held:
		l.cfg.Term.End()
		return record, raw, nil
	case record.HolderIdentity == "":
		return record, raw, nil
	}
	return l.await(ctx, record, raw)
}

// read reads the record of the lease.
func (l *Lock) read(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err == nil {
		l.holder.Store(&record.HolderIdentity)
	}
	return record, raw, err
}

// await returns when the lease is free, cannot be read, or ctx has ended.
func (l *Lock) await(ctx context.Context, record *resourcelock.LeaderElectionRecord,
	raw []byte) (*resourcelock.LeaderElectionRecord, []byte, error) {
	changes := make(chan struct{}, 1)
	leases := l.cfg.Watch.CoordinationV1().Leases(l.cfg.Namespace)
	informer, err := namedwatch.NewInformer(l.cfg.Watch, leases, l.cfg.Name, &coordinationv1.Lease{},
		func() { notify(changes) })
	if err != nil {
		return nil, nil, fmt.Errorf("watching the lease: %w", err)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop() // the watch ends soon after that; a free lease does not wait for it
	go informer.RunWithContext(watching)

	l.observe(raw)
	for {
		expires := time.Until(l.since.Add(time.Duration(record.LeaseDurationSeconds) * time.Second))
		if expires <= 0 {
			free := *record
			free.HolderIdentity = ""
			return &free, raw, nil
		}
		// The holder renews the lease each retry period. So without a change for two of them,
		// either the holder or the watch does not work.
		quiet := time.NewTimer(min(expires, 2*l.cfg.RetryPeriod))
		select {
		case <-ctx.Done():
			quiet.Stop()
			return record, raw, nil
		case <-changes:
			quiet.Stop()
			if l.observeWatched(informer.GetStore()) {
				continue
			}
		case <-quiet.C:
		}
		if record, raw, err = l.read(ctx); err != nil || record.HolderIdentity == "" {
			return record, raw, err
		}
		l.observe(raw)
	}
}

// observe notes the record of another holder.
func (l *Lock) observe(raw []byte) {
	if !bytes.Equal(raw, l.seen) {
		l.seen, l.since = raw, time.Now()
	}
}

// observeWatched notes the record that the watch has, and reports whether there is one with a
// holder. If not, the watch may also be late: a read shows that.
func (l *Lock) observeWatched(leases cache.Store) bool {
	object, exists, err := leases.GetByKey(l.cfg.Namespace + "/" + l.cfg.Name)
	if err != nil || !exists {
		return false
	}
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&object.(*coordinationv1.Lease).Spec)
	raw, err := json.Marshal(record)
	if err != nil || record.HolderIdentity == "" {
		return false
	}
	l.holder.Store(&record.HolderIdentity)
	l.observe(raw)
	return true
}

// Create creates the Lease, held by this process.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.LeaseLock.Create)
}

// Update takes, renews or releases the lease.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		// The elector releases the lease if it held it at the last renewal. After a pause of the
		// process another one may hold it, which Get has found.
		if l.cfg.Term.ended() {
			return ErrLost
		}
		l.cfg.Term.End()
		l.holder.Store(&record.HolderIdentity)
		return l.LeaseLock.Update(ctx, record)
	}
	return l.write(ctx, record, l.LeaseLock.Update)
}

// write writes a record with this process as the holder. The elector took the times of its first
// record before Get, which may have waited for days.
func (l *Lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	switch {
	case l.cfg.Term.ended():
		return ErrLost
	case !l.held && l.stopping():
		return ErrStopping
	}
	sent := time.Now()
	if !l.held {
		l.acquired = metav1.NewTime(sent)
	}
	record.AcquireTime, record.RenewTime = l.acquired, metav1.NewTime(sent)
	if err := write(ctx, record); err != nil {
		return err
	}
	if !l.held && l.stopping() {
		return l.giveBack(record)
	}
	l.held = true
	l.holder.Store(&record.HolderIdentity)
	l.cfg.Term.Renew(sent)
	return nil
}

// giveBack releases a lease that this process has taken while it began to stop, so that others need
// not wait until it expires.
func (l *Lock) giveBack(record resourcelock.LeaderElectionRecord) error {
	l.cfg.Term.End()
	record.HolderIdentity = ""
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.RetryPeriod)
	defer cancel()
	return errors.Join(ErrStopping, l.LeaseLock.Update(ctx, record))
}

// stopping reports whether the process has begun to stop.
func (l *Lock) stopping() bool {
	select {
	case <-l.cfg.Stopping:
		return true
	default:
		return false
	}
}
