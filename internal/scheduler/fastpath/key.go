// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/livesched/livesched/internal/mapkey"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
)

// Pods belong to one class if their keys are equal. A key has two parts. The local part is
// everything that the local plugins of kindOf read: pods with the same local part share rows. The
// cross part is everything else that matters to PodTopologySpread and InterPodAffinity, both for
// this pod and for other pods once it runs. It contains the labels that some selector reads
// (topology.Mentions).
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

// quantities writes all entries, including zeros: a request of zero differs from no request.
func (w *keyWriter) quantities(list corev1.ResourceList) {
	w.Number(int64(len(list)))
	for _, name := range mapkey.Sorted(&w.Writer, list, nil) {
		w.Text(name)
		w.quantity(list[corev1.ResourceName(name)])
	}
}

func (w *keyWriter) quantity(q resource.Quantity) {
	if n, ok := q.AsInt64(); ok {
		w.Flag(true)
		w.Number(n)
		return
	}
	w.Flag(false)
	w.Text(q.String())
}

// local writes the local part of a pod's key.
func (w *keyWriter) local(pod *corev1.Pod) bool {
	spec := &pod.Spec
	w.Text(spec.NodeName)
	w.Map(spec.NodeSelector, nil)
	ok := true
	if has := spec.Affinity != nil && spec.Affinity.NodeAffinity != nil; has {
		w.Flag(true)
		ok = w.Message(spec.Affinity.NodeAffinity)
	} else {
		w.Flag(false)
	}
	w.Number(int64(len(spec.Tolerations)))
	for i := range spec.Tolerations {
		t := &spec.Tolerations[i]
		w.Text(t.Key)
		w.Text(string(t.Operator))
		w.Text(t.Value)
		w.Text(string(t.Effect))
	}
	w.eligibilityEnd = w.Len()
	w.quantities(spec.Overhead)
	w.Flag(spec.Resources != nil)
	if spec.Resources != nil {
		w.quantities(spec.Resources.Requests)
		w.quantities(spec.Resources.Limits)
	}
	w.containers(spec.Containers)
	w.containers(spec.InitContainers)
	for i := range spec.Volumes {
		if image := spec.Volumes[i].Image; image != nil {
			w.Flag(true)
			w.Text(image.Reference)
		}
	}
	w.Flag(false)
	return ok
}

func (w *keyWriter) containers(containers []corev1.Container) {
	w.Number(int64(len(containers)))
	for i := range containers {
		c := &containers[i]
		w.Text(c.Image)
		w.Flag(c.RestartPolicy != nil)
		if c.RestartPolicy != nil {
			w.Text(string(*c.RestartPolicy))
		}
		w.quantities(c.Resources.Requests)
		for j := range c.Ports {
			if port := &c.Ports[j]; port.HostPort != 0 {
				w.Number(int64(port.HostPort))
				w.Text(string(port.Protocol))
				w.Text(port.HostIP)
			}
		}
		w.Number(0) // no host port: the end of the list
	}
}

// cross writes the cross part of a pod's key.
func (w *keyWriter) cross(pod *corev1.Pod, mentions *topology.Mentions) bool {
	w.Text(pod.Namespace)
	w.Map(pod.Labels, mentions.Has)
	ok := true
	w.Number(int64(len(pod.Spec.TopologySpreadConstraints)))
	for i := range pod.Spec.TopologySpreadConstraints {
		ok = w.Message(&pod.Spec.TopologySpreadConstraints[i]) && ok
	}
	a := pod.Spec.Affinity
	if has := a != nil && a.PodAffinity != nil; has {
		w.Flag(true)
		ok = w.Message(a.PodAffinity) && ok
	} else {
		w.Flag(false)
	}
	if has := a != nil && a.PodAntiAffinity != nil; has {
		w.Flag(true)
		ok = w.Message(a.PodAntiAffinity) && ok
	} else {
		w.Flag(false)
	}
	// The default constraints of PodTopologySpread select what the pod's controller selects.
	owner := topology.ControllerOf(pod)
	w.Flag(owner != nil)
	if owner != nil {
		w.Text(owner.APIVersion)
		w.Text(owner.Kind)
		w.Text(owner.Name)
	}
	return ok
}

// ReportsResources reports whether a pod's status has resources, as that of a running pod has. The
// requests of the pod then do not follow from its spec.
func ReportsResources(pod *corev1.Pod) bool {
	status := &pod.Status
	return len(status.ContainerStatuses) > 0 || len(status.InitContainerStatuses) > 0 ||
		status.Resources != nil || len(status.AllocatedResources) > 0 || len(status.NodeAllocatableResourceClaimStatuses) > 0
}

// hasClaims reports whether a pod has claims of volumes or devices, or volumes that not every node
// can mount.
func hasClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || !ordinaryVolumes(pod.Spec.Volumes)
}

// ordinaryVolumes reports whether all volumes are of kinds that every node can mount any number of
// times.
func ordinaryVolumes(volumes []corev1.Volume) bool {
	for i := range volumes {
		if !ordinaryVolume(&volumes[i].VolumeSource) {
			return false
		}
	}
	return true
}

func ordinaryVolume(v *corev1.VolumeSource) bool {
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil ||
		v.HostPath != nil || v.Image != nil || v.NFS != nil || v.CSI != nil
}

// requestsExtended reports whether a pod requests anything but the resources that every node has.
// Such a resource may come from a device plugin, or be backed by devices of a DeviceClass.
func requestsExtended(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if hasExtended(containers[i].Resources.Requests) {
				return true
			}
		}
	}
	return hasExtended(pod.Spec.Overhead) || pod.Spec.Resources != nil && hasExtended(pod.Spec.Resources.Requests)
}

func hasExtended(list corev1.ResourceList) bool {
	for name := range list {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage {
			return true
		}
	}
	return false
}

// imageNames appends the names under which nodes may report the images of a pod: an image without a
// tag is reported with the tag "latest". Additional names do no harm.
func imageNames(names []string, pod *corev1.Pod) []string {
	add := func(name string) {
		for _, n := range [...]string{name, name + ":latest"} {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].Image)
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Image)
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			add(image.Reference)
		}
	}
	return names
}
