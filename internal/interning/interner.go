// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/internal/mapkey"
)

// interner makes objects share their equal parts. Two parts are equal if their protobuf encodings
// are, which cover every field; the later object then refers to the earlier one's part.
//
// This is safe because nothing writes to the objects of an informer. Slices have no spare capacity,
// so that appending to one copies it.
//
// All methods may be called from any goroutine. mu guards the fields below it; it is contended only
// while informers of two kinds list at the same time.
type interner struct {
	// trimmed reports whether pods have been trimmed. Containers, container statuses and volumes of
	// untrimmed pods are never equal, because the volume of each pod's token has a unique name.
	// Remembering them would only keep parts of deleted pods.
	trimmed bool

	mu sync.Mutex

	key mapkey.Writer // of the current part; a buffer that is used again

	strings     memo[string]
	labels      memo[map[string]string] // and annotations
	owners      memo[[]metav1.OwnerReference]
	containers  memo[[]corev1.Container]
	volumes     memo[[]corev1.Volume]
	tolerations memo[[]corev1.Toleration]
	constraints memo[[]corev1.TopologySpreadConstraint]
	affinities  memo[*corev1.Affinity]
	specs       memo[*corev1.PodSpec] // without the parts above
	statuses    memo[[]corev1.ContainerStatus]

	resources memo[corev1.ResourceList]
	images    memo[[]string]
}

// newInterner returns an interner that remembers at most twice the limits of parts of each type.
func newInterner(most limits, trimmed bool) *interner {
	return &interner{
		trimmed:     trimmed,
		strings:     newMemo[string](most),
		labels:      newMemo[map[string]string](most),
		owners:      newMemo[[]metav1.OwnerReference](most),
		containers:  newMemo[[]corev1.Container](most),
		volumes:     newMemo[[]corev1.Volume](most),
		tolerations: newMemo[[]corev1.Toleration](most),
		constraints: newMemo[[]corev1.TopologySpreadConstraint](most),
		affinities:  newMemo[*corev1.Affinity](most),
		specs:       newMemo[*corev1.PodSpec](most),
		statuses:    newMemo[[]corev1.ContainerStatus](most),
		resources:   newMemo[corev1.ResourceList](most),
		images:      newMemo[[]string](most),
	}
}

// internPod replaces parts of a pod by equal parts of earlier pods.
func (in *interner) internPod(pod *corev1.Pod) {
	in.mu.Lock()
	defer in.mu.Unlock()
	internStringLocked(in, &pod.Namespace)
	internStringLocked(in, &pod.GenerateName)
	pod.Labels = in.internMapLocked(pod.Labels)
	pod.Annotations = in.internMapLocked(pod.Annotations)
	pod.OwnerReferences = internMessagesLocked(in, &in.owners, pod.OwnerReferences)
	in.internPodSpecLocked(&pod.Spec)
	in.internPodStatusLocked(&pod.Status)
}

// internPodSpecLocked interns the parts of a spec that are often equal in pods whose specs differ
// otherwise, and then the rest of the spec as a whole. Host name and node name belong to the pod.
func (in *interner) internPodSpecLocked(spec *corev1.PodSpec) {
	containers, initContainers, volumes := spec.Containers, spec.InitContainers, spec.Volumes
	if in.trimmed {
		containers = internMessagesLocked(in, &in.containers, containers)
		initContainers = internMessagesLocked(in, &in.containers, initContainers)
		volumes = internMessagesLocked(in, &in.volumes, volumes)
	}
	tolerations := internMessagesLocked(in, &in.tolerations, spec.Tolerations)
	constraints := internMessagesLocked(in, &in.constraints, spec.TopologySpreadConstraints)
	affinity := in.internAffinityLocked(spec.Affinity)
	nodeName, hostname := spec.NodeName, spec.Hostname

	spec.Containers, spec.InitContainers, spec.Volumes, spec.Tolerations, spec.TopologySpreadConstraints = nil, nil,
		nil, nil, nil
	spec.Affinity, spec.NodeName, spec.Hostname = nil, "", ""
	in.internSpecRestLocked(spec)

	spec.Containers, spec.InitContainers, spec.Volumes, spec.Tolerations = containers, initContainers, volumes,
		tolerations
	spec.TopologySpreadConstraints, spec.Affinity, spec.NodeName, spec.Hostname = constraints, affinity, nodeName,
		hostname
}

func (in *interner) internSpecRestLocked(spec *corev1.PodSpec) {
	in.key.Reset()
	if !in.key.Message(spec) {
		return
	}
	if known, ok := in.specs.get(in.key.Bytes()); ok {
		*spec = *known
		return
	}
	rest := *spec
	in.specs.put(in.key.Bytes(), &rest)
}

func (in *interner) internAffinityLocked(affinity *corev1.Affinity) *corev1.Affinity {
	if affinity == nil {
		return nil
	}
	in.key.Reset()
	if !in.key.Message(affinity) {
		return affinity
	}
	return in.affinities.getOrPut(in.key.Bytes(), affinity)
}

// internPodStatusLocked does not intern a status as a whole: its timestamps belong to the pod.
func (in *interner) internPodStatusLocked(status *corev1.PodStatus) {
	internStringLocked(in, &status.Phase)
	internStringLocked(in, &status.QOSClass)
	internStringLocked(in, &status.HostIP)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		internConditionLocked(in, &c.Type, &c.Status, &c.Reason, &c.Message)
	}
	status.Conditions = clip(status.Conditions)
	if in.trimmed {
		status.ContainerStatuses = internMessagesLocked(in, &in.statuses, status.ContainerStatuses)
		status.InitContainerStatuses = internMessagesLocked(in, &in.statuses, status.InitContainerStatuses)
	}
}

// internNode replaces parts of a node by equal parts of earlier nodes: image names, which are most
// of a node, resource lists, and the strings of its conditions and of its system information.
func (in *interner) internNode(node *corev1.Node) {
	in.mu.Lock()
	defer in.mu.Unlock()
	status := &node.Status
	for i := range status.Images {
		status.Images[i].Names = in.internImageNamesLocked(status.Images[i].Names)
	}
	status.Images = clip(status.Images)
	status.Capacity = in.internResourcesLocked(status.Capacity)
	status.Allocatable = in.internResourcesLocked(status.Allocatable)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		internConditionLocked(in, &c.Type, &c.Status, &c.Reason, &c.Message)
	}
	status.Conditions = clip(status.Conditions)
	system := &status.NodeInfo
	for _, field := range []*string{
		&system.KernelVersion, &system.OSImage, &system.ContainerRuntimeVersion, &system.KubeletVersion,
		&system.OperatingSystem, &system.Architecture,
	} {
		internStringLocked(in, field)
	}
}
