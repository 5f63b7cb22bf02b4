// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podfields

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/mapkey"
)

// The functions of this file write a group of fields of a pod to a key, so that no two pods whose
// fields differ in meaning have the same key. Two pods that mean the same may have different keys.
// They return false if a field cannot be encoded; the key is then unusable.

// WriteNodeAffinity writes the node selector and the node affinity.
func WriteNodeAffinity(w *mapkey.Writer, pod *corev1.Pod) bool {
	w.Map(pod.Spec.NodeSelector, nil)
	return writeOptional(w, affinityOf(pod).NodeAffinity)
}

// WritePodAffinity writes the affinity and anti-affinity to pods. Terms without namespaces also
// depend on the namespace of the pod.
func WritePodAffinity(w *mapkey.Writer, pod *corev1.Pod) bool {
	affinity := affinityOf(pod)
	ok := writeOptional(w, affinity.PodAffinity)
	return writeOptional(w, affinity.PodAntiAffinity) && ok
}

var noAffinity corev1.Affinity

func affinityOf(pod *corev1.Pod) *corev1.Affinity {
	if pod.Spec.Affinity == nil {
		return &noAffinity
	}
	return pod.Spec.Affinity
}

func writeOptional[T any, P interface {
	*T
	mapkey.Message
}](w *mapkey.Writer, message P) bool {
	w.Flag(message != nil)
	return message == nil || w.Message(message)
}

// WriteSpread writes the topology spread constraints, without the labels of the pod that they refer
// to.
func WriteSpread(w *mapkey.Writer, pod *corev1.Pod) bool {
	constraints, ok := pod.Spec.TopologySpreadConstraints, true
	w.Number(int64(len(constraints)))
	for i := range constraints {
		ok = w.Message(&constraints[i]) && ok
	}
	return ok
}

// WriteController writes the controller of a pod as far as default spread constraints depend on it.
func WriteController(w *mapkey.Writer, pod *corev1.Pod) {
	owner := ControllerOf(pod)
	w.Flag(owner != nil)
	if owner != nil {
		w.Text(owner.APIVersion)
		w.Text(owner.Kind)
		w.Text(owner.Name)
	}
}

// ControllerOf returns the pod's controller if default spread constraints select what it selects,
// nil otherwise. They do so for the kinds that kube-scheduler's helper.DefaultSelector knows. Of
// other kinds, such as Job, each controller may have a single pod.
func ControllerOf(pod *corev1.Pod) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	switch owner.Kind {
	case "ReplicationController", "ReplicaSet", "StatefulSet":
		return owner
	}
	return nil
}

// WriteTolerations writes the tolerations, except for how long they last: that is read when a pod
// is evicted.
func WriteTolerations(w *mapkey.Writer, pod *corev1.Pod) bool {
	w.Number(int64(len(pod.Spec.Tolerations)))
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		w.Text(t.Key)
		w.Text(string(t.Operator))
		w.Text(t.Value)
		w.Text(string(t.Effect))
	}
	return true
}

// WriteRequests writes what the requests of a pod follow from, unless its status reports resources
// (see ReportsResources).
func WriteRequests(w *mapkey.Writer, pod *corev1.Pod) bool {
	writeQuantities(w, pod.Spec.Overhead)
	w.Flag(pod.Spec.Resources != nil)
	if pod.Spec.Resources != nil {
		writeQuantities(w, pod.Spec.Resources.Requests)
		writeQuantities(w, pod.Spec.Resources.Limits)
	}
	for _, containers := range containersOf(pod) {
		w.Number(int64(len(containers)))
		for i := range containers {
			w.Text(string(ptr.Deref(containers[i].RestartPolicy, "")))
			writeQuantities(w, containers[i].Resources.Requests)
		}
	}
	return true
}

// containersOf returns the containers that are scheduled: ephemeral containers request nothing.
func containersOf(pod *corev1.Pod) [2][]corev1.Container {
	return [...][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers}
}

// writeQuantities writes all entries, including zeros: a request of zero differs from no request.
func writeQuantities(w *mapkey.Writer, list corev1.ResourceList) {
	w.Number(int64(len(list)))
	for _, name := range mapkey.Sorted(w, list, nil) {
		w.Text(name)
		q := list[corev1.ResourceName(name)]
		n, ok := q.AsInt64()
		w.Flag(ok)
		if ok {
			w.Number(n)
		} else {
			w.Text(q.String())
		}
	}
}

// WriteHostPorts writes the host ports of a pod.
func WriteHostPorts(w *mapkey.Writer, pod *corev1.Pod) bool {
	for port := range hostPorts(pod) {
		w.Number(int64(port.HostPort))
		w.Text(string(port.Protocol))
		w.Text(port.HostIP)
	}
	w.Number(0) // no host port: the end of the list
	return true
}

// hostPorts returns the host ports that a pod occupies as long as it runs.
func hostPorts(pod *corev1.Pod) iter.Seq[*corev1.ContainerPort] {
	return func(yield func(*corev1.ContainerPort) bool) {
		for i, containers := range containersOf(pod) {
			for j := range containers {
				if i > 0 && ptr.Deref(containers[j].RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
					continue // it does not run as long as the pod
				}
				for k := range containers[j].Ports {
					if port := &containers[j].Ports[k]; port.HostPort > 0 && !yield(port) {
						return
					}
				}
			}
		}
	}
}

// Images returns the images of a pod: of its containers, and those that it mounts as volumes.
func Images(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, containers := range containersOf(pod) {
			for i := range containers {
				if !yield(containers[i].Image) {
					return
				}
			}
		}
		for i := range pod.Spec.Volumes {
			if image := pod.Spec.Volumes[i].Image; image != nil && !yield(image.Reference) {
				return
			}
		}
	}
}
