// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/cmd/livesched/app"
)

// changeLease deletes the Lease by which livesched elects the leader, or gives it another holder or
// none. The leader may act until it notices.
func (w *World) changeLease(r *rand.Rand) {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: ownNamespace, Name: app.NewOptions().LeaderElectionName}
	if err := w.cluster.objects.Get(w.ctx, key, lease); err != nil {
		w.must(err)
		return
	}
	w.leaseChanged = time.Now()
	switch r.IntN(3) {
	case 0:
		w.log.add("delete the Lease")
		w.must(w.cluster.objects.Delete(w.ctx, lease))
		return
	case 1:
		w.log.add("the Lease loses its holder")
		lease.Spec.HolderIdentity = ptr.To("")
	default:
		w.log.add("the Lease has another holder")
		lease.Spec.HolderIdentity = ptr.To("somebody-else")
	}
	w.must(w.cluster.objects.Update(w.ctx, lease))
}

// takesHastily reports whether a process that takes the lease has just started, and a user has just
// changed the Lease: the process cannot know that another one may still act.
func (w *World) takesHastily(p *process) bool {
	return time.Since(w.leaseChanged) < 2*leaseDuration && p.started.After(w.leaseChanged.Add(-4*leaseDuration))
}

// leaseDuration is how long a lease of the world lasts.
const leaseDuration = 15 * time.Second
