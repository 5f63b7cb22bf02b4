// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SchedulingPolicySpec is what the profiles that reference a policy build on
// and share.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podInitialBackoff) || !has(self.podMaxBackoff) || duration(self.podMaxBackoff) >= duration(self.podInitialBackoff)",message="podMaxBackoff must not be shorter than podInitialBackoff",fieldPath=".podMaxBackoff"
type SchedulingPolicySpec struct {
	// algorithmSource is the set of plugins that profiles build on. When unset, it
	// is the provider DefaultProvider.
	// +optional
	AlgorithmSource *AlgorithmSource `json:"algorithmSource,omitempty"`

	// queueSort is the plugin that orders the scheduling queue, unless a profile
	// enables one of its own. When unset, it is PrioritySort. There is one queue:
	// profiles that ask for different ones conflict, and the older profile has its
	// way.
	// +optional
	QueueSort *QueueSort `json:"queueSort,omitempty"`

	// podInitialBackoff is how long a pod waits after its first failed attempt
	// before it is tried again. The wait doubles with each further attempt.
	// +optional
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than 0s"
	PodInitialBackoff *metav1.Duration `json:"podInitialBackoff,omitempty"`

	// podMaxBackoff is the longest that a pod waits between two attempts. It must
	// not be shorter than podInitialBackoff.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than 0s"
	PodMaxBackoff *metav1.Duration `json:"podMaxBackoff,omitempty"`

	// podMaxInUnschedulablePods is how long an unschedulable pod waits for a
	// change in the cluster that may help it before it is tried again without one.
	// +optional
	// +kubebuilder:default="5m0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than 0s"
	PodMaxInUnschedulablePods *metav1.Duration `json:"podMaxInUnschedulablePods,omitempty"`

	// percentageOfNodesToScore bounds the search for nodes where plugins have to
	// be asked node by node: it ends once this percentage of all nodes, and not
	// less than 100 nodes, was found feasible. 0 means every node. A profile can
	// set its own, and says what it means with the fast path.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	PercentageOfNodesToScore *int32 `json:"percentageOfNodesToScore,omitempty"`

	// parallelism is the number of goroutines that look at nodes for one pod at a
	// time.
	// +optional
	// +kubebuilder:default=16
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Parallelism *int32 `json:"parallelism,omitempty"`

	// extenders are asked over HTTP about the nodes for a pod, in this order,
	// ignorable ones last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(e, has(e.bindVerb)).size() <= 1",message="only one extender can have a bindVerb"
	Extenders []Extender `json:"extenders,omitempty"`

	// revisionHistoryLimit is how many specs that ran before are kept, beside the
	// one that runs: as ControllerRevisions, to go back to. It is not part of what
	// is kept: to change it makes no new revision.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// AlgorithmSource is the set of plugins that profiles build on: either a
// provider's or that of a legacy policy.
//
// +kubebuilder:validation:XValidation:rule="has(self.provider) != has(self.policy)",message="exactly one of provider and policy must be set"
type AlgorithmSource struct {
	// provider names a set of plugins. DefaultProvider is the set that
	// kube-scheduler runs by default. ClusterAutoscalerProvider is the same set
	// with the scoring strategy MostAllocated in place of LeastAllocated, so that
	// pods are packed onto few nodes, unless a profile's arguments for
	// NodeResourcesFit have another strategy.
	// +optional
	Provider *AlgorithmProvider `json:"provider,omitempty"`

	// policy is a set of predicates and priorities, as in the Policy API of
	// kube-scheduler 1.22 and before. What profiles enable, disable and configure
	// is merged over it as over a provider, at each extension point by itself.
	// +optional
	Policy *LegacyPolicy `json:"policy,omitempty"`
}

// AlgorithmProvider names a set of plugins.
//
// +kubebuilder:validation:Enum=DefaultProvider;ClusterAutoscalerProvider
type AlgorithmProvider string

const (
	// DefaultProvider is the set of plugins that kube-scheduler runs by default.
	DefaultProvider AlgorithmProvider = "DefaultProvider"
	// ClusterAutoscalerProvider is DefaultProvider with the scoring strategy
	// MostAllocated.
	ClusterAutoscalerProvider AlgorithmProvider = "ClusterAutoscalerProvider"
)

// QueueSort is the plugin that orders the scheduling queue.
type QueueSort struct {
	// name of the plugin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// args of the plugin. Arguments that a profile's pluginConfig has for the
	// plugin take their place.
	// +optional
	// +nullable
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Args runtime.RawExtension `json:"args,omitzero"`
}

// SchedulingPolicyStatus says whether a policy is valid and which profiles
// build on it.
type SchedulingPolicyStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions of the policy. Accepted: is the spec valid? Programmed: is this
	// generation of the spec the one that decides, in all profiles that build on
	// it?
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// profiles are the names of the accepted SchedulerProfiles that build on this
	// policy, in alphabetical order.
	// +optional
	// +listType=set
	Profiles []string `json:"profiles,omitempty"`
}

// SchedulingPolicy is what SchedulerProfiles build on and share: the set of
// plugins to begin with, the order and the waiting times of the queue, and how
// much of the cluster is searched. A change takes effect at once in all
// profiles that reference the policy. The policy "default" applies to profiles
// that reference none.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=spol,categories=livesched
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`,description="Whether the spec is valid"
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`,description="Whether this generation of the spec decides"
// +kubebuilder:printcolumn:name="Profiles",type=string,JSONPath=`.status.profiles`,description="The accepted profiles that build on the policy"
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`,description="Why the spec was accepted or not"
// +kubebuilder:printcolumn:name="Programmed Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Programmed")].reason`,description="Why this generation decides or not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SchedulingPolicy struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what profiles build on and share. An empty spec has the defaults of
	// kube-scheduler, except that every node is scored.
	// +optional
	// +kubebuilder:default={}
	Spec SchedulingPolicySpec `json:"spec,omitzero"`

	// status says whether the policy is valid and which profiles build on it.
	// +optional
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
