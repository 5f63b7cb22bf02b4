// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/internal/mapkey"
)

// maxShared is the limit of each memo: more than there are workloads in a cluster of a million
// pods, as a rule. What is remembered of pods that are gone takes a few ten MB at most.
const maxShared = 16 << 10

// sharer has objects share what is equal in them: the pods of one ReplicaSet differ in little but
// their names, and the nodes of one pool in little but theirs. A part is taken for equal to another
// if both have the same encoding (protobuf, which tells all fields apart), and then the later
// object gets the earlier one's part.
//
// That is safe as objects of an informer are not written to, by nobody, ever. Slices have no spare
// capacity, so that who appends to one gets a copy.
//
// mu guards everything. It is only contended while informers of two kinds list at the same time.
type sharer struct {
	// trimmed says that pods are. Containers, their statuses and volumes of others are never equal,
	// as each pod has a token in a volume of its own name, and to remember them would only keep
	// what is left of pods that are gone.
	trimmed bool

	mu sync.Mutex

	key mapkey.Writer // of the part that is being looked at

	strings     memo[string]
	labels      memo[map[string]string]
	owners      memo[[]metav1.OwnerReference]
	containers  memo[[]corev1.Container]
	volumes     memo[[]corev1.Volume]
	tolerations memo[[]corev1.Toleration]
	constraints memo[[]corev1.TopologySpreadConstraint]
	affinities  memo[*corev1.Affinity]
	specs       memo[*corev1.PodSpec]
	statuses    memo[[]corev1.ContainerStatus]

	resources memo[corev1.ResourceList]
	images    memo[[]string]
}

// newSharer returns a sharer that remembers at most 2*limit parts of each type.
func newSharer(limit int, trimmed bool) *sharer {
	return &sharer{
		trimmed:     trimmed,
		strings:     newMemo[string](limit),
		labels:      newMemo[map[string]string](limit),
		owners:      newMemo[[]metav1.OwnerReference](limit),
		containers:  newMemo[[]corev1.Container](limit),
		volumes:     newMemo[[]corev1.Volume](limit),
		tolerations: newMemo[[]corev1.Toleration](limit),
		constraints: newMemo[[]corev1.TopologySpreadConstraint](limit),
		affinities:  newMemo[*corev1.Affinity](limit),
		specs:       newMemo[*corev1.PodSpec](limit),
		statuses:    newMemo[[]corev1.ContainerStatus](limit),
		resources:   newMemo[corev1.ResourceList](limit),
		images:      newMemo[[]string](limit),
	}
}

// sharePod gives a pod the parts of pods before it.
func (s *sharer) sharePod(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shareString(s, &pod.Namespace)
	shareString(s, &pod.GenerateName)
	pod.Labels = s.shareMap(&s.labels, pod.Labels)
	pod.Annotations = s.shareMap(&s.labels, pod.Annotations)
	pod.OwnerReferences = shareSlice(s, &s.owners, pod.OwnerReferences)
	s.shareSpec(pod)
	s.shareStatus(&pod.Status)
}

// shareSpec shares the parts of a spec that may be equal without the rest being so, and then the
// rest as a whole: all of it but the names of node and host, which are the pod's own.
func (s *sharer) shareSpec(pod *corev1.Pod) {
	spec := &pod.Spec
	containers, initContainers, volumes := spec.Containers, spec.InitContainers, spec.Volumes
	if s.trimmed {
		containers = shareSlice(s, &s.containers, containers)
		initContainers = shareSlice(s, &s.containers, initContainers)
		volumes = shareSlice(s, &s.volumes, volumes)
	}
	tolerations := shareSlice(s, &s.tolerations, spec.Tolerations)
	constraints := shareSlice(s, &s.constraints, spec.TopologySpreadConstraints)
	affinity := s.shareAffinity(spec.Affinity)
	nodeName, hostname := spec.NodeName, spec.Hostname

	spec.Containers, spec.InitContainers, spec.Volumes, spec.Tolerations, spec.TopologySpreadConstraints = nil, nil, nil, nil, nil
	spec.Affinity, spec.NodeName, spec.Hostname = nil, "", ""
	s.shareRest(spec)

	spec.Containers, spec.InitContainers, spec.Volumes, spec.Tolerations = containers, initContainers, volumes, tolerations
	spec.TopologySpreadConstraints, spec.Affinity, spec.NodeName, spec.Hostname = constraints, affinity, nodeName, hostname
}

func (s *sharer) shareRest(spec *corev1.PodSpec) {
	s.key.Reset()
	if !s.key.Message(spec) {
		return
	}
	if known, ok := s.specs.get(s.key.Bytes()); ok {
		*spec = *known
		return
	}
	rest := *spec
	s.specs.put(s.key.Bytes(), &rest)
}

func (s *sharer) shareAffinity(affinity *corev1.Affinity) *corev1.Affinity {
	if affinity == nil {
		return nil
	}
	s.key.Reset()
	if !s.key.Message(affinity) {
		return affinity
	}
	if known, ok := s.affinities.get(s.key.Bytes()); ok {
		return known
	}
	s.affinities.put(s.key.Bytes(), affinity)
	return affinity
}

// shareStatus shares less than shareSpec: the times in a status are the pod's own.
func (s *sharer) shareStatus(status *corev1.PodStatus) {
	shareString(s, &status.Phase)
	shareString(s, &status.QOSClass)
	shareString(s, &status.HostIP)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		shareCondition(s, &c.Type, &c.Status, &c.Reason, &c.Message)
	}
	status.Conditions = exact(status.Conditions)
	if s.trimmed {
		status.ContainerStatuses = shareSlice(s, &s.statuses, status.ContainerStatuses)
		status.InitContainerStatuses = shareSlice(s, &s.statuses, status.InitContainerStatuses)
	}
}

// shareNode gives a node the parts of nodes before it: the names of images, which are most of a
// node, the amounts of resources, and what its conditions and its system say.
func (s *sharer) shareNode(node *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := &node.Status
	for i := range status.Images {
		status.Images[i].Names = s.shareNames(status.Images[i].Names)
	}
	status.Images = exact(status.Images)
	status.Capacity = s.shareResources(status.Capacity)
	status.Allocatable = s.shareResources(status.Allocatable)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		shareCondition(s, &c.Type, &c.Status, &c.Reason, &c.Message)
	}
	status.Conditions = exact(status.Conditions)
	system := &status.NodeInfo
	for _, field := range []*string{
		&system.KernelVersion, &system.OSImage, &system.ContainerRuntimeVersion, &system.KubeletVersion,
		&system.OperatingSystem, &system.Architecture,
	} {
		shareString(s, field)
	}
}

// shareCondition shares what a condition of a pod or a node says.
func shareCondition[T ~string](s *sharer, kind *T, status *corev1.ConditionStatus, reason, message *string) {
	shareString(s, kind)
	shareString(s, status)
	shareString(s, reason)
	shareString(s, message)
}

// shareString replaces a string by an equal one.
func shareString[T ~string](s *sharer, v *T) {
	if *v == "" {
		return
	}
	s.key.Reset()
	s.key.Text(string(*v))
	if known, ok := s.strings.get(s.key.Bytes()); ok {
		*v = T(known)
		return
	}
	s.strings.put(s.key.Bytes(), string(*v))
}

func (s *sharer) shareMap(memo *memo[map[string]string], m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	s.key.Reset()
	s.key.Map(m, nil)
	if known, ok := memo.get(s.key.Bytes()); ok {
		return known
	}
	memo.put(s.key.Bytes(), m)
	return m
}

func (s *sharer) shareNames(names []string) []string {
	if len(names) == 0 {
		return names
	}
	s.key.Reset()
	for _, name := range names {
		s.key.Text(name)
	}
	if known, ok := s.images.get(s.key.Bytes()); ok {
		return known
	}
	names = exact(names)
	s.images.put(s.key.Bytes(), names)
	return names
}

func (s *sharer) shareResources(list corev1.ResourceList) corev1.ResourceList {
	if len(list) == 0 {
		return list
	}
	s.key.Reset()
	if !s.key.Message(&corev1.ResourceRequirements{Limits: list}) {
		return list
	}
	if known, ok := s.resources.get(s.key.Bytes()); ok {
		return known
	}
	s.resources.put(s.key.Bytes(), list)
	return list
}

func shareSlice[T any, P interface {
	*T
	mapkey.Message
}](s *sharer, memo *memo[[]T], values []T) []T {
	if len(values) == 0 {
		return values
	}
	s.key.Reset()
	for i := range values {
		if !s.key.Message(P(&values[i])) {
			return values
		}
	}
	if known, ok := memo.get(s.key.Bytes()); ok {
		return known
	}
	values = exact(values)
	memo.put(s.key.Bytes(), values)
	return values
}

// exact returns the same values with no capacity to spare, of which a decoder leaves up to as much
// as the values take.
func exact[T any](values []T) []T {
	if cap(values) == len(values) {
		return values
	}
	if len(values) == 0 {
		return nil
	}
	kept := make([]T, len(values))
	copy(kept, values)
	return kept
}
