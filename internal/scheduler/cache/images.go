// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// imageStates counts the nodes that have an image, by image name. All NodeInfos with an image share
// its summary: all show the current number, and a hundred images on each of many nodes take little
// memory.
//
// The size of an image is the one that the first node with the image reported, as in
// kube-scheduler.
type imageStates struct {
	summaries map[string]*fwk.ImageStateSummary
	// epoch changes whenever a summary does.
	epoch uint64
}

// Image returns the size of an image in bytes and the number of nodes that have it. name is one of
// the names that nodes report. Both are 0 for an image that no node has.
func (s *Snapshot) Image(name string) (size int64, nodes int) {
	if summary, ok := s.images.summaries[name]; ok {
		return summary.Size, summary.NumNodes
	}
	return 0, 0
}

// add counts a node's images and returns the node's ImageStates.
func (s *imageStates) add(images []corev1.ContainerImage) map[string]*fwk.ImageStateSummary {
	states := make(map[string]*fwk.ImageStateSummary)
	for i := range images {
		for _, name := range images[i].Names {
			if _, ok := states[name]; ok {
				continue // listed twice by the node
			}
			summary, ok := s.summaries[name]
			if !ok {
				summary = &fwk.ImageStateSummary{Size: images[i].SizeBytes}
				s.summaries[name] = summary
			}
			summary.NumNodes++
			states[name] = summary
			s.epoch++
		}
	}
	return states
}

// remove reverts add.
func (s *imageStates) remove(states map[string]*fwk.ImageStateSummary) {
	for name, summary := range states {
		summary.NumNodes--
		if summary.NumNodes == 0 {
			delete(s.summaries, name)
		}
		s.epoch++
	}
}
