// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// ImageLocality scores a node by the images of the pod that it has: by the size of each, and by the
// share of the nodes that have it. The fast path computes the score with the plugin's arithmetic,
// once for all nodes that have the same of these images.

// podImages are the images of a pod as far as ImageLocality depends on them.
type podImages struct {
	// sources is the number of the pod's containers, init containers and image volumes.
	sources int
	// names are the images that some node has, under the names that nodes report. times is how
	// often the pod uses each.
	names []string
	times []int64
}

// clear removes the images.
func (p *podImages) clear() { p.sources, p.names, p.times = 0, p.names[:0], p.times[:0] }

// read reads the images of a pod. It leaves out those that no node has, because they add to no
// score, and all of them if no node can get a score other than 0.
func (p *podImages) read(pod *corev1.Pod, snapshot *cache.Snapshot) {
	p.clear()
	for image := range podfields.Images(pod) {
		p.sources++
		name := reportedName(image)
		if _, nodes := snapshot.Image(name); nodes == 0 {
			continue
		}
		if i := slices.Index(p.names, name); i >= 0 {
			p.times[i]++
			continue
		}
		p.names, p.times = append(p.names, name), append(p.times, 1)
	}
	if !p.mayScore(snapshot) {
		p.clear()
	}
}

// mayScore reports whether a node with all of the images would get a score other than 0, which
// needs more than small images or images on few nodes. No node gets a higher one.
func (p *podImages) mayScore(snapshot *cache.Snapshot) bool {
	var most int64
	for i, name := range p.names {
		size, nodes := snapshot.Image(name)
		scaled := scaledSize(size, nodes, snapshot.NumNodes())
		if scaled > enoughForAll {
			return true // do not add up what may overflow
		}
		most += max(0, scaled) * p.times[i]
	}
	return imageScore(most, p.sources) > 0
}

// Constants of the plugin: the sum of sizes up to which the score is 0, and, for each source, the
// sum above which it is the highest.
const (
	leastImageBytes int64 = 23 << 20
	mostImageBytes  int64 = 1000 << 20
	enoughForAll    int64 = 1 << 40
)

// imageScore returns the plugin's score for a sum of scaled sizes.
func imageScore(sum int64, sources int) int64 {
	most := mostImageBytes * int64(sources)
	return fwk.MaxScore * (max(min(sum, most), leastImageBytes) - leastImageBytes) / (most - leastImageBytes)
}

// scaledSize returns the size of an image times the share of the nodes that have it.
func scaledSize(size int64, nodes, all int) int64 {
	return int64(float64(size) * (float64(nodes) / float64(all)))
}

// reportedName returns the name under which nodes report an image: without a tag, it has the tag
// "latest".
func reportedName(image string) string {
	if strings.LastIndexByte(image, ':') <= strings.LastIndexByte(image, '/') {
		return image + ":latest"
	}
	return image
}

// imageColumn holds the scores of ImageLocality for pods with the same images. All their rows share
// it. Nodes that have the same of the images are of one kind. The kind of a node changes only
// together with its node object, which the change log tells. The scores of the kinds also change
// when other nodes pull an image, come or go, and are computed again then, without any node being
// looked at.
type imageColumn struct {
	podImages
	key    string
	weight int64
	// users is the number of localRows that use the column. bytes is its size when it was last
	// accounted.
	users, bytes int

	// pos is the position in the log up to which kindOf is up to date.
	pos uint64
	// kindOf are the kinds by slot. Kind 0 has none of the images, as has a slot without a node.
	kindOf []int32
	kinds  []imageKind
	// numbers are the kinds by their images. free are those without nodes, the lowest last. A free
	// number is used again: all nodes that had it are in the log.
	numbers map[string]int32
	free    []int32
	has     []byte // scratch

	// scores are the weighted scores by kind, computed for nodes nodes in all and for the counts
	// and sizes in known. epoch is the epoch of the snapshot at which these were looked up. stale
	// is true if there are new kinds since.
	scores []int64
	nodes  int
	known  []imageCount
	epoch  uint64
	stale  bool
}

// imageKind is a set of the images, with one byte for each that is 1 if it is in the set, and the
// number of nodes that have these images (of kind 0, any number: it is always there).
type imageKind struct {
	has   string
	nodes int
}

type imageCount struct {
	size  int64
	nodes int
}

// holdImages returns the column for images, or nil if there are none. The caller must release it
// with classTable.releaseImages.
func (s *setup) holdImages(key []byte, images *podImages) *imageColumn {
	if len(images.names) == 0 {
		return nil
	}
	c, ok := s.imageColumns[string(key)]
	if !ok {
		c = &imageColumn{
			podImages: podImages{images.sources, slices.Clone(images.names), slices.Clone(images.times)},
			key:       string(key), weight: s.imageWeight,
			known: make([]imageCount, len(images.names)), has: make([]byte, len(images.names)),
		}
		s.imageColumns[c.key] = c
	}
	c.users++
	return c
}

// sync brings the column up to date with the snapshot.
func (c *imageColumn) sync(r *refresher) {
	snapshot, log := r.snapshot, r.snapshot.Log()
	if changes, ok := log.Since(c.pos); ok {
		c.kindOf = fitted(c.kindOf, snapshot.Slots(), 0)
		for _, change := range changes {
			if change.Kind != cache.PodAdded && change.Kind != cache.PodRemoved {
				c.read(snapshot, change.Slot)
				r.examined++
			}
		}
	} else {
		if c.pos != 0 {
			r.examined += snapshot.Slots()
		}
		c.rebuild(snapshot)
	}
	c.pos = log.End()
	if c.lookUp(snapshot) || c.stale {
		c.scoreKinds()
	}
}

// rebuild numbers the kinds anew. Rows and groups start again, too, because they have read the log
// up to pos at most.
func (c *imageColumn) rebuild(snapshot *cache.Snapshot) {
	none := string(make([]byte, len(c.names)))
	c.kindOf = resized(c.kindOf, snapshot.Slots())
	clear(c.kindOf)
	c.kinds, c.numbers = append(c.kinds[:0], imageKind{has: none}), map[string]int32{none: 0}
	c.free, c.stale = nil, true
	for slot := range c.kindOf {
		c.read(snapshot, cache.Slot(slot))
	}
}

// read reads which of the images the node in a slot has.
func (c *imageColumn) read(snapshot *cache.Snapshot, slot cache.Slot) {
	clear(c.has)
	if info := snapshot.Info(slot); info != nil {
		for i, name := range c.names {
			if _, ok := info.ImageStates[name]; ok {
				c.has[i] = 1
			}
		}
	}
	was := c.kindOf[slot]
	if c.kinds[was].has == string(c.has) {
		return
	}
	if was != 0 {
		c.leave(was)
	}
	c.kindOf[slot] = c.enter()
}

// enter counts a node with the images in has, and returns its kind.
func (c *imageColumn) enter() int32 {
	kind, ok := c.numbers[string(c.has)]
	if !ok {
		has := string(c.has)
		if last := len(c.free) - 1; last >= 0 {
			kind, c.free = c.free[last], c.free[:last]
		} else {
			kind = int32(len(c.kinds))
			c.kinds = append(c.kinds, imageKind{})
		}
		c.kinds[kind], c.numbers[has], c.stale = imageKind{has: has}, kind, true
	}
	c.kinds[kind].nodes++
	return kind
}

// leave reverts enter, for a kind other than 0.
func (c *imageColumn) leave(kind int32) {
	of := &c.kinds[kind]
	of.nodes--
	if of.nodes == 0 {
		delete(c.numbers, of.has)
		place, _ := slices.BinarySearchFunc(c.free, kind, func(a, b int32) int { return int(b - a) })
		c.free = slices.Insert(c.free, place, kind)
	}
}

// lookUp looks up what the scores depend on besides the kinds, and reports whether any of it has
// changed.
func (c *imageColumn) lookUp(snapshot *cache.Snapshot) bool {
	if c.epoch == snapshot.ImagesEpoch() && c.nodes == snapshot.NumNodes() {
		return false
	}
	moved := c.nodes != snapshot.NumNodes()
	c.epoch, c.nodes = snapshot.ImagesEpoch(), snapshot.NumNodes()
	for i, name := range c.names {
		var now imageCount
		now.size, now.nodes = snapshot.Image(name)
		moved = moved || now != c.known[i]
		c.known[i] = now
	}
	return moved
}

// scoreKinds computes the scores of all kinds.
func (c *imageColumn) scoreKinds() {
	c.stale = false
	c.scores = resized(c.scores, len(c.kinds))
	for kind := range c.kinds {
		var sum int64
		for i, has := range []byte(c.kinds[kind].has) {
			if has == 1 {
				sum += scaledSize(c.known[i].size, c.known[i].nodes, c.nodes) * c.times[i]
			}
		}
		c.scores[kind] = imageScore(sum, c.sources) * c.weight
	}
}

// of returns the weighted score of the node in a slot.
func (c *imageColumn) of(slot cache.Slot) int64 { return c.scores[c.kindOf[slot]] }

// size estimates the memory of the column.
func (c *imageColumn) size() int {
	return 512 + len(c.key) + 4*cap(c.kindOf) + (128+2*len(c.names))*cap(c.kinds)
}
