// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SchedulerProfileSpec selects the pods that a profile schedules, and
// configures how it schedules them.
type SchedulerProfileSpec struct {
	// schedulerName selects the pods of this profile: it schedules the pods whose
	// spec.schedulerName has this value. If unset, it is the name of this object.
	// It is immutable: to use another name, create another SchedulerProfile.
	//
	// At most 63 characters: lower case letters, digits, '-' and '.', beginning
	// and ending with a letter or digit. If several profiles have the same
	// scheduler name, only the oldest is accepted. Pods that do not set
	// spec.schedulerName have "default-scheduler"; use that name only if no other
	// scheduler, such as kube-scheduler, does.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SchedulerName string `json:"schedulerName,omitempty"`

	// policyRef references the SchedulingPolicy that this profile builds on. If
	// unset, it references the policy "default". If no policy with the name
	// "default" exists, the built-in defaults apply, which are those of
	// kube-scheduler. A policy with any other name must exist, otherwise the
	// profile is not accepted.
	// +optional
	// +kubebuilder:default={name: "default"}
	PolicyRef PolicyReference `json:"policyRef,omitzero"`

	// percentageOfNodesToScore limits the search for feasible nodes: the search
	// for a pod ends when this percentage of all nodes, but at least 100 nodes,
	// has been found feasible. livesched scores the nodes found so far. 0 means no
	// limit. From 0 to 100. If unset, the value of the policy applies, which is 0
	// by default.
	//
	// The limit applies where livesched runs plugins node by node. With the fast
	// path, which is on unless livesched runs with --fast-path=off, these are the
	// plugins for volumes and devices, for pods that use volumes or devices, and
	// out-of-tree plugins that do not declare what their results depend on. The
	// fast path applies the results of all other plugins to every node.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	PercentageOfNodesToScore *int32 `json:"percentageOfNodesToScore,omitempty"`

	// plugins enables and disables plugins at each extension point, or at all of
	// them with multiPoint. It is merged over the plugin set of the policy by the
	// rules of kube-scheduler: an enabled plugin is added to the set or, if the
	// set has it already, gets the weight given here; a disabled plugin is removed
	// from the set. The format is that of `plugins` in a profile of a
	// KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1). If unset, the
	// profile runs the plugin set of the policy.
	// +optional
	Plugins *Plugins `json:"plugins,omitempty"`

	// pluginConfig holds the arguments of plugins, with at most one entry for each
	// plugin and at most 128 entries. A plugin without an entry has its default
	// arguments. The format is that of `pluginConfig` in a profile of a
	// KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	PluginConfig []PluginConfig `json:"pluginConfig,omitempty"`

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

// PolicyReference references a SchedulingPolicy.
type PolicyReference struct {
	// name of the SchedulingPolicy. Default: "default".
	// +optional
	// +kubebuilder:default="default"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// SchedulerProfileStatus is the observed state of a SchedulerProfile.
type SchedulerProfileStatus struct {
	// observedGeneration is the metadata.generation that this status describes. It
	// is -1 until livesched has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions of the profile. Accepted reports whether the spec is valid and
	// does not conflict with other objects. Programmed reports whether livesched
	// schedules pods with this generation of the spec. Ready is true if this
	// generation is active. Stalled is present, and true, while it cannot become
	// active unless the spec is changed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// schedulerName is the scheduler name that selects the pods of this profile.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// active describes the revision of the profile that livesched schedules pods
	// with. It is absent if there is none: then the pods of this profile stay
	// pending.
	// +optional
	Active *ActiveProfile `json:"active,omitempty"`
}

// ActiveProfile describes the revision of a profile that livesched schedules
// pods with.
type ActiveProfile struct {
	// generation is the metadata.generation of the active spec. It is less than
	// the current one while livesched keeps the last good spec.
	Generation int64 `json:"generation"`

	// revision is a hash of everything in the configuration that scheduling
	// decisions depend on. It changes if, and only if, decisions may change.
	Revision string `json:"revision"`

	// since is the time at which this revision became active.
	Since metav1.Time `json:"since"`

	// policy is the policy that this revision was built on. It is absent if no
	// policy with the name "default" exists and the built-in defaults apply.
	// +optional
	Policy *ActivePolicy `json:"policy,omitempty"`

	// plugins lists the plugins that run at each extension point, in the order in
	// which they run.
	// +optional
	Plugins ActivePlugins `json:"plugins,omitzero"`
}

// ActivePolicy identifies the policy that a revision of a profile was built
// on.
type ActivePolicy struct {
	// name of the SchedulingPolicy.
	Name string `json:"name"`

	// generation is the metadata.generation of the policy.
	Generation int64 `json:"generation"`
}

// SchedulerProfile configures how livesched schedules the pods that select it
// by its scheduler name. A change takes effect in the running scheduler at
// once and as a whole. If a change is not valid, livesched reports the error
// in the conditions and keeps the last good revision.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=sprof,categories=livesched
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether this generation of the spec is active"
// +kubebuilder:printcolumn:name="Scheduler Name",type=string,JSONPath=`.status.schedulerName`,description="The scheduler name that selects the pods of the profile"
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`,description="Whether the spec is valid"
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`,description="Whether livesched schedules pods with this generation of the spec"
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.active.revision`,description="The active revision"
// +kubebuilder:printcolumn:name="Policy",type=string,priority=1,JSONPath=`.spec.policyRef.name`,description="The policy that the profile builds on"
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`,description="The reason of the condition Accepted"
// +kubebuilder:printcolumn:name="Programmed Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Programmed")].reason`,description="The reason of the condition Programmed"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="(has(self.spec.schedulerName) ? self.spec.schedulerName : self.metadata.name) == (has(oldSelf.spec.schedulerName) ? oldSelf.spec.schedulerName : oldSelf.metadata.name)",message="spec.schedulerName is immutable: create another SchedulerProfile for another name",fieldPath=".spec.schedulerName",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.spec.schedulerName) || size(self.metadata.name) <= 63",message="metadata.name is longer than the 63 characters that a scheduler name may have: set spec.schedulerName"
type SchedulerProfile struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects the pods that the profile schedules, and configures how. With
	// an empty spec, the profile schedules the pods whose spec.schedulerName is
	// the name of this object, as the policy "default" defines.
	// +optional
	// +kubebuilder:default={}
	Spec SchedulerProfileSpec `json:"spec,omitzero"`

	// status is the observed state of the profile. livesched writes it.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status SchedulerProfileStatus `json:"status,omitzero"`
}

// SchedulerProfileList is a list of SchedulerProfiles.
//
// +kubebuilder:object:root=true
type SchedulerProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SchedulerProfile `json:"items"`
}
