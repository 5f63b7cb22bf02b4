// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// This file removes fields from bound pods. It keeps every field of a bound pod that
// kube-scheduler's plugins read: metadata, requests and the kubelet's report of them, ports,
// claims, and volumes that have limits or exclusive access. It also keeps the fields that
// out-of-tree plugins are known to read: annotations, security contexts, and the condition
// PodScheduled with its time.
//
// It writes to a field only if that changes it: other pods, which are being read, may share it.

// trimPod removes the fields that only kubelets, or users who display the pod, read.
func trimPod(pod *corev1.Pod) {
	spec, status := &pod.Spec, &pod.Status
	for i := range spec.Containers {
		trimContainer(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		trimContainer(&spec.InitContainers[i])
	}
	drop(&spec.EphemeralContainers) // they have no requests
	if slices.ContainsFunc(spec.Volumes, holdsFiles) {
		spec.Volumes = without(spec.Volumes, holdsFiles)
	}

	for i := range status.ContainerStatuses {
		trimContainerStatus(&status.ContainerStatuses[i])
	}
	for i := range status.InitContainerStatuses {
		trimContainerStatus(&status.InitContainerStatuses[i])
	}
	drop(&status.EphemeralContainerStatuses)
	drop(&status.PodIPs)
	drop(&status.HostIPs)
	if slices.ContainsFunc(status.Conditions, isStartup) {
		status.Conditions = without(status.Conditions, isStartup)
	}
}

func trimContainer(c *corev1.Container) {
	drop(&c.Command)
	drop(&c.Args)
	drop(&c.Env)
	drop(&c.EnvFrom)
	drop(&c.VolumeMounts)
	drop(&c.VolumeDevices)
	clearIfSet(&c.WorkingDir)
	clearIfSet(&c.LivenessProbe)
	clearIfSet(&c.ReadinessProbe)
	clearIfSet(&c.StartupProbe)
	clearIfSet(&c.Lifecycle)
	clearIfSet(&c.TerminationMessagePath)
	clearIfSet(&c.TerminationMessagePolicy)
}

func trimContainerStatus(s *corev1.ContainerStatus) {
	clearIfSet(&s.State)
	clearIfSet(&s.LastTerminationState)
	clearIfSet(&s.ContainerID)
	drop(&s.VolumeMounts)
	clearIfSet(&s.User)
}

// holdsFiles reports whether the kubelet writes the files of a volume. So it does for the token of
// each pod, whose volume has a name that no other pod uses.
func holdsFiles(v corev1.Volume) bool {
	return v.Projected != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil
}

// isStartup reports whether a condition is a step on a pod's way to Ready. Ready itself is kept.
func isStartup(c corev1.PodCondition) bool {
	return c.Type == corev1.PodReadyToStartContainers || c.Type == corev1.PodInitialized || c.Type == corev1.ContainersReady
}

// without returns the values that are not removed, in a new slice, so that the removed ones are not
// kept in memory.
func without[T any](values []T, removed func(T) bool) []T {
	return clip(slices.DeleteFunc(slices.Clone(values), removed))
}

func drop[T any](s *[]T) {
	if *s != nil {
		*s = nil
	}
}

func clearIfSet[T comparable](v *T) {
	var zero T
	if *v != zero {
		*v = zero
	}
}
