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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/namedwatch"
)

// ErrLost is the error of a process that lost the lease and tries to take or release it. It must
// not take it again, since it does not know what another leader has done in between, and must not
// release the lease of another leader.
var ErrLost = errors.New("this process has lost the lease")

// ErrStopping is the error of a process that would take the lease, and stops.
var ErrStopping = errors.New("this process stops, and does not take the lease")

const (
	// readyPatience is how long a lease stays free for a replica that is ready. If no other takes
	// it, this one does: a lease without a holder for longer looks as if all replicas were down. By
	// default, a leader that has died is awaited for as long.
	readyPatience = defaultDuration
	// releasedSeconds is the duration of a lease that client-go's elector has released.
	releasedSeconds = 1
	// releaseTries is how often a lease is released if that fails.
	releaseTries = 3
)

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
// A replica that is not ready to lead leaves a free lease to others for a while: see AwaitReady.
//
// All methods but Holder are called by the elector's goroutine, which alone uses the fields but
// holder.
type Lock struct {
	*resourcelock.LeaseLock
	cfg Config
	// ready is closed when this process is ready to lead. nil: it is.
	ready <-chan struct{}
	// held reports whether this process has held the lease. From then on Get does not wait. lost
	// reports whether the lease had another holder, or none, after that.
	held, lost bool
	// acquired is when this process took the lease.
	acquired metav1.Time
	// seen is the last record of another holder, and since is when it was first seen: the holder
	// has renewed the lease by then. See overtaken, too.
	seen  reading
	since time.Time
	// vacant reports whether the lease has no holder, although the last one may still act.
	vacant bool
	// free is since when this process could take the lease if it were ready, zero if it could not.
	free time.Time
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

// AwaitReady makes this process leave a free lease to others until ready is closed, but not for
// long. Without that, a replica that cannot list the pods could keep others that can from
// scheduling. Call it before the elector runs.
func (l *Lock) AwaitReady(ready <-chan struct{}) { l.ready = ready }

// Holder returns the identity of the holder of the lease as this process last saw it, "" if it has
// seen none. A holder that has died stays until the lease expires. Any goroutine may call it.
func (l *Lock) Holder() string { return ptr.Deref(l.holder.Load(), "") }

// Get returns the record of the lease once this process may take it: the record has no holder if
// the lease has expired. A process that has held the lease gets the record as it is.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	found := l.read(ctx)
	if l.held {
		if found.err == nil && found.holder() != l.cfg.Identity {
			l.lost = true
			l.cfg.Term.End()
		}
		return found.record, found.raw, found.err
	}
	if left, _ := l.wait(found); left > 0 {
		found = l.await(ctx, found)
	} else {
		found = l.takeable(found)
	}
	return found.record, found.raw, found.err
}

// reading is what was read of the lease: a record, or an error if there is none.
type reading struct {
	record *resourcelock.LeaderElectionRecord
	raw    []byte
	err    error
}

// holder returns the identity of the holder, "" if there is none.
func (r reading) holder() string {
	if r.record == nil {
		return ""
	}
	return r.record.HolderIdentity
}

// read reads the lease.
func (l *Lock) read(ctx context.Context) reading {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err == nil {
		l.holder.Store(&record.HolderIdentity)
	}
	return reading{record, raw, err}
}

// await returns when this process may take the lease, the lease cannot be read, or ctx has ended.
func (l *Lock) await(ctx context.Context, found reading) reading {
	changes := make(chan struct{}, 1)
	leases := l.cfg.Watch.CoordinationV1().Leases(l.cfg.Namespace)
	informer, err := namedwatch.NewInformer(l.cfg.Watch, leases, l.cfg.Name, &coordinationv1.Lease{},
		func() { notify(changes) })
	if err != nil {
		return reading{err: fmt.Errorf("watching the lease: %w", err)}
	}
	watching, stop := context.WithCancel(ctx)
	defer stop() // the watch ends soon after that; a free lease does not wait for it
	go informer.RunWithContext(watching)

	for {
		left, ready := l.wait(found)
		if left <= 0 {
			return l.takeable(found)
		}
		// The holder renews the lease each retry period. So without a change for two of them,
		// either the holder or the watch does not work.
		quiet := time.NewTimer(min(left, 2*l.cfg.RetryPeriod))
		select {
		case <-ctx.Done():
			quiet.Stop()
			if found.holder() == "" { // the elector would take it
				return reading{err: ctx.Err()}
			}
			return found
		case <-changes:
			quiet.Stop()
			if watched := l.watched(informer.GetStore()); watched.holder() != "" {
				found = watched
				continue
			}
		case <-ready:
			quiet.Stop()
		case <-quiet.C:
		}
		found = l.read(ctx)
	}
}

// wait returns how long this process must not take the lease yet, and what ends that earlier, if
// anything does.
func (l *Lock) wait(found reading) (left time.Duration, ready <-chan struct{}) {
	holder := found.holder()
	switch {
	case found.err != nil && !apierrors.IsNotFound(found.err), holder == l.cfg.Identity:
		return 0, nil
	case holder != "" && !bytes.Equal(found.raw, l.seen.raw):
		l.seen, l.since = found, time.Now()
	}
	if left := l.untilExpiry(found); left > 0 {
		if vacant := holder == ""; vacant != l.vacant {
			l.logVacant(vacant, left)
		}
		l.free = time.Time{}
		return left, nil
	}
	if l.isReady() {
		return 0, nil
	}
	if l.free.IsZero() {
		l.free = time.Now()
	}
	left = time.Until(l.free.Add(readyPatience))
	if left <= 0 {
		klog.Background().Info("Taking the lease although the cluster is not listed yet, since no other replica has",
			"waited", readyPatience)
	}
	return left, l.ready
}

// logVacant notes that the lease has no holder, or has one again.
func (l *Lock) logVacant(vacant bool, left time.Duration) {
	if l.vacant = vacant; vacant {
		klog.Background().Info("The Lease is gone or has no holder, but was not released; waiting until the "+
			"last holder cannot act any more. If it has ended, restart this replica to take the lease at once",
			"lastHolder", l.seen.record.HolderIdentity, "for", left)
	}
}

// untilExpiry returns how long the holder that was last seen may still act. That is so as well if
// the Lease is gone or lacks a holder: unless that one has released it, somebody has deleted or
// changed it, or etcd was restored, which the holder does not know yet.
func (l *Lock) untilExpiry(found reading) time.Duration {
	if l.seen.record == nil || l.released(found) {
		return 0
	}
	return time.Until(l.since.Add(time.Duration(l.seen.record.LeaseDurationSeconds) * time.Second))
}

// released reports whether the holder that was last seen has released the lease, or a later one
// has. An earlier release, which is there again since etcd was restored, has fewer transitions, of
// which each change of the holder counts one, or an earlier time. Clocks of two holders may differ.
func (l *Lock) released(found reading) bool {
	now, seen := found.record, l.seen.record
	if now == nil || now.HolderIdentity != "" || now.LeaseDurationSeconds != releasedSeconds {
		return false
	}
	tolerance := time.Duration(0)
	if now.LeaderTransitions > seen.LeaderTransitions {
		tolerance = time.Duration(seen.LeaseDurationSeconds) * time.Second
	}
	return now.LeaderTransitions >= seen.LeaderTransitions &&
		now.RenewTime.Add(tolerance).Compare(seen.RenewTime.Time) >= 0
}

// takeable returns what was read such that the elector takes the lease, unless there was an error.
func (l *Lock) takeable(found reading) reading {
	if found.record == nil || found.holder() == l.cfg.Identity {
		return found
	}
	free := *found.record
	free.HolderIdentity = ""
	found.record = &free
	return found
}

// watched returns the record that the watch has. If it has none, or one without a holder, it may
// also be late: a read shows that.
func (l *Lock) watched(leases cache.Store) reading {
	object, exists, err := leases.GetByKey(l.cfg.Namespace + "/" + l.cfg.Name)
	if err != nil || !exists {
		return reading{}
	}
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&object.(*coordinationv1.Lease).Spec)
	raw, err := json.Marshal(record)
	if err != nil || record.HolderIdentity == "" {
		return reading{}
	}
	l.holder.Store(&record.HolderIdentity)
	return reading{record: record, raw: raw}
}

// Create creates the Lease, held by this process.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.LeaseLock.Create)
}

// Update takes, renews or releases the lease.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		return l.release(ctx, record)
	}
	return l.write(ctx, record, l.LeaseLock.Update)
}

// release writes a record without a holder. If that fails, because the Lease was changed since it
// was read or there is no answer, it reads the lease, and tries again if this process still holds
// it. Otherwise others would wait until it expires. It writes only over a record of this process.
func (l *Lock) release(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	// The elector releases the lease if it held it at the last renewal. After a pause of the
	// process another one may hold it, which Get has found.
	if l.lost {
		return ErrLost
	}
	l.cfg.Term.End()
	var err error
	for range releaseTries {
		if err = l.LeaseLock.Update(ctx, record); err == nil {
			l.holder.Store(&record.HolderIdentity)
			return nil
		}
		found := l.read(ctx)
		switch {
		case found.err != nil:
			return err
		case found.holder() == "": // it was released after all
			return nil
		case found.holder() != l.cfg.Identity:
			l.lost = true
			return ErrLost
		}
	}
	return err
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
		if !l.held && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) {
			l.overtaken(record)
		}
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

// overtaken notes that another process has written the Lease just before this one would have taken
// it. That process may hold the lease, although this one may never read so: somebody may delete or
// change the Lease meanwhile. record is the one that was not written.
func (l *Lock) overtaken(record resourcelock.LeaderElectionRecord) {
	if seen := l.seen.record; seen != nil {
		record.LeaseDurationSeconds = max(record.LeaseDurationSeconds, seen.LeaseDurationSeconds)
	}
	record.HolderIdentity, record.RenewTime = "", metav1.Time{} // of that process, they are not known
	l.seen, l.since = reading{record: &record}, time.Now()
}

// giveBack releases a lease that this process has taken while it began to stop, so that others need
// not wait until it expires.
func (l *Lock) giveBack(record resourcelock.LeaderElectionRecord) error {
	record.HolderIdentity, record.LeaseDurationSeconds, record.RenewTime = "", releasedSeconds, metav1.Now()
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.RetryPeriod)
	defer cancel()
	return errors.Join(ErrStopping, l.release(ctx, record))
}

// stopping reports whether the process has begun to stop.
func (l *Lock) stopping() bool { return isClosed(l.cfg.Stopping) }

// isReady reports whether this process is ready to lead.
func (l *Lock) isReady() bool { return l.ready == nil || isClosed(l.ready) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
