// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Stored returns a pod as the API server stores it: its UID is its name.
func Stored(namespace, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// Edited returns a copy of a pod with changes.
func Edited(pod *corev1.Pod, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// PodOf returns a small pod of the namespace default with a scheduler name. It ends immediately
// when it is deleted.
func PodOf(schedulerName, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := Pod(metav1.NamespaceDefault, name, schedulerName, "100m", "100Mi")
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// CPU makes a pod request an amount of CPU.
func CPU(quantity string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources = Pod("", "", "", quantity, "100Mi").Spec.Containers[0].Resources
	}
}

// Labelled gives a pod a label.
func Labelled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value) }
}

// OnNode puts a pod on a node.
func OnNode(nodeName string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = nodeName }
}

// Selecting makes a pod select nodes with a label.
func Selecting(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{key: value} }
}

// Gated gives a pod a scheduling gate.
func Gated(pod *corev1.Pod) {
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
}

// Witnessed gives a pod a finalizer, which keeps the deleted pod until it is released.
func Witnessed(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/witness"} }

// Prioritized gives a pod a priority class.
func Prioritized(class string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class }
}

// GatedBy gives a pod these scheduling gates and no others.
func GatedBy(gates ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = nil
		for _, gate := range gates {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates,
				corev1.PodSchedulingGate{Name: "example.com/" + gate})
		}
	}
}

// Tolerating makes a pod tolerate taints with the given keys, whatever their values and effects.
func Tolerating(keys ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, key := range keys {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations,
				corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
	}
}

// HostPort makes a pod request a port of its node.
func HostPort(port int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: port}}
	}
}

// HostTerm returns a term that selects pods with a label on the same node.
func HostTerm(key, value string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
		TopologyKey:   corev1.LabelHostname,
	}}
}

// Near makes a pod require a pod with a label on its node.
func Near(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: HostTerm(key, value)}}
	}
}

// AwayFrom makes a pod refuse nodes that have a pod with a label.
func AwayFrom(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: HostTerm(key,
				value)}}
	}
}

// Spreading spreads pods with the label app=spread over the values of a node label, with a skew of
// at most one.
func Spreading(topologyKey string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		Labelled("app", "spread")(pod)
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: topologyKey, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "spread"}},
		}}
	}
}

// TerminatesSlowly makes a deleted pod stay for a long time, like a pod whose containers take long
// to end.
func TerminatesSlowly(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600) }

// UsingClaim gives a pod a volume that uses a claim.
func UsingClaim(claim string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}
