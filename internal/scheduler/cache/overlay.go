// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Overlay tries placements and evictions on a snapshot: it puts pods on nodes and hides others, and
// in the end either takes all of that back or commits the pods to the cache. Only the snapshot
// shows what is tried. The cache, its forks, and all that the API server reports are not affected.
//
// While an overlay is open, UpdateSnapshot leaves the snapshot as it is, so that all decisions of
// an attempt depend on one state of the cluster and on each other. A snapshot has one overlay at a
// time. It belongs to the goroutine that owns the snapshot.
type Overlay struct {
	cache    *Cache
	snapshot *Snapshot
	logger   klog.Logger
	// tried is what was done, in order, and placed how many pods were placed.
	tried  []tried
	placed int
}

// tried is a pod that an overlay has placed or hidden.
type tried struct {
	slot  Slot
	info  *schedframework.PodInfo
	class ClassID
	// hidden means that the pod was the one with this index on its node.
	hidden bool
	index  int
}

// BeginOverlay brings a snapshot up to date, and opens an overlay on it. The caller must end it
// with Close, also after Commit. If UpdateSnapshot returns an error, there is no overlay.
func (c *Cache) BeginOverlay(logger klog.Logger, s *Snapshot) (*Overlay, error) {
	if err := c.UpdateSnapshot(logger, s); err != nil {
		return nil, err
	}
	s.overlay = &Overlay{cache: c, snapshot: s, logger: logger}
	return s.overlay, nil
}

// Placed returns the number of pods that the overlay on the snapshot has placed.
func (s *Snapshot) Placed() int {
	if s.overlay == nil {
		return 0
	}
	return s.overlay.placed
}

// Snapshot returns the snapshot, which shows what is tried.
func (o *Overlay) Snapshot() *Snapshot { return o.snapshot }

// Place puts a pod on the node that its spec names. The pod and info are used as AssumePod does, or
// as AssumePodOfClass does if the class is known.
//
// It returns [ErrKnownPod] if the node shows the pod already: another component may have bound it
// since it left the queue. A NodeInfo takes off the first pod with a UID, so with two of them
// RollbackTo would take off the one that is in the cache, and leave the other in its place. A pod
// that the snapshot shows on another node does no harm here; Commit refuses it.
func (o *Overlay) Place(info fwk.PodInfo, class Class) error {
	pod := info.GetPod()
	if err := checkAssigned(pod); err != nil {
		return err
	}
	slot, ok := o.snapshot.SlotOf(pod.Spec.NodeName)
	if !ok {
		return podError(ErrUnknownNode, pod, pod.Spec.NodeName)
	}
	if o.snapshot.indexOf(slot, pod) >= 0 {
		return podError(ErrKnownPod, pod, "it cannot be placed on its node again")
	}
	t := tried{slot: slot, info: assumedInfo(pod, info, class), class: class.ID}
	o.snapshot.beginRefresh()
	o.snapshot.placePod(slot, t.info, t.class)
	o.tried = append(o.tried, t)
	o.placed++
	return nil
}

// Hide takes pods off their nodes. It ignores pods that are on none.
func (o *Overlay) Hide(pods ...*corev1.Pod) error {
	s := o.snapshot
	for _, pod := range pods {
		slot, ok := s.SlotOf(pod.Spec.NodeName)
		if !ok {
			continue
		}
		index := s.indexOf(slot, pod)
		if index < 0 {
			continue
		}
		t := tried{slot: slot, info: s.infos[slot].Pods[index].(*schedframework.PodInfo), class: o.cache.classOf(pod),
			hidden: true, index: index}
		s.beginRefresh()
		if err := s.takePod(o.logger, slot, t.info.Pod, t.class); err != nil {
			return err
		}
		o.tried = append(o.tried, t)
	}
	return nil
}

// Rollback takes back all that was tried. The overlay stays open. An error means that the snapshot
// was not consistent; it has been repaired.
func (o *Overlay) Rollback() error { return o.RollbackTo(0) }

// Mark returns a mark for RollbackTo.
func (o *Overlay) Mark() int { return len(o.tried) }

// RollbackTo is Rollback of what was tried since Mark returned a mark.
func (o *Overlay) RollbackTo(mark int) error {
	s := o.snapshot
	var err error
	for _, t := range slices.Backward(o.tried[mark:]) {
		s.beginRefresh()
		if t.hidden {
			s.placePod(t.slot, t.info, t.class)
			s.swapLast(t.slot, t.index)
			continue
		}
		o.placed--
		err = errors.Join(err, s.takePod(o.logger, t.slot, t.info.Pod, t.class))
	}
	clear(o.tried[mark:])
	o.tried = o.tried[:mark]
	if err != nil {
		o.cache.refill(s)
		err = errors.Join(err, o.redo())
	}
	return err
}

// redo tries again, on a snapshot that was made anew, what has not been taken back.
func (o *Overlay) redo() (err error) {
	for _, t := range o.tried {
		o.snapshot.beginRefresh()
		if t.hidden {
			err = errors.Join(err, o.snapshot.takePod(o.logger, t.slot, t.info.Pod, t.class))
		} else {
			o.snapshot.placePod(t.slot, t.info, t.class)
		}
	}
	return err
}

// Commit assumes all pods in the cache that were placed, as AssumePod does, and ends the overlay.
// No pod may be hidden. If one of the pods is in the cache meanwhile, the error is [ErrKnownPod]:
// then nothing was assumed, and the overlay is as it was.
func (o *Overlay) Commit() error {
	c := o.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range o.tried {
		pod := o.tried[i].info.Pod
		if _, ok := c.pods[pod.UID]; ok {
			return podError(ErrKnownPod, pod, "it cannot be assumed")
		}
	}
	for i := range o.tried {
		t := &o.tried[i]
		c.changes++
		n := c.enterPodLocked(podState{info: t.info, class: t.class, assumed: true})
		// The snapshot shows the pod already. It does not show changes of the node since the
		// overlay was opened: so that the order of the pods is the same in both, the node is
		// rebuilt.
		if c.feed.pending() {
			c.feed.markStale(n)
		}
	}
	o.forget()
	o.snapshot.overlay = nil
	return nil
}

// Close takes back what was tried and not committed, and ends the overlay. It does nothing if the
// overlay has ended already. It returns the error of Rollback.
func (o *Overlay) Close() error {
	err := o.Rollback()
	o.snapshot.overlay = nil
	return err
}

// forget empties the list of what was tried.
func (o *Overlay) forget() {
	clear(o.tried)
	o.tried, o.placed = o.tried[:0], 0
}
