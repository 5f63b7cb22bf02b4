// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// LegacyPolicy is a set of predicates and priorities, as in the Policy API
// (kind Policy, apiVersion v1) of kube-scheduler up to 1.22. livesched accepts
// all names that kube-scheduler accepted from 1.10 on, and implements them
// with current plugins.
type LegacyPolicy struct {
	// predicates exclude the nodes that cannot run a pod, at most 64. If unset,
	// they are the filters of DefaultProvider. An empty list keeps only the
	// mandatory predicates, PodToleratesNodeTaints and CheckNodeUnschedulable. The
	// order has no effect, and a repeated predicate counts once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Predicates []PredicatePolicy `json:"predicates,omitzero"`

	// priorities rank the feasible nodes, at most 64. If unset, they are the
	// scores of DefaultProvider with its weights. With an empty list, all feasible
	// nodes rank equal. A repeated priority counts once and must have the same
	// weight each time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Priorities []PriorityPolicy `json:"priorities,omitzero"`

	// hardPodAffinitySymmetricWeight is the weight, from 1 to 100, of the implicit
	// preference for the nodes of pods whose required affinity terms match the
	// pod: required affinity is not symmetric, but such a preference corresponds
	// to it. If unset, it is 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	HardPodAffinitySymmetricWeight *int32 `json:"hardPodAffinitySymmetricWeight,omitempty"`

	// alwaysCheckAllPredicates makes livesched evaluate all predicates on a node
	// even after one has failed, so that it can report all reasons. This takes
	// longer and does not change where pods are placed. Default: false.
	// +optional
	AlwaysCheckAllPredicates bool `json:"alwaysCheckAllPredicates,omitempty"`
}

// PredicatePolicy is one predicate of a legacy policy.
type PredicatePolicy struct {
	// name of the predicate. With an argument, the name can be any name except
	// the name of a predicate that takes no argument.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// argument of the predicate.
	// +optional
	Argument *PredicateArgument `json:"argument,omitempty"`
}

// PredicateArgument is the argument of a predicate. Exactly one field must be
// set.
//
// +kubebuilder:validation:XValidation:rule="has(self.serviceAffinity) != has(self.labelsPresence)",message="exactly one of serviceAffinity and labelsPresence must be set"
type PredicateArgument struct {
	// serviceAffinity keeps the pods of a Service on nodes that have equal values
	// of these labels.
	// +optional
	ServiceAffinity *ServiceAffinity `json:"serviceAffinity,omitempty"`

	// labelsPresence selects nodes by the presence or absence of labels, whatever
	// their values.
	// +optional
	LabelsPresence *LabelsPresence `json:"labelsPresence,omitempty"`
}

// ServiceAffinity keeps the pods of a Service on nodes that have equal values
// of some labels.
type ServiceAffinity struct {
	// labels are the keys of node labels, from 1 to 64.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	Labels []string `json:"labels"`
}

// LabelsPresence selects nodes by the presence or absence of labels.
type LabelsPresence struct {
	// labels are the keys of node labels, from 1 to 64.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	Labels []string `json:"labels"`

	// presence selects the nodes that have all of the labels if it is true, and
	// the nodes that have none of them if it is false. Default: false.
	// +optional
	Presence bool `json:"presence,omitempty"`
}

// PriorityPolicy is one priority of a legacy policy.
type PriorityPolicy struct {
	// name of the priority. With an argument, the name can be any name except that
	// of a priority that takes no argument.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// weight is the factor for the scores of the priority, at least 1. All
	// priorities with a labelPreference must have the same weight, and so must all
	// priorities with a serviceAntiAffinity.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Weight int32 `json:"weight"`

	// argument of the priority.
	// +optional
	Argument *PriorityArgument `json:"argument,omitempty"`
}

// PriorityArgument is the argument of a priority. Exactly one field must be
// set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.serviceAntiAffinity), has(self.labelPreference), has(self.requestedToCapacityRatioArguments)].filter(x, x).size() == 1",message="exactly one of serviceAntiAffinity, labelPreference and requestedToCapacityRatioArguments must be set"
type PriorityArgument struct {
	// serviceAntiAffinity spreads the pods of a Service over the values of a node
	// label.
	// +optional
	ServiceAntiAffinity *ServiceAntiAffinity `json:"serviceAntiAffinity,omitempty"`

	// labelPreference prefers nodes by the presence or absence of a label,
	// whatever its value.
	// +optional
	LabelPreference *LabelPreference `json:"labelPreference,omitempty"`

	// requestedToCapacityRatioArguments scores nodes by the ratio of requested
	// resources to allocatable resources. Only one priority of a policy can have
	// it.
	// +optional
	RequestedToCapacityRatioArguments *RequestedToCapacityRatioArguments `json:"requestedToCapacityRatioArguments,omitempty"`
}

// ServiceAntiAffinity spreads the pods of a Service over the values of a node
// label.
type ServiceAntiAffinity struct {
	// label is the key of the node label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Label string `json:"label"`
}

// LabelPreference prefers nodes by the presence or absence of a label.
type LabelPreference struct {
	// label is the key of the node label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Label string `json:"label"`

	// presence prefers the nodes that have the label if it is true, and the nodes
	// that do not have it if it is false. Default: false.
	// +optional
	Presence bool `json:"presence,omitempty"`
}

// RequestedToCapacityRatioArguments scores nodes by the ratio of requested
// resources to allocatable resources.
type RequestedToCapacityRatioArguments struct {
	// shape is the function from utilization to score: its points in the order of
	// increasing utilization, from 1 to 101 points.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=101
	Shape []UtilizationShapePoint `json:"shape"`

	// resources are the resources to consider, at most 64, each with its weight.
	// If unset, they are cpu and memory, each with weight 1.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Resources []ResourceSpec `json:"resources,omitempty"`
}

// UtilizationShapePoint is one point of the function from utilization to
// score.
type UtilizationShapePoint struct {
	// utilization of a node in percent: 0 is empty, 100 is full.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Utilization int32 `json:"utilization"`

	// score of a node with this utilization, from 0 to 10.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Score int32 `json:"score"`
}

// ResourceSpec is a resource and its weight.
type ResourceSpec struct {
	// name of the resource.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Name string `json:"name"`

	// weight of the resource. If 0 or unset, it is 1. Only the ratio of the
	// weights has an effect. It must be a ratio of whole numbers up to 100.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Weight int64 `json:"weight,omitempty"`
}
