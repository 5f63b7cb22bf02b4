// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"io"
	"math/rand/v2"
	"time"
)

// killReplica ends a process.
func (w *World) killReplica(r *rand.Rand) {
	if replica := one(r, w.replicas); !replica.over {
		replica.kill()
	}
}

// killProcess ends a process while it sends something.
func (w *World) killProcess(p *process) {
	for _, replica := range w.replicas {
		if replica.process == p && !replica.over {
			replica.kill()
		}
	}
}

// replaceReplicas ends a process as a rolling update does: it can finish what it does, and release
// the lease. At times all processes end.
func (w *World) replaceReplicas(r *rand.Rand) {
	replaced := []*replica{one(r, w.replicas)}
	if r.IntN(4) == 0 {
		replaced = w.replicas
	}
	for _, replica := range replaced {
		replica.replace()
	}
}

// stallReplica holds back all messages of a process for a while.
func (w *World) stallReplica(r *rand.Rand) {
	p := one(r, w.replicas).process
	p.stalled = time.Now().Add(time.Duration(r.Int64N(int64(30 * time.Second))))
	w.interrupt(p.stalled)
	w.log.add("%s has no network for %v", p.name, time.Until(p.stalled))
}

// endConnections makes the API server unavailable for a while, as when it starts again.
func (w *World) endConnections(r *rand.Rand) {
	w.outage = time.Now().Add(time.Duration(r.Int64N(int64(10 * time.Second))))
	w.interrupt(w.outage)
	w.log.add("the API server is down for %v", time.Until(w.outage))
	for _, s := range w.network.streamsOf(nil) {
		s.end([]error{io.EOF, errReset}[r.IntN(2)])
	}
}

// aim is a moment that the next restore of etcd waits for, since few draws would meet it.
type aim int

const (
	noAim aim = iota
	// aimBeforeDeletion: livesched learns that a pod with a node ends, and etcd is restored to the
	// time before.
	aimBeforeDeletion
	// aimBeforeAllocation: the same for the allocation of a claim that is reserved for no pod any
	// more.
	aimBeforeAllocation
	// aimBeforeStatus: the same for a status of a profile.
	aimBeforeStatus
)

// restore restores a backup of etcd, now or at a moment that draws would seldom meet.
func (w *World) restore(r *rand.Rand) {
	w.aim = one(r, []aim{noAim, noAim, noAim, aimBeforeDeletion, aimBeforeAllocation, aimBeforeStatus})
	if w.aim == noAim {
		w.restoreEtcd(r, w.cluster.revision-r.Int64N(one(r, []int64{20, 200})))
	}
}

// restoreIfAimed restores etcd in a moment, to a revision, if the next restore waits for that.
func (w *World) restoreIfAimed(at aim, revision int64) {
	if w.aim != at {
		return
	}
	w.aim = noAim
	r := w.kubelets
	w.after(50*time.Millisecond+time.Duration(r.Int64N(int64(450*time.Millisecond))), func() {
		w.counts["aimed restores"]++
		w.restoreEtcd(r, revision)
	})
}

// restoreEtcd restores a backup of etcd: objects have the resource versions of that time again.
// Later writes have versions beyond those that were lost, and older ones are gone, so no watch goes
// on. The API server is down meanwhile.
func (w *World) restoreEtcd(r *rand.Rand, revision int64) {
	w.observe()
	w.endConnections(r)
	w.excuse("etcd was restored")
	w.restored, w.term = time.Now(), term{}
	changes := w.etcd.Restore(max(w.cluster.oldest, revision))
	w.cluster.revision = w.etcd.Revision()
	w.cluster.oldest = w.cluster.revision
	for _, change := range changes {
		w.cluster.follow(change)
	}
	clear(w.cluster.aborted) // the leader knows better than the status that was restored
	// The policy may have been deleted at that time.
	w.after(30*time.Second, func() { w.restorePolicy(policyNames[0]) })
	// Users see that their last changes are gone.
	soon := func() time.Duration { return time.Duration(r.Int64N(int64(20 * time.Second))) }
	if w.plan.Actors["profiles"] > 0 {
		w.after(soon(), func() { w.changeProfiles(r) })
	}
	if w.plan.Actors["policies"] > 0 {
		w.after(soon(), func() { w.changePolicy(r) })
	}
}

// compact makes etcd forget what is older than a few minutes, or all but the present.
func (w *World) compact(r *rand.Rand) {
	revision := w.cluster.revision
	forget := func() {
		w.etcd.Compact(revision)
		w.cluster.oldest = max(w.cluster.oldest, revision)
	}
	if r.IntN(4) == 0 {
		forget()
		return
	}
	w.after(5*time.Minute, forget)
}
