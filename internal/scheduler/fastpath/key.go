// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/mapkey"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// Pods belong to one class if their keys are equal. A key has two parts. The local part is
// everything that the local plugins of kindOf read: pods with the same local part share rows. The
// cross part is everything else that matters to PodTopologySpread and InterPodAffinity, both for
// this pod and for other pods once it runs. It contains the labels that some selector of pods in
// its namespace reads (topology.Mentions).
//
// No two pods that differ in what matters have the same key. Two equal pods may have different
// keys.
//
// Of the images of a pod, the key has those that ImageLocality may score nodes by now, so that pods
// whose images are on no node, or on few, belong to one class whatever their images are. A pod
// whose image comes to more nodes has another key from then on. What is kept for a key depends on
// the images in it, not on those of some pod, so it stays right.

// keyWriter writes keys.
type keyWriter struct {
	mapkey.Writer

	// eligibilityEnd is the end, within the local part, of the inputs of the plugins of kind
	// eligibility. imagesStart and imagesEnd are the bounds of the images in it. localEnd is the
	// end of the local part.
	eligibilityEnd, imagesStart, imagesEnd, localEnd int
	// images are those in the key that was last written.
	images podImages
	// rules are the conditions of the pod's volumes that are part of the key, nil if there are
	// none.
	rules *volumeRules
}

// write writes the key of a pod. It returns false if a plugin must be run for this pod.
func (w *keyWriter) write(plan *Plan, pod *corev1.Pod, mentions *topology.Mentions, snapshot *cache.Snapshot) bool {
	w.Reset()
	ok := w.local(plan, pod, snapshot) && plan.ownKeys(w, pod)
	w.localEnd = w.Len()
	return ok && w.cross(pod, mentions)
}

// class, localPart, eligibilityPart and imagesPart return the key of the class that was last
// written, and those of its rows. They are valid until the next key is written.
func (w *keyWriter) class() []byte           { return w.Bytes() }
func (w *keyWriter) localPart() []byte       { return w.Bytes()[:w.localEnd] }
func (w *keyWriter) eligibilityPart() []byte { return w.Bytes()[:w.eligibilityEnd] }
func (w *keyWriter) imagesPart() []byte      { return w.Bytes()[w.imagesStart:w.imagesEnd] }

// local writes the local part of a pod's key.
func (w *keyWriter) local(plan *Plan, pod *corev1.Pod, snapshot *cache.Snapshot) bool {
	w.Text(pod.Spec.NodeName)
	ok := podfields.WriteNodeAffinity(&w.Writer, pod) && podfields.WriteTolerations(&w.Writer, pod)
	if w.rules != nil {
		w.rules.write(&w.Writer)
	}
	w.eligibilityEnd = w.Len()
	ok = ok && podfields.WriteRequests(&w.Writer, pod) && podfields.WriteHostPorts(&w.Writer, pod)
	w.imagesStart = w.Len()
	w.writeImages(plan, pod, snapshot)
	w.imagesEnd = w.Len()
	return ok
}

// writeImages writes the images that make a difference to ImageLocality.
func (w *keyWriter) writeImages(plan *Plan, pod *corev1.Pod, snapshot *cache.Snapshot) {
	w.images.clear()
	if plan.imageWeight != 0 {
		w.images.read(pod, snapshot)
	}
	w.Number(int64(w.images.sources)) // 0: none make a difference
	w.Number(int64(len(w.images.names)))
	for i, name := range w.images.names {
		w.Text(name)
		w.Number(w.images.times[i])
	}
}

// cross writes the cross part of a pod's key. The default constraints of PodTopologySpread select
// what the pod's controller selects.
func (w *keyWriter) cross(pod *corev1.Pod, mentions *topology.Mentions) bool {
	w.Text(pod.Namespace)
	w.Map(pod.Labels, mentions.In(pod.Namespace).Has)
	podfields.WriteController(&w.Writer, pod)
	return podfields.WriteSpread(&w.Writer, pod) && podfields.WritePodAffinity(&w.Writer, pod)
}
