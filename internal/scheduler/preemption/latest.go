// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// awaitsVictims reports whether a pod has to wait for the victims of its last preemption: the pod
// is still nominated for their node, the node may still fit once they are gone, and the snapshot
// has some of them there. status returns the reason why a node does not fit; nil: it is not known.
func (e *Evictor) awaitsVictims(snapshot *cache.Snapshot, pod *corev1.Pod, status func(node string) *fwk.Status) bool {
	if e == nil { // a fork evicts no pods
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.latest[pod.UID]
	if p == nil || !e.isNominated(p) {
		return false
	}
	if status != nil && status(p.node).Code() == fwk.UnschedulableAndUnresolvable {
		return false
	}
	waits := false
	for _, v := range p.victims {
		known := onNode(snapshot, v.pod)
		switch {
		case v.state == failed:
			return false
		// A rejected victim that is there as another object was assumed again.
		case known == v.pod, known != nil && v.state != rejected:
			waits = true
		}
	}
	return waits
}

// onNode returns the pod that the snapshot has in place of a victim on its node, nil if it is gone.
func onNode(snapshot *cache.Snapshot, victim *corev1.Pod) *corev1.Pod {
	node, err := snapshot.Get(victim.Spec.NodeName)
	if err != nil {
		return nil
	}
	for _, info := range node.GetPods() {
		if info.GetPod().UID == victim.UID {
			return info.GetPod()
		}
	}
	return nil
}

// minSweep keeps small maps from being swept for each preemption.
const minSweep = 64

// sweepLocked drops the preemptions whose preemptor is bound, deleted or nominated elsewhere.
func (e *Evictor) sweepLocked() {
	if len(e.latest) < e.sweepAt {
		return
	}
	clear(e.rejected)
	for uid, p := range e.latest {
		if e.active[uid] == nil && !e.isNominated(p) {
			delete(e.latest, uid)
			continue
		}
		for _, v := range p.victims {
			if v.state == rejected {
				e.rejected[v.pod] = struct{}{}
			}
		}
	}
	e.sweepAt = max(minSweep, 2*len(e.latest))
}
