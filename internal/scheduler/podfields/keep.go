// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podfields

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The functions with Keep in their names return objects with the fields that decisions depend on,
// and with those alone: what they do not name is not in a snapshot. The results share memory with
// the originals, which belong to informers.

// KeepMeta returns the metadata, with the annotations that are named.
func KeepMeta(m *metav1.ObjectMeta, annotations ...string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, Labels: m.Labels,
		OwnerReferences: m.OwnerReferences,
	}
	for _, key := range annotations {
		if value, ok := m.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&out, key, value)
		}
	}
	return out
}

// KeepNode returns what decisions depend on of a node.
func KeepNode(node *corev1.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: KeepMeta(&node.ObjectMeta, corev1.PreferAvoidPodsAnnotationKey)}
	out.Spec.Unschedulable, out.Spec.Taints = node.Spec.Unschedulable, node.Spec.Taints
	out.Status.Allocatable, out.Status.Images, out.Status.DeclaredFeatures = node.Status.Allocatable,
		node.Status.Images, node.Status.DeclaredFeatures
	return out
}

// Keep returns what decisions about a pod, and about others, depend on.
func Keep(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: KeepMeta(&pod.ObjectMeta)}
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		out.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: ""} // that it is there is what counts
	}
	in, spec := &pod.Spec, &out.Spec
	spec.NodeName, spec.SchedulerName, spec.NodeSelector, spec.Affinity = in.NodeName, in.SchedulerName,
		in.NodeSelector, in.Affinity
	spec.Tolerations, spec.TopologySpreadConstraints = in.Tolerations, in.TopologySpreadConstraints
	spec.Priority, spec.PreemptionPolicy, spec.RestartPolicy = in.Priority, in.PreemptionPolicy, in.RestartPolicy
	spec.Overhead, spec.Resources, spec.HostNetwork, spec.HostUsers = in.Overhead, in.Resources, in.HostNetwork,
		in.HostUsers
	spec.SchedulingGates, spec.SchedulingGroup, spec.ResourceClaims = in.SchedulingGates, in.SchedulingGroup,
		in.ResourceClaims
	spec.InitContainers, spec.Containers = keepContainers(in.InitContainers), keepContainers(in.Containers)
	for i := range in.EphemeralContainers {
		c := &in.EphemeralContainers[i]
		if mounts := keepMounts(c.VolumeMounts); len(mounts) > 0 {
			spec.EphemeralContainers = append(spec.EphemeralContainers, corev1.EphemeralContainer{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: c.Name, VolumeMounts: mounts}})
		}
	}
	for i := range in.Volumes {
		if source, ok := keepVolume(pod, &in.Volumes[i]); ok {
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: in.Volumes[i].Name, VolumeSource: source})
		}
	}
	keepStatus(&out.Status, &pod.Status)
	return out
}

// KeepForOthers returns what PodTopologySpread and InterPodAffinity read of a pod, whether they
// decide about it or about another pod beside it. Of its owners, that is the controller.
func KeepForOthers(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Labels: pod.Labels}}
	if owner := ControllerOf(pod); owner != nil {
		out.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	in, spec := &pod.Spec, &out.Spec
	spec.NodeSelector, spec.Affinity, spec.Tolerations = in.NodeSelector, in.Affinity, in.Tolerations
	spec.TopologySpreadConstraints = in.TopologySpreadConstraints
	return out
}

func keepContainers(in []corev1.Container) (out []corev1.Container) {
	for i := range in {
		c := &in[i]
		kept := corev1.Container{Name: c.Name, Image: c.Image, RestartPolicy: c.RestartPolicy,
			RestartPolicyRules: c.RestartPolicyRules, Resources: c.Resources, VolumeMounts: keepMounts(c.VolumeMounts)}
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				kept.Ports = append(kept.Ports, corev1.ContainerPort{
					HostPort: port.HostPort, ContainerPort: port.ContainerPort, Protocol: port.Protocol,
					HostIP: port.HostIP,
				})
			}
		}
		out = append(out, kept)
	}
	return out
}

// keepMounts keeps the mounts that need a feature of the node.
func keepMounts(in []corev1.VolumeMount) (out []corev1.VolumeMount) {
	for i := range in {
		if needsFeature(in[i]) {
			out = append(out, corev1.VolumeMount{BindMountOptions: in[i].BindMountOptions})
		}
	}
	return out
}

// needsFeature reports whether a mount needs a feature of the node.
func needsFeature(m corev1.VolumeMount) bool { return len(m.BindMountOptions) > 0 }

// keepVolume returns the source of a volume that scheduling has to do with. An ephemeral volume
// becomes the claim that it stands for: its name is made of others, which a pseudonym could not be.
func keepVolume(pod *corev1.Pod, in *corev1.Volume) (out corev1.VolumeSource, ok bool) {
	switch {
	case in.PersistentVolumeClaim != nil || in.GCEPersistentDisk != nil || in.AWSElasticBlockStore != nil ||
		in.AzureDisk != nil:
		out.PersistentVolumeClaim, out.GCEPersistentDisk = in.PersistentVolumeClaim, in.GCEPersistentDisk
		out.AWSElasticBlockStore, out.AzureDisk = in.AWSElasticBlockStore, in.AzureDisk
	case in.Ephemeral != nil:
		out.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pod.Name + "-" + in.Name}
	case in.Cinder != nil:
		out.Cinder = &corev1.CinderVolumeSource{VolumeID: in.Cinder.VolumeID}
	case in.PortworxVolume != nil:
		out.PortworxVolume = &corev1.PortworxVolumeSource{VolumeID: in.PortworxVolume.VolumeID}
	case in.Image != nil:
		out.Image = &corev1.ImageVolumeSource{Reference: in.Image.Reference}
	case in.ISCSI != nil:
		out.ISCSI = &corev1.ISCSIVolumeSource{TargetPortal: in.ISCSI.TargetPortal, IQN: in.ISCSI.IQN, Lun: in.ISCSI.Lun,
			ReadOnly: in.ISCSI.ReadOnly}
	case in.RBD != nil:
		out.RBD = &corev1.RBDVolumeSource{CephMonitors: in.RBD.CephMonitors, RBDPool: in.RBD.RBDPool,
			RBDImage: in.RBD.RBDImage, ReadOnly: in.RBD.ReadOnly}
	default:
		return out, false
	}
	return out, true
}

func keepStatus(out, in *corev1.PodStatus) {
	out.Phase, out.NominatedNodeName, out.StartTime = in.Phase, in.NominatedNodeName, in.StartTime
	out.Resources, out.AllocatedResources = in.Resources, in.AllocatedResources
	out.ResourceClaimStatuses, out.ExtendedResourceClaimStatus = in.ResourceClaimStatuses,
		in.ExtendedResourceClaimStatus
	out.NodeAllocatableResourceClaimStatuses = in.NodeAllocatableResourceClaimStatuses
	out.InitContainerStatuses, out.ContainerStatuses = keepStatuses(in.InitContainerStatuses),
		keepStatuses(in.ContainerStatuses)
	for i := range in.Conditions {
		c := &in.Conditions[i]
		if c.Type == corev1.PodScheduled || c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress {
			out.Conditions = append(out.Conditions,
				corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason,
					LastTransitionTime: c.LastTransitionTime})
		}
	}
}

// keepStatuses keeps the resources that kubelets report.
func keepStatuses(in []corev1.ContainerStatus) (out []corev1.ContainerStatus) {
	for i := range in {
		if s := &in[i]; s.Resources != nil || len(s.AllocatedResources) > 0 {
			out = append(out, corev1.ContainerStatus{Name: s.Name, Resources: s.Resources,
				AllocatedResources: s.AllocatedResources})
		}
	}
	return out
}

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
	if !slices.ContainsFunc(c.VolumeMounts, needsFeature) {
		drop(&c.VolumeMounts)
	}
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
	return c.Type == corev1.PodReadyToStartContainers || c.Type == corev1.PodInitialized ||
		c.Type == corev1.ContainersReady
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
