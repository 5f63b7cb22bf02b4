// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// LegacyPolicy is a set of predicates and priorities, as in the Policy API
// (kind Policy, apiVersion v1) of kube-scheduler 1.22 and before. Every name that
// it accepted from 1.10 on is accepted, and made of the plugins of today.
type LegacyPolicy struct {
	// predicates rule out the nodes that cannot run a pod. When absent, they are
	// those of DefaultProvider; an empty list leaves the mandatory ones,
	// PodToleratesNodeTaints and CheckNodeUnschedulable. Their order does not
	// matter, and a predicate that is named twice counts once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Predicates []PredicatePolicy `json:"predicates,omitzero"`

	// priorities rank the nodes that are left. When absent, they are those of
	// DefaultProvider, with its weights; an empty list leaves none. A priority
	// that is named twice counts once, and must have one weight.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Priorities []PriorityPolicy `json:"priorities,omitzero"`

	// hardPodAffinitySymmetricWeight is the weight of the preference for a node
	// that follows from another pod's required affinity to the pod: required
	// affinity is not symmetric, but a preference matches it. When unset, it is 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	HardPodAffinitySymmetricWeight *int32 `json:"hardPodAffinitySymmetricWeight,omitempty"`

	// alwaysCheckAllPredicates checks the remaining predicates on a node after one
	// has failed, so that all reasons are reported. It takes longer; where pods go
	// does not depend on it.
	// +optional
	AlwaysCheckAllPredicates bool `json:"alwaysCheckAllPredicates,omitempty"`
}

// PredicatePolicy is one predicate of a legacy policy.
type PredicatePolicy struct {
	// name of the predicate. A predicate with an argument can have any name that
	// is not that of a predicate without one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// argument of the predicate.
	// +optional
	Argument *PredicateArgument `json:"argument,omitempty"`
}

// PredicateArgument is the argument of a predicate.
//
// +kubebuilder:validation:XValidation:rule="has(self.serviceAffinity) != has(self.labelsPresence)",message="exactly one of serviceAffinity and labelsPresence must be set"
type PredicateArgument struct {
	// serviceAffinity keeps the pods of a service on nodes with equal values of
	// these labels.
	// +optional
	ServiceAffinity *ServiceAffinity `json:"serviceAffinity,omitempty"`

	// labelsPresence admits nodes by whether they have these labels, whatever the
	// values.
	// +optional
	LabelsPresence *LabelsPresence `json:"labelsPresence,omitempty"`
}

// ServiceAffinity keeps the pods of a service on nodes with equal values of
// some labels.
type ServiceAffinity struct {
	// labels of nodes.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	Labels []string `json:"labels"`
}

// LabelsPresence admits nodes by whether they have some labels.
type LabelsPresence struct {
	// labels of nodes.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	Labels []string `json:"labels"`

	// presence is true to admit the nodes that have all of the labels, false to
	// admit those that have none.
	// +optional
	Presence bool `json:"presence,omitempty"`
}

// PriorityPolicy is one priority of a legacy policy.
type PriorityPolicy struct {
	// name of the priority. A priority with an argument can have any name that
	// is not that of a priority without one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// weight by which the scores of the priority are multiplied. All priorities
	// with a labelPreference must have the same, as all with a
	// serviceAntiAffinity.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Weight int32 `json:"weight"`

	// argument of the priority.
	// +optional
	Argument *PriorityArgument `json:"argument,omitempty"`
}

// PriorityArgument is the argument of a priority.
//
// +kubebuilder:validation:XValidation:rule="[has(self.serviceAntiAffinity), has(self.labelPreference), has(self.requestedToCapacityRatioArguments)].filter(x, x).size() == 1",message="exactly one of serviceAntiAffinity, labelPreference and requestedToCapacityRatioArguments must be set"
type PriorityArgument struct {
	// serviceAntiAffinity spreads the pods of a service over the values of a
	// label.
	// +optional
	ServiceAntiAffinity *ServiceAntiAffinity `json:"serviceAntiAffinity,omitempty"`

	// labelPreference prefers nodes by whether they have a label, whatever its
	// value.
	// +optional
	LabelPreference *LabelPreference `json:"labelPreference,omitempty"`

	// requestedToCapacityRatioArguments scores nodes by the ratio of what is
	// requested to what they have. One priority of a policy can have them.
	// +optional
	RequestedToCapacityRatioArguments *RequestedToCapacityRatioArguments `json:"requestedToCapacityRatioArguments,omitempty"`
}

// ServiceAntiAffinity spreads the pods of a service over the values of a
// label.
type ServiceAntiAffinity struct {
	// label of nodes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Label string `json:"label"`
}

// LabelPreference prefers nodes by whether they have a label.
type LabelPreference struct {
	// label of nodes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Label string `json:"label"`

	// presence is true to prefer the nodes that have the label, false to prefer
	// those that have not.
	// +optional
	Presence bool `json:"presence,omitempty"`
}

// RequestedToCapacityRatioArguments scores nodes by the ratio of what is
// requested to what they have.
type RequestedToCapacityRatioArguments struct {
	// shape of the function from utilization to score: its points, by increasing
	// utilization.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=101
	Shape []UtilizationShapePoint `json:"shape"`

	// resources that count, each with its weight. When absent, they are cpu and
	// memory, with weight 1 each.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Resources []ResourceSpec `json:"resources,omitempty"`
}

// UtilizationShapePoint is one point of a function from utilization to score.
type UtilizationShapePoint struct {
	// utilization of a node in percent: 0 is empty, 100 is full.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Utilization int32 `json:"utilization"`

	// score of a node with this utilization.
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

	// weight of the resource. 0 or unset means 1. What counts is the ratio of
	// the weights, which must be one of whole numbers up to 100.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Weight int64 `json:"weight,omitempty"`
}
