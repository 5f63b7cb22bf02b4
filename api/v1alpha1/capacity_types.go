// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Capacity asks how many more pods of a kind fit in the cluster. livesched
// decides one after the other in a copy of its state, until one fits nowhere.
// A capacity is not stored: the API server does not have this kind.
//
// +kubebuilder:object:root=true
type Capacity struct {
	metav1.TypeMeta `json:",inline"`

	// metadata has the namespace of the pods.
	// +optional
	Metadata metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	Spec CapacitySpec `json:"spec"`

	// status is the answer.
	// +optional
	Status CapacityStatus `json:"status,omitzero"`
}

// CapacitySpec is the pod that is counted.
type CapacitySpec struct {
	// pod is the pod. It is in the namespace of the request, and no admission
	// controller changes it. The API server's defaults apply.
	Pod corev1.Pod `json:"pod"`

	// podGroup counts groups of such pods, instead of single ones. If it is unset,
	// the PodGroup of the cluster that the pod names counts.
	// +optional
	PodGroup *CapacityPodGroup `json:"podGroup,omitempty"`

	// resourceClaimTemplates are the ResourceClaimTemplates that the pod refers to.
	// Each counted pod gets claims of its own. The API server's defaults apply.
	// +optional
	ResourceClaimTemplates []CapacityClaimTemplate `json:"resourceClaimTemplates,omitempty"`

	// nodes changes the nodes on which pods are decided.
	// +optional
	Nodes NodeChanges `json:"nodes,omitzero"`

	// limit ends the count. Default and maximum: 5000.
	// +optional
	Limit int32 `json:"limit,omitempty"`

	// seed chooses among nodes of equal score.
	// +optional
	Seed int64 `json:"seed,omitempty"`
}

// CapacityClaimTemplate is a ResourceClaimTemplate for the claims of counted pods.
type CapacityClaimTemplate struct {
	// name is the name by which the pod refers to the template.
	Name string `json:"name"`

	// spec is the spec of the claims.
	Spec resourcev1.ResourceClaimSpec `json:"spec"`
}

// CapacityPodGroup describes groups of equal pods that are placed together, as a
// PodGroup does.
type CapacityPodGroup struct {
	// minMember is the number of pods of each group, from 1 to 5000.
	MinMember int32 `json:"minMember"`

	// requiredTopology is the key of a node label. All pods of a group get nodes
	// with the same value of it.
	// +optional
	RequiredTopology string `json:"requiredTopology,omitempty"`

	// preferredTopology are keys of node labels, from the nearest to the farthest.
	// The pods of a group get nodes with the same value of the first key for which
	// the group fits, or else any nodes. At most 4.
	// +optional
	PreferredTopology []string `json:"preferredTopology,omitempty"`
}

// CapacityStatus is the number of pods that fit.
type CapacityStatus struct {
	// time is when the pods were counted.
	// +optional
	Time metav1.Time `json:"time,omitzero"`

	// profile is the name of the SchedulerProfile.
	Profile string `json:"profile"`
	// revision is the revision of the profile that decided.
	Revision string `json:"revision"`

	// extendersNotCalled reports whether the profile has extenders. They may
	// refuse some of the pods.
	// +optional
	ExtendersNotCalled bool `json:"extendersNotCalled,omitempty"`

	// pods is the number of pods that fit beside those that are bound.
	Pods int32 `json:"pods"`
	// podGroups is the number of groups that fit, if groups were counted. All their
	// pods are in pods.
	// +optional
	PodGroups int32 `json:"podGroups,omitempty"`
	// limited reports whether the count ended at its limit. More pods may fit.
	// +optional
	Limited bool `json:"limited,omitempty"`

	// podGroup reports how the PodGroup that the pod names was used. It is unset if the
	// pod names none, or with spec.podGroup.
	// +optional
	PodGroup *NamedPodGroup `json:"podGroup,omitempty"`

	// nodes is the number of nodes that the pods are on, and clusterNodes that
	// of all nodes.
	Nodes        int32 `json:"nodes"`
	ClusterNodes int32 `json:"clusterNodes"`

	// pools are the pools of these nodes, with the most pods first.
	// +optional
	Pools []PoolCapacity `json:"pools,omitempty"`

	// next is what keeps the next pod pending, as for a pod that is explained. It
	// is unset if the count ended at its limit.
	// +optional
	Next *NextPod `json:"next,omitempty"`
}

// PodGroupUse is how pods that name a PodGroup were counted.
type PodGroupUse string

const (
	// PodGroupTogether means that groups were counted: the pods of each are placed
	// together.
	PodGroupTogether PodGroupUse = "Together"
	// PodGroupOneByOne means that single pods were counted, because the PodGroup
	// does not require its pods to be placed together.
	PodGroupOneByOne PodGroupUse = "OneByOne"
	// PodGroupLeftToPlugin means that single pods were counted, because a plugin of
	// the profile places the pods of PodGroups.
	PodGroupLeftToPlugin PodGroupUse = "LeftToPlugin"
	// PodGroupNotFound means that single pods were counted, because there is no such
	// PodGroup. In the cluster, the pods would wait for it.
	PodGroupNotFound PodGroupUse = "NotFound"
	// PodGroupNotServed means that single pods were counted, because the API server
	// does not serve the API of the PodGroup. livesched ignores the name then.
	PodGroupNotServed PodGroupUse = "NotServed"
)

// NamedPodGroup is the PodGroup that a counted pod names.
type NamedPodGroup struct {
	// name is the name of the PodGroup, in the namespace of the pod.
	Name string `json:"name"`
	// apiVersion is the API of the PodGroup.
	APIVersion string `json:"apiVersion"`
	// use is Together, OneByOne, LeftToPlugin, NotFound or NotServed.
	Use PodGroupUse `json:"use"`

	// minMember is the number of pods of each group, if groups were counted.
	// +optional
	MinMember int32 `json:"minMember,omitempty"`
}

// PoolCapacity is the number of pods that fit in a node pool.
type PoolCapacity struct {
	// pool is the node pool, as in NodeGroup.
	Pool string `json:"pool"`

	// pods is the number of pods.
	Pods int32 `json:"pods"`

	// nodes is the number of nodes that they are on.
	Nodes int32 `json:"nodes"`
}

// NextPod is the first pod that does not fit, or a pod of the first group that does
// not fit.
type NextPod struct {
	// verdict is what keeps the pod pending. A pod of a group may fit by itself.
	Verdict Verdict `json:"verdict"`

	// message is a human-readable explanation of the verdict. For a group, it is
	// about the group. Names of nodes are left out if you may not list nodes.
	// +optional
	Message string `json:"message,omitempty"`

	// podGroup is how many pods of the group fit together.
	// +optional
	PodGroup *PodGroupFit `json:"podGroup,omitempty"`

	// podRefusals are the plugins that refuse it whatever the node is.
	// +optional
	PodRefusals []Refusal `json:"podRefusals,omitempty"`

	// groups are the nodes that refuse it.
	// +optional
	Groups []NodeGroup `json:"groups,omitempty"`

	// suggestions are changes of which each one lets it be scheduled.
	// +optional
	Suggestions []Suggestion `json:"suggestions,omitempty"`
}
