// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SchedulingPolicySpec defines the settings that the profiles of a policy
// share.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podInitialBackoff) || !has(self.podMaxBackoff) || duration(self.podMaxBackoff) >= duration(self.podInitialBackoff)",message="podMaxBackoff must not be shorter than podInitialBackoff",fieldPath=".podMaxBackoff"
type SchedulingPolicySpec struct {
	// algorithmSource is the plugin set that profiles build on. If unset, it is
	// that of the provider DefaultProvider.
	// +optional
	AlgorithmSource *AlgorithmSource `json:"algorithmSource,omitempty"`

	// queueSort is the plugin that orders the scheduling queue. A queueSort plugin
	// that a profile enables takes precedence. If unset, it is PrioritySort. All
	// profiles share one queue: if they ask for different orders, the oldest
	// profile wins and the others are not accepted.
	// +optional
	QueueSort *QueueSort `json:"queueSort,omitempty"`

	// podInitialBackoff is the time for which a pod backs off after its first
	// failed scheduling attempt. It doubles with each further failed attempt, up
	// to podMaxBackoff. Default: 1s.
	//
	// The value is a duration such as "500ms", "10s" or "1m30s", with the units h,
	// m, s and ms, and longer than 0.
	// +optional
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than 0s"
	PodInitialBackoff *metav1.Duration `json:"podInitialBackoff,omitempty"`

	// podMaxBackoff is the longest time for which a pod backs off between two
	// scheduling attempts. It must not be shorter than podInitialBackoff. Default:
	// 10s.
	//
	// The value is a duration such as "500ms", "10s" or "1m30s", with the units h,
	// m, s and ms, and longer than 0.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than 0s"
	PodMaxBackoff *metav1.Duration `json:"podMaxBackoff,omitempty"`

	// podMaxInUnschedulablePods is the longest time for which an unschedulable pod
	// waits for an event in the cluster that may make it schedulable. After that
	// time it is retried without such an event. Default: 5m0s.
	//
	// The value is a duration such as "500ms", "10s" or "1m30s", with the units h,
	// m, s and ms, and longer than 0.
	// +optional
	// +kubebuilder:default="5m0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than 0s"
	PodMaxInUnschedulablePods *metav1.Duration `json:"podMaxInUnschedulablePods,omitempty"`

	// podGroupReserveAfter lets a group of pods that fits nowhere keep room once
	// it has waited for this time since its first scheduling attempt: pods with
	// the same or a lower priority are not placed where the pods of the group
	// will fit. After the same time the room is for everybody again, and so on
	// in turn, so that the group and small pods do not starve each other. Only
	// one group keeps room at a time, unless another one has a higher priority.
	// If unset, no group does.
	//
	// The value is a duration such as "30s", "10m" or "1h30m", with the units h, m
	// and s, and at least 1s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be 1s or longer"
	PodGroupReserveAfter *metav1.Duration `json:"podGroupReserveAfter,omitempty"`

	// percentageOfNodesToScore limits the search for feasible nodes: the search
	// for a pod ends when this percentage of all nodes, but at least 100 nodes,
	// has been found feasible. 0 means no limit. From 0 to 100. The value of a
	// profile takes precedence; its description explains the limit's effect on the
	// fast path. Default: 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	PercentageOfNodesToScore *int32 `json:"percentageOfNodesToScore,omitempty"`

	// parallelism is the number of goroutines that evaluate nodes for a pod at the
	// same time. At least 1. Default: 16.
	// +optional
	// +kubebuilder:default=16
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Parallelism *int32 `json:"parallelism,omitempty"`

	// extenders are HTTP services that take part in the scheduling of pods, at
	// most 16. livesched calls them in this order, those that are ignorable last.
	// Only one of them can have a bindVerb.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(e, has(e.bindVerb)).size() <= 1",message="only one extender can have a bindVerb"
	Extenders []Extender `json:"extenders,omitempty"`

	// revisionHistoryLimit is the number of former revisions of the spec to keep,
	// from 1 to 100, in addition to the active one. They are stored as
	// ControllerRevisions, and "kubectl livesched rollback" can restore them. The
	// oldest revisions beyond the limit are deleted. The limit is not part of a
	// revision: changing it does not create one. Default: 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// AlgorithmSource selects the plugin set that profiles build on: that of a
// provider or of a legacy policy. Exactly one of them must be set.
//
// +kubebuilder:validation:XValidation:rule="has(self.provider) != has(self.policy)",message="exactly one of provider and policy must be set"
type AlgorithmSource struct {
	// provider selects a built-in plugin set.
	// +optional
	Provider *AlgorithmProvider `json:"provider,omitempty"`

	// policy defines the plugin set by predicates and priorities, as in the Policy
	// API of kube-scheduler up to 1.22. Unlike a provider, it enables plugins at
	// single extension points, so a profile disables them there and not at
	// multiPoint.
	// +optional
	Policy *LegacyPolicy `json:"policy,omitempty"`
}

// AlgorithmProvider is the name of a built-in plugin set.
//
// +kubebuilder:validation:Enum=DefaultProvider;ClusterAutoscalerProvider
type AlgorithmProvider string

const (
	// DefaultProvider is the set of plugins that kube-scheduler runs by default.
	DefaultProvider AlgorithmProvider = "DefaultProvider"
	// ClusterAutoscalerProvider is DefaultProvider with the scoring strategy
	// MostAllocated instead of LeastAllocated, which packs pods onto few nodes. A
	// profile's arguments for NodeResourcesFit can set another strategy.
	ClusterAutoscalerProvider AlgorithmProvider = "ClusterAutoscalerProvider"
)

// QueueSort selects the plugin that orders the scheduling queue.
type QueueSort struct {
	// name of the plugin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// args of the plugin. If a profile has arguments for the plugin in its
	// pluginConfig, these replace them. If unset, the plugin has its default
	// arguments.
	// +optional
	// +nullable
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Args runtime.RawExtension `json:"args,omitzero"`
}

// SchedulingPolicyStatus is the observed state of a SchedulingPolicy.
type SchedulingPolicyStatus struct {
	// observedGeneration is the metadata.generation that this status describes. It
	// is -1 until livesched has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions of the policy. Accepted reports whether the spec is valid.
	// Programmed reports whether livesched schedules pods with this generation of
	// the spec in all profiles that build on it. Ready is true if this generation
	// is active. Stalled is present, and true, while it cannot become active
	// unless the spec is changed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// profiles are the names of the SchedulerProfiles that build on this policy,
	// in alphabetical order: those whose accepted spec does, and those whose
	// active revision does, although their present spec is not accepted.
	// +optional
	// +listType=set
	Profiles []string `json:"profiles,omitempty"`

	// profileCount is the number of profiles.
	// +optional
	ProfileCount int32 `json:"profileCount"`
}

// SchedulingPolicy defines settings that SchedulerProfiles share: the plugin
// set that they build on, the order and back-off times of the queue, the
// search for nodes, and extenders. A change takes effect at once in all
// profiles that reference the policy. Profiles that do not reference a policy
// use the policy "default".
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=spol,categories=livesched
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether this generation of the spec is active"
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`,description="Whether the spec is valid"
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`,description="Whether livesched schedules pods with this generation of the spec"
// +kubebuilder:printcolumn:name="Profiles",type=integer,JSONPath=`.status.profileCount`,description="The number of profiles that build on the policy"
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`,description="The reason of the condition Accepted"
// +kubebuilder:printcolumn:name="Programmed Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Programmed")].reason`,description="The reason of the condition Programmed"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SchedulingPolicy struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the settings that profiles share. An empty spec has
	// kube-scheduler's defaults, except that livesched scores every feasible node
	// (percentageOfNodesToScore: 0).
	// +optional
	// +kubebuilder:default={}
	Spec SchedulingPolicySpec `json:"spec,omitzero"`

	// status is the observed state of the policy. livesched writes it.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status SchedulingPolicyStatus `json:"status,omitzero"`
}

// SchedulingPolicyList is a list of SchedulingPolicies.
//
// +kubebuilder:object:root=true
type SchedulingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SchedulingPolicy `json:"items"`
}
