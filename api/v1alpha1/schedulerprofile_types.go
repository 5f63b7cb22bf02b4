// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SchedulerProfileSpec says which pods a profile schedules, and how.
type SchedulerProfileSpec struct {
	// schedulerName is the name by which pods choose this profile: it schedules
	// the pods whose spec.schedulerName equals it. When unset, it is the name of
	// this object. It cannot be changed once the object exists. Use
	// "default-scheduler" to schedule the pods that name no scheduler, if no other
	// scheduler does. At most 63 characters: lower case letters, digits, '-' and
	// '.', beginning and ending with a letter or digit. When two objects claim one
	// name, the older one has it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SchedulerName string `json:"schedulerName,omitempty"`

	// policyRef names the SchedulingPolicy that this profile builds on. The
	// default is the policy "default"; while there is no policy of that name, the
	// built-in defaults apply, which are those of kube-scheduler. A policy of any
	// other name has to exist.
	// +optional
	// +kubebuilder:default={name: "default"}
	PolicyRef PolicyReference `json:"policyRef,omitzero"`

	// percentageOfNodesToScore bounds the search for nodes where plugins have to
	// be asked node by node: it ends once this percentage of all nodes, and not
	// less than 100 nodes, was found feasible. 0 means every node. When unset,
	// the value of the policy applies.
	//
	// With the fast path, which is on unless the process was started with
	// --fast-path=off, that is the search of plugins for volumes and devices, for
	// pods that have such, and of plugins that do not say what they go by. What
	// is known without asking is known of every node.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	PercentageOfNodesToScore *int32 `json:"percentageOfNodesToScore,omitempty"`

	// plugins enables and disables plugins, for each extension point or for all of
	// them (multiPoint). It is merged over the plugin set of the policy's
	// algorithm source by the rules of kube-scheduler: what is enabled here is
	// added to that set or, where the plugin is part of it, replaces its weight;
	// what is disabled here is taken out of it. It has the shape of `plugins` in a
	// KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).
	// +optional
	Plugins *Plugins `json:"plugins,omitempty"`

	// pluginConfig holds the arguments of plugins, one entry for each plugin. A
	// plugin without an entry has its default arguments. It has the shape of
	// `pluginConfig` in a KubeSchedulerConfiguration
	// (kubescheduler.config.k8s.io/v1).
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	PluginConfig []PluginConfig `json:"pluginConfig,omitempty"`

	// revisionHistoryLimit is how many specs that ran before are kept, beside the
	// one that runs: as ControllerRevisions, to go back to. It is not part of what
	// is kept: to change it makes no new revision.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// PolicyReference names a SchedulingPolicy.
type PolicyReference struct {
	// name of the SchedulingPolicy.
	// +optional
	// +kubebuilder:default="default"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// SchedulerProfileStatus says whether a profile is valid and what of it
// decides.
type SchedulerProfileStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions of the profile. Accepted: is the spec valid, does it agree with
	// the other objects? Programmed: is this generation of the spec the one that
	// decides?
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// schedulerName is the name by which pods choose this profile.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// active is the revision of this profile that decides. It is absent while none
	// does.
	// +optional
	Active *ActiveProfile `json:"active,omitempty"`
}

// ActiveProfile is the revision of a profile that decides.
type ActiveProfile struct {
	// generation of the spec that decides. It is older than metadata.generation
	// while the last good spec is kept.
	Generation int64 `json:"generation"`

	// revision is a hash of all that the profile's decisions depend on. It changes
	// when, and only when, they may change.
	Revision string `json:"revision"`

	// since is the time at which this revision took over.
	Since metav1.Time `json:"since"`

	// policy that this revision was built on. It is absent where the built-in
	// defaults stand in for the policy "default".
	// +optional
	Policy *ActivePolicy `json:"policy,omitempty"`

	// plugins that run at each extension point, in the order in which they run.
	// +optional
	Plugins ActivePlugins `json:"plugins,omitzero"`
}

// ActivePolicy names the policy that a revision of a profile was built on.
type ActivePolicy struct {
	// name of the SchedulingPolicy.
	Name string `json:"name"`

	// generation of the policy's spec.
	Generation int64 `json:"generation"`
}

// SchedulerProfile is one way to schedule pods: pods choose it by its
// scheduler name. A change takes effect in the running scheduler, at once and
// as a whole. A change that is not valid is reported in the conditions and
// changes nothing: the last good revision goes on.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=sprof,categories=livesched
// +kubebuilder:printcolumn:name="Scheduler Name",type=string,JSONPath=`.status.schedulerName`,description="The name by which pods choose this profile"
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`,description="Whether the spec is valid"
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`,description="Whether this generation of the spec decides"
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.active.revision`,description="The revision that decides"
// +kubebuilder:printcolumn:name="Policy",type=string,priority=1,JSONPath=`.spec.policyRef.name`,description="The policy that the profile builds on"
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`,description="Why the spec was accepted or not"
// +kubebuilder:printcolumn:name="Programmed Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Programmed")].reason`,description="Why this generation decides or not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="(has(self.spec.schedulerName) ? self.spec.schedulerName : self.metadata.name) == (has(oldSelf.spec.schedulerName) ? oldSelf.spec.schedulerName : oldSelf.metadata.name)",message="spec.schedulerName is immutable: create another SchedulerProfile for another name",fieldPath=".spec.schedulerName",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.spec.schedulerName) || size(self.metadata.name) <= 63",message="metadata.name is longer than the 63 characters that a scheduler name may have: set spec.schedulerName"
type SchedulerProfile struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which pods the profile schedules, and how. An empty spec schedules
	// the pods that name this object as their scheduler by the rules of the policy
	// "default".
	// +optional
	// +kubebuilder:default={}
	Spec SchedulerProfileSpec `json:"spec,omitzero"`

	// status says whether the profile is valid and what of it decides.
	// +optional
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
