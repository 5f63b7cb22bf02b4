// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/mapkey"
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

// keyWriter writes keys.
type keyWriter struct {
	mapkey.Writer

	// eligibilityEnd is the end, within the local part, of the inputs of the plugins of kind
	// eligibility. localEnd is the end of the local part.
	eligibilityEnd, localEnd int
}

// write writes the key of a pod. It returns false if a plugin must be run for this pod.
func (w *keyWriter) write(plan *Plan, pod *corev1.Pod, mentions *topology.Mentions) bool {
	w.Reset()
	ok := w.local(pod) && plan.ownKeys(w, pod)
	w.localEnd = w.Len()
	return ok && w.cross(pod, mentions)
}

// class, localPart and eligibilityPart return the key of the class that was last written, and those
// of its rows. They are valid until the next key is written.
func (w *keyWriter) class() []byte           { return w.Bytes() }
func (w *keyWriter) localPart() []byte       { return w.Bytes()[:w.localEnd] }
func (w *keyWriter) eligibilityPart() []byte { return w.Bytes()[:w.eligibilityEnd] }

// local writes the local part of a pod's key.
func (w *keyWriter) local(pod *corev1.Pod) bool {
	w.Text(pod.Spec.NodeName)
	ok := podfields.WriteNodeAffinity(&w.Writer, pod) && podfields.WriteTolerations(&w.Writer, pod)
	w.eligibilityEnd = w.Len()
	ok = ok && podfields.WriteRequests(&w.Writer, pod) && podfields.WriteHostPorts(&w.Writer, pod)
	podfields.WriteImages(&w.Writer, pod)
	return ok
}

// cross writes the cross part of a pod's key. The default constraints of PodTopologySpread select
// what the pod's controller selects.
func (w *keyWriter) cross(pod *corev1.Pod, mentions *topology.Mentions) bool {
	w.Text(pod.Namespace)
	w.Map(pod.Labels, mentions.In(pod.Namespace).Has)
	podfields.WriteController(&w.Writer, pod)
	return podfields.WriteSpread(&w.Writer, pod) && podfields.WritePodAffinity(&w.Writer, pod)
}

// imageNames returns the names under which nodes may report the images of a pod: an image without a
// tag is reported with the tag "latest". Additional names do no harm.
func imageNames(pod *corev1.Pod) (names []string) {
	for image := range podfields.Images(pod) {
		for _, name := range [...]string{image, image + ":latest"} {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
