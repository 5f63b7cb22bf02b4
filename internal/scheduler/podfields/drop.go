// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podfields

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Drop removes from a bound pod the fields that only kubelets, or users who display the pod, read.
// It keeps every field of a bound pod that kube-scheduler's plugins read: metadata, requests and
// the kubelet's report of them, ports, claims, and volumes that have limits or exclusive access. It
// also keeps the fields that out-of-tree plugins are known to read: annotations, security contexts,
// and the condition PodScheduled with its time.
//
// It writes to a field only if that changes it: other pods, which are being read, may share it.
func Drop(pod *corev1.Pod) {
	spec, status := &pod.Spec, &pod.Status
	for _, containers := range containersOf(pod) {
		for i := range containers {
			dropOfContainer(&containers[i])
		}
	}
	drop(&spec.EphemeralContainers) // they have no requests
	dropIf(&spec.Volumes, holdsFiles)
	for _, statuses := range [...][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range statuses {
			dropOfStatus(&statuses[i])
		}
	}
	drop(&status.EphemeralContainerStatuses)
	drop(&status.PodIPs)
	drop(&status.HostIPs)
	dropIf(&status.Conditions, isStartup)
}

func dropOfContainer(c *corev1.Container) {
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

func dropOfStatus(s *corev1.ContainerStatus) {
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

func drop[T any](s *[]T) {
	if *s != nil {
		*s = nil
	}
}

// dropIf moves the values that stay to a new slice.
func dropIf[T any](s *[]T, removed func(T) bool) {
	if !slices.ContainsFunc(*s, removed) {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(*s), removed)
	if len(kept) == 0 {
		kept = nil
	}
	*s = kept
}

func clearIfSet[T comparable](v *T) {
	var zero T
	if *v != zero {
		*v = zero
	}
}
