// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/livesched/livesched/test/controlplane/binaries"
)

// memberActs are faults of the processes and of their connections. Each act ends the fault that it
// began.
var memberActs = []act{
	{"kill replicas", 9 * time.Second, func(_ context.Context, a *actor) error {
		a.counts.add("replicas killed", 1)
		return a.crew.restart(a.rng.IntN(replicas), true)
	}},
	{"suspend replicas", 12 * time.Second, func(ctx context.Context, a *actor) error {
		m := a.member(ctx)
		if m == nil || !m.busy.TryLock() {
			return nil
		}
		defer m.busy.Unlock()
		if err := m.Suspend(); err != nil {
			return unlessEnded(m, err)
		}
		a.counts.add("replicas suspended", 1)
		a.rest(ctx, 6*time.Second) // about the duration of the lease
		return unlessEnded(m, m.Resume())
	}},
	{"impair links", 4 * time.Second, func(ctx context.Context, a *actor) error {
		m := a.member(ctx)
		if m == nil || !m.busy.TryLock() {
			return nil
		}
		defer m.busy.Unlock()
		length := 2 * time.Second
		if a.chance(20) {
			length = 8 * time.Second // it may lose the lease
		}
		var err error
		switch a.rng.IntN(5) {
		case 0:
			a.counts.add("links cut", 1)
			m.link.Cut()
		case 1:
			a.counts.add("links frozen", 1)
			err = m.link.Freeze()
		case 2:
			a.counts.add("links delayed", 1)
			err = m.link.Delay(time.Duration(1+a.rng.IntN(400)) * time.Millisecond)
		case 3:
			a.counts.add("links narrowed", 1)
			err = m.link.Narrow(20 + a.rng.IntN(200))
		case 4:
			a.counts.add("links reset", 1)
			err = m.link.Reset(time.Duration(a.rng.IntN(300)) * time.Millisecond)
		}
		a.rest(ctx, length)
		return errors.Join(err, m.link.Mend())
	}},
}

// terminateActs end replicas, which may take them ten seconds.
var terminateActs = []act{{"terminate replicas", 13 * time.Second, func(_ context.Context, a *actor) error {
	a.counts.add("replicas terminated", 1)
	return a.crew.restart(a.rng.IntN(replicas), false)
}}}

// member picks a member, which is often the leader.
func (a *actor) member(ctx context.Context) *member {
	if leader := a.crew.leader(ctx); leader != nil && a.chance(50) {
		return leader
	}
	all := a.crew.all()
	if len(all) == 0 {
		return nil
	}
	return one(a, all...)
}

// unlessEnded ignores the error of a signal to a process that has ended.
func unlessEnded(m *member, err error) error {
	select {
	case <-m.Done():
		return nil
	default:
		return err
	}
}

// longOutage is how long etcd hangs in a long run, shortOutage in a short one.
const (
	longOutage  = time.Minute
	shortOutage = 3 * time.Second
)

// controlPlaneActs restart and kill the API server, and let etcd hang for some time. It is one act,
// so that there is one fault at a time.
func controlPlaneActs(pause, etcdOutage time.Duration) []act {
	return []act{{"control plane", pause, func(ctx context.Context, a *actor) error {
		switch a.rng.IntN(3) {
		case 0:
			a.counts.add("API server restarted", 1)
			return a.bounce(ctx, binaries.APIServer, false)
		case 1:
			a.counts.add("API server killed", 1)
			return a.bounce(ctx, binaries.APIServer, true)
		}
		resume, err := a.cluster.Suspend(binaries.Etcd)
		if err != nil {
			return err
		}
		a.counts.add("etcd suspended", 1)
		a.pause(etcdOutage)
		return resume()
	}}}
}

// bounce ends a component of the control plane and starts it again a moment later.
func (a *actor) bounce(ctx context.Context, name string, kill bool) error {
	restart, err := a.cluster.End(name, kill)
	if err != nil {
		return err
	}
	a.pause(time.Duration(a.rng.Int64N(int64(3 * time.Second))))
	if err := restart(ctx); err != nil {
		a.mishap("restarting "+name, err) // which is never excused
	}
	return nil
}

// pause waits, even if the round is over.
func (a *actor) pause(d time.Duration) { <-time.After(d) }

// report asks a member to compare itself with the API server.
func (m *member) report() error { return unlessEnded(m, syscall.Kill(m.PID(), syscall.SIGUSR2)) }
