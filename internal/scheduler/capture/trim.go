// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The functions of this file and of objects.go return objects with the fields that decisions depend
// on, and with those alone: what they do not name is not in a file. The results share memory with
// the originals, which belong to informers.

// metaOf returns the metadata, with the annotations that are named.
func metaOf(m *metav1.ObjectMeta, annotations ...string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, Labels: m.Labels,
	}
	for i := range m.OwnerReferences {
		owner := &m.OwnerReferences[i]
		out.OwnerReferences = append(out.OwnerReferences, metav1.OwnerReference{
			APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: owner.Controller,
		})
	}
	for _, key := range annotations {
		if value, ok := m.Annotations[key]; ok {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[key] = value
		}
	}
	return out
}

// trimNode returns what decisions depend on of a node.
func trimNode(node *corev1.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: metaOf(&node.ObjectMeta, corev1.PreferAvoidPodsAnnotationKey)}
	out.Spec.Unschedulable = node.Spec.Unschedulable
	for _, taint := range node.Spec.Taints {
		out.Spec.Taints = append(out.Spec.Taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
	}
	out.Status.Allocatable, out.Status.Images, out.Status.DeclaredFeatures = node.Status.Allocatable, node.Status.Images, node.Status.DeclaredFeatures
	return out
}

// trimPod returns what decisions about a pod, and about others, depend on.
func trimPod(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metaOf(&pod.ObjectMeta, corev1.MirrorPodAnnotationKey)}
	if _, ok := out.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		out.Annotations[corev1.MirrorPodAnnotationKey] = "" // that it is there is what counts
	}
	in, spec := &pod.Spec, &out.Spec
	spec.NodeName, spec.SchedulerName, spec.NodeSelector, spec.Affinity = in.NodeName, in.SchedulerName, in.NodeSelector, in.Affinity
	spec.Tolerations, spec.TopologySpreadConstraints = in.Tolerations, in.TopologySpreadConstraints
	spec.Priority, spec.PreemptionPolicy, spec.RestartPolicy = in.Priority, in.PreemptionPolicy, in.RestartPolicy
	spec.Overhead, spec.HostNetwork, spec.HostUsers = in.Overhead, in.HostNetwork, in.HostUsers
	spec.SchedulingGates, spec.SchedulingGroup, spec.ResourceClaims = in.SchedulingGates, in.SchedulingGroup, in.ResourceClaims
	spec.Resources = trimResources(in.Resources)
	spec.InitContainers, spec.Containers = trimContainers(in.InitContainers), trimContainers(in.Containers)
	for i := range in.Volumes {
		if volume, ok := trimVolume(pod, &in.Volumes[i]); ok {
			spec.Volumes = append(spec.Volumes, volume)
		}
	}
	out.Status = trimPodStatus(&pod.Status)
	return out
}

func trimContainers(in []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for i := range in {
		c := &in[i]
		trimmed := corev1.Container{Name: c.Name, Image: c.Image, RestartPolicy: c.RestartPolicy, Resources: *trimResources(&c.Resources)}
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				trimmed.Ports = append(trimmed.Ports, corev1.ContainerPort{
					HostPort: port.HostPort, ContainerPort: port.ContainerPort, Protocol: port.Protocol, HostIP: port.HostIP,
				})
			}
		}
		for _, rule := range c.RestartPolicyRules {
			trimmed.RestartPolicyRules = append(trimmed.RestartPolicyRules, corev1.ContainerRestartRule{Action: rule.Action})
		}
		out = append(out, trimmed)
	}
	return out
}

func trimResources(in *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if in == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: in.Requests, Limits: in.Limits, Claims: in.Claims}
}

// trimVolume returns a volume that scheduling has to do with. An ephemeral volume becomes the claim
// that it stands for: its name is made of others, which a pseudonym could not be.
func trimVolume(pod *corev1.Pod, in *corev1.Volume) (corev1.Volume, bool) {
	out := corev1.Volume{Name: in.Name}
	switch {
	case in.PersistentVolumeClaim != nil:
		out.PersistentVolumeClaim = in.PersistentVolumeClaim
	case in.Ephemeral != nil:
		out.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pod.Name + "-" + in.Name}
	case in.GCEPersistentDisk != nil:
		out.GCEPersistentDisk = in.GCEPersistentDisk
	case in.AWSElasticBlockStore != nil:
		out.AWSElasticBlockStore = in.AWSElasticBlockStore
	case in.AzureDisk != nil:
		out.AzureDisk = in.AzureDisk
	case in.ISCSI != nil:
		out.ISCSI = &corev1.ISCSIVolumeSource{TargetPortal: in.ISCSI.TargetPortal, IQN: in.ISCSI.IQN, Lun: in.ISCSI.Lun, ReadOnly: in.ISCSI.ReadOnly}
	case in.RBD != nil:
		out.RBD = &corev1.RBDVolumeSource{CephMonitors: in.RBD.CephMonitors, RBDPool: in.RBD.RBDPool, RBDImage: in.RBD.RBDImage, ReadOnly: in.RBD.ReadOnly}
	default:
		return out, false
	}
	return out, true
}

func trimPodStatus(in *corev1.PodStatus) corev1.PodStatus {
	out := corev1.PodStatus{
		Phase: in.Phase, NominatedNodeName: in.NominatedNodeName, StartTime: in.StartTime,
		Resources: trimResources(in.Resources), AllocatedResources: in.AllocatedResources,
		ResourceClaimStatuses: in.ResourceClaimStatuses, ExtendedResourceClaimStatus: in.ExtendedResourceClaimStatus,
		InitContainerStatuses: trimStatuses(in.InitContainerStatuses), ContainerStatuses: trimStatuses(in.ContainerStatuses),
	}
	for i := range in.Conditions {
		c := &in.Conditions[i]
		if c.Type == corev1.PodScheduled || c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress {
			out.Conditions = append(out.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime})
		}
	}
	return out
}

// trimStatuses keeps the resources that kubelets report.
func trimStatuses(in []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for i := range in {
		if s := &in[i]; s.Resources != nil || len(s.AllocatedResources) > 0 {
			out = append(out, corev1.ContainerStatus{Name: s.Name, Resources: trimResources(s.Resources), AllocatedResources: s.AllocatedResources})
		}
	}
	return out
}
