// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// This file is about what a bound pod loses. Whatever a plugin of kube-scheduler's asks about a pod
// on a node stays: metadata, requests and what the kubelet reports of them, ports, claims, and
// volumes that are mounted once. So does what is known to be read by plugins of others:
// annotations, security contexts, the condition PodScheduled with its time.
//
// A field that has nothing to lose is not written to: it may be shared with pods that are being
// read.

// trimPod drops what only a kubelet, or somebody who looks at the pod, reads.
func trimPod(pod *corev1.Pod) {
	spec, status := &pod.Spec, &pod.Status
	for i := range spec.Containers {
		trimContainer(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		trimContainer(&spec.InitContainers[i])
	}
	drop(&spec.EphemeralContainers) // they have no requests
	if slices.ContainsFunc(spec.Volumes, ofFiles) {
		spec.Volumes = without(spec.Volumes, ofFiles)
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
	if slices.ContainsFunc(status.Conditions, ofStarting) {
		status.Conditions = without(status.Conditions, ofStarting)
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

// ofFiles says whether a volume is files that the kubelet writes. Among them is the token that
// every pod has, in a volume with a name of its own.
func ofFiles(v corev1.Volume) bool {
	return v.Projected != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil
}

// ofStarting says whether a condition is a step on a pod's way to being Ready, which is kept.
func ofStarting(c corev1.PodCondition) bool {
	return c.Type == corev1.PodReadyToStartContainers || c.Type == corev1.PodInitialized || c.Type == corev1.ContainersReady
}

// without returns the others in a slice of their own, so that those left out are not kept.
func without[T any](all []T, out func(T) bool) []T {
	return exact(slices.DeleteFunc(slices.Clone(all), out))
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
