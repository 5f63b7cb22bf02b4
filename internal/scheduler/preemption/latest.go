// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// rememberLocked makes a preemption the last one of its preemptor.
func (e *Evictor) rememberLocked(p *preemption) {
	uid := p.preemptor.UID
	e.forgetLocked(uid)
	e.latest[uid] = p
	for _, v := range p.victims {
		e.preemptors[v.pod.UID] = append(e.preemptors[v.pod.UID], uid)
	}
}

// forgetLocked drops the last preemption of a preemptor, if there is one.
func (e *Evictor) forgetLocked(preemptor types.UID) {
	p := e.latest[preemptor]
	if p == nil {
		return
	}
	delete(e.latest, preemptor)
	for _, v := range p.victims {
		rest := slices.DeleteFunc(e.preemptors[v.pod.UID], func(uid types.UID) bool { return uid == preemptor })
		if len(rest) > 0 {
			e.preemptors[v.pod.UID] = rest
		} else {
			delete(e.preemptors, v.pod.UID)
		}
	}
}

// preemptorsOf returns the preemptors of a victim. The event of its end must wake them, wherever it
// was: they may wait for no other pod any more.
func (e *Evictor) preemptorsOf(victim types.UID) []types.UID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.preemptors[victim])
}

// awaited returns the victims of a pod's last preemption that the snapshot still has on their
// nodes. There are none if the pod is no longer nominated for its node, or if one of them could not
// be evicted and does not end. A victim that is back does not count.
func (e *Evictor) awaited(snapshot *cache.Snapshot, pod *corev1.Pod) (victims []*corev1.Pod) {
	if e == nil { // a fork evicts no pods
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.latest[pod.UID]
	if p == nil || !e.isNominated(p) {
		return nil
	}
	for _, v := range p.victims {
		known := onNode(snapshot, v.pod)
		switch {
		case v.state == failed && known != nil && known.DeletionTimestamp == nil:
			return nil
		case v.isBack(known): // it may be evicted again
		// A rejected victim that is there as another object was assumed again.
		case known == v.pod, known != nil && v.state != rejected:
			victims = append(victims, known)
		}
	}
	return victims
}

// IsVictim reports whether a pod is ending because it was preempted, according to its condition.
func IsVictim(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue &&
			c.Reason == corev1.PodReasonPreemptionByScheduler
	})
}

// onNode returns the pod that the snapshot has in place of a victim on its node, nil if it is gone.
func onNode(snapshot *cache.Snapshot, victim *corev1.Pod) *corev1.Pod {
	return podOn(snapshot, victim.Spec.NodeName, victim.UID)
}

// podOn returns a pod on a node, nil if it is not there.
func podOn(snapshot *cache.Snapshot, nodeName string, uid types.UID) *corev1.Pod {
	node, err := snapshot.Get(nodeName)
	if err != nil {
		return nil
	}
	for _, info := range node.GetPods() {
		if info.GetPod().UID == uid {
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
			e.forgetLocked(uid)
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
