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

	// mode is what the profile does. "Active": it schedules the pods that have
	// its scheduler name. "Shadow": it makes a decision of its own for the pods
	// of another profile, which spec.shadow names, and counts in status.shadow
	// how the decisions compare. It binds no pod, reserves and evicts nothing,
	// calls no extender, and needs no scheduler name. If unset, the mode is
	// Active.
	// +optional
	// +kubebuilder:validation:Enum=Active;Shadow
	Mode ProfileMode `json:"mode,omitempty"`

	// shadow names the profile that a profile of mode Shadow follows.
	// +optional
	Shadow *ShadowSpec `json:"shadow,omitempty"`

	// rollout configures how a change of the profile, or of its policy, takes
	// effect. If unset, it takes effect for all pods at once.
	// +optional
	Rollout *RolloutSpec `json:"rollout,omitempty"`

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

// ProfileMode is what a profile does.
type ProfileMode string

const (
	// ProfileActive schedules pods. It is the default.
	ProfileActive ProfileMode = "Active"
	// ProfileShadow makes a decision of its own for the pods of another profile.
	ProfileShadow ProfileMode = "Shadow"
)

// ShadowSpec configures what a profile of mode Shadow follows.
type ShadowSpec struct {
	// profileRef references the SchedulerProfile whose pods the shadow decides
	// along on. It must exist, and must not be a shadow itself.
	ProfileRef ProfileReference `json:"profileRef"`

	// samplePercent is the percentage of decisions that the shadow compares with
	// its own, chosen at random. From 1 to 100. Default: 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	SamplePercent *int32 `json:"samplePercent,omitempty"`
}

// ProfileReference references a SchedulerProfile.
type ProfileReference struct {
	// name of the SchedulerProfile.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
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

	// schedulerName is the scheduler name that selects the pods of this profile. A
	// shadow has none.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// active describes the revision of the profile that livesched schedules pods
	// with. It is absent if there is none: then the pods of this profile stay
	// pending.
	// +optional
	Active *ActiveProfile `json:"active,omitempty"`

	// rollout is the state of the roll-out of a change. It is absent unless
	// spec.rollout.strategy is Canary.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// shadow counts how the decisions of a shadow compare with those of the
	// profile that it follows. It is absent until there is one.
	// +optional
	Shadow *ShadowStatus `json:"shadow,omitempty"`
}

// ShadowStatus counts how the decisions of one revision of a shadow compare
// with those of one revision of the profile that it follows. The counts begin
// anew when either revision changes, and when another replica of livesched
// leads; until that one has decided, these are the last ones.
//
// decisions is the sum of agreed, nodeScoredLower, nodeRefused,
// activeOnlyFits and shadowOnlyFits.
type ShadowStatus struct {
	// profile is the name of the SchedulerProfile that the shadow follows.
	Profile string `json:"profile"`

	// profileRevision is the revision of that profile, and revision the one of
	// the shadow.
	ProfileRevision string `json:"profileRevision"`
	Revision        string `json:"revision"`

	// since is when the counts began.
	Since metav1.Time `json:"since"`

	// decisions is the number of decisions that were compared. A pod counts each
	// time that it is decided.
	Decisions int64 `json:"decisions"`

	// agreed is the number of decisions on which both agree: the node that was
	// chosen shares the highest total of the shadow, too, or the pod fits no node
	// with either.
	Agreed int64 `json:"agreed"`

	// nodeScoredLower is the number of decisions in which the pod fits the chosen
	// node with the shadow, too, but the shadow scores another node higher.
	NodeScoredLower int64 `json:"nodeScoredLower"`

	// nodeRefused is the number of decisions in which the filters of the shadow
	// refuse the chosen node, and accept another one.
	NodeRefused int64 `json:"nodeRefused"`

	// activeOnlyFits is the number of decisions in which the pod fits a node, but
	// none with the shadow.
	ActiveOnlyFits int64 `json:"activeOnlyFits"`

	// shadowOnlyFits is the number of decisions in which the pod fits no node,
	// but one with the shadow.
	ShadowOnlyFits int64 `json:"shadowOnlyFits"`

	// skipped is the number of sampled decisions that were not compared: an
	// extender of the profile filters or scores nodes for the pod, the pod has a
	// nominated node, it is placed with its group and uses ResourceClaims, a
	// plugin of the shadow failed, or shadows had used up their share of the time
	// of the scheduling loop.
	Skipped int64 `json:"skipped"`

	// scoreLoss is how much lower the shadow scores the chosen node than its best
	// node. It is absent until there is a sample.
	// +optional
	ScoreLoss *ShadowScoreLoss `json:"scoreLoss,omitempty"`

	// causes are the plugins that were found to cause a disagreement, the most
	// frequent first, at most 10. livesched looks for the cause of at most ten
	// disagreements a second.
	// +optional
	// +listType=atomic
	Causes []ShadowCause `json:"causes,omitempty"`

	// firstMismatch describes the first decision in which the pod fits a node
	// either with the shadow or with the profile, but not with both.
	// +optional
	FirstMismatch string `json:"firstMismatch,omitempty"`
}

// ShadowScoreLoss is the distribution of differences between two totals of a
// shadow: of its best node and of the node that was chosen, for decisions
// that are counted in nodeScoredLower. The unit is that of totals: the scores
// of the plugins, from 0 to 100 each, multiplied by their weights.
type ShadowScoreLoss struct {
	// samples is the number of differences, at most the latest 1000.
	Samples int64 `json:"samples"`

	// p50 and p99 are percentiles, and max is the greatest one.
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// ShadowCause is a plugin that causes disagreements.
type ShadowCause struct {
	// plugin is the name of the plugin: the first one whose filter refuses the
	// node with one of the two profiles only or, if the difference is in the
	// scores, the one that prefers the best node of the shadow to the chosen node
	// most, by its weighted scores.
	Plugin string `json:"plugin"`

	// extensionPoint is "Filter" or "Score".
	ExtensionPoint string `json:"extensionPoint"`

	// decisions is the number of disagreements of which it is the cause.
	Decisions int64 `json:"decisions"`
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
// +kubebuilder:validation:XValidation:rule="(has(self.spec.mode) && self.spec.mode == 'Shadow') == has(self.spec.shadow)",message="spec.shadow is required with mode Shadow, and not allowed without it",fieldPath=".spec.shadow"
// +kubebuilder:validation:XValidation:rule="!(has(self.spec.mode) && self.spec.mode == 'Shadow' && has(self.spec.rollout))",message="spec.rollout is not allowed with mode Shadow: a shadow decides no pods",fieldPath=".spec.rollout"
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
