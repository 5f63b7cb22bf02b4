// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// imageColumn holds the scores of ImageLocality.
type imageColumn struct {
	// names are those under which nodes may report the pods' images.
	names []string
	// Besides the node, a score depends on the number of nodes and, for each name, on the size of
	// the image and the number of nodes that have it. epoch is the epoch of the snapshot at which
	// these were looked up.
	epoch  uint64
	nodes  int
	known  []imageCount
	exists bool // some node has one of the images
	// scores are by slot and weighted; nil: all zeros. version counts how often scores of slots
	// other than those in the log have changed.
	scores  []int64
	version uint64
}

type imageCount struct {
	size  int64
	nodes int
}

// syncImages brings the scores of ImageLocality up to date with the snapshot. changes are those by
// which the rows were just updated.
func (l *localRows) syncImages(ctx context.Context, r *refresher, pod *corev1.Pod, changes []cache.Change,
	all bool) error {
	if l.setup.imageWeight == 0 {
		return nil
	}
	c := &l.images
	moved := l.lookUpImages(r.snapshot)
	if !c.exists {
		c.scores = nil
		return nil
	}
	if moved || all || c.scores == nil || 2*len(changes) > r.snapshot.Slots() {
		c.version++
		c.scores = resized(c.scores, len(l.verdict))
		for slot := range c.scores {
			if err := l.scoreImages(ctx, r, cache.Slot(slot), pod); err != nil {
				return err
			}
		}
		return nil
	}
	r.seen.reset(r.snapshot.Slots())
	for _, change := range changes {
		if r.seen.add(change.Slot) {
			if err := l.scoreImages(ctx, r, change.Slot, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookUpImages looks up what the scores of ImageLocality depend on besides the node, and reports
// whether any of it has changed.
func (l *localRows) lookUpImages(snapshot *cache.Snapshot) bool {
	c := &l.images
	if c.epoch == snapshot.ImagesEpoch() && c.nodes == snapshot.NumNodes() {
		return false
	}
	moved := c.nodes != snapshot.NumNodes()
	c.epoch, c.nodes, c.exists = snapshot.ImagesEpoch(), snapshot.NumNodes(), false
	for i, name := range c.names {
		var now imageCount
		now.size, now.nodes = snapshot.Image(name)
		moved = moved || now != c.known[i]
		c.known[i] = now
		c.exists = c.exists || now.nodes > 0
	}
	return moved
}

func (l *localRows) scoreImages(ctx context.Context, r *refresher, slot cache.Slot, pod *corev1.Pod) error {
	l.images.scores[slot] = 0
	if !l.accepts(slot) {
		return nil
	}
	var score [1]int64
	if status := r.plan.images.ScoreNode(ctx, l.state, pod, r.snapshot.Info(slot), score[:]); !status.IsSuccess() {
		return statusError(status)
	}
	if score[0] < fwk.MinScore || score[0] > fwk.MaxScore {
		return outOfRange(imagelocality.Name, score[0])
	}
	l.images.scores[slot] = score[0] * l.setup.imageWeight
	return nil
}
