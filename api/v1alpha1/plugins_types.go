// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// Plugins enables and disables plugins at each extension point. Settings for
// an extension point take precedence over multiPoint, and multiPoint takes
// precedence over the plugin set of the policy.
type Plugins struct {
	// preEnqueue plugins decide whether a pod may enter the active queue.
	// +optional
	PreEnqueue PluginSet `json:"preEnqueue,omitzero"`

	// queueSort plugin orders the scheduling queue. A plugin that is enabled here
	// replaces the queueSort of the policy; to replace PrioritySort, also disable
	// "*" here. A queueSort plugin other than PrioritySort must be enabled here,
	// not at multiPoint alone. All profiles share one queue: if they ask for
	// different orders, the oldest profile wins and the others are not accepted.
	// +optional
	QueueSort PluginSet `json:"queueSort,omitzero"`

	// preFilter plugins prepare the filtering of nodes: they process information
	// about the pod or the cluster.
	// +optional
	PreFilter PluginSet `json:"preFilter,omitzero"`

	// filter plugins exclude the nodes that cannot run the pod.
	// +optional
	Filter PluginSet `json:"filter,omitzero"`

	// postFilter plugins run if no node can run the pod, for example to preempt
	// other pods.
	// +optional
	PostFilter PluginSet `json:"postFilter,omitzero"`

	// preScore plugins prepare the scoring of the feasible nodes.
	// +optional
	PreScore PluginSet `json:"preScore,omitzero"`

	// score plugins rank the feasible nodes. The total score of a node is the sum
	// of the plugins' scores (0 to 100), each multiplied by the plugin's weight.
	// +optional
	Score PluginSet `json:"score,omitzero"`

	// reserve plugins reserve resources for the pod on the selected node, and
	// release them if the pod is not bound.
	// +optional
	Reserve PluginSet `json:"reserve,omitzero"`

	// permit plugins approve, delay or reject the binding of a pod.
	// +optional
	Permit PluginSet `json:"permit,omitzero"`

	// preBind plugins do the work that must precede binding, such as the
	// provisioning of volumes.
	// +optional
	PreBind PluginSet `json:"preBind,omitzero"`

	// bind plugins bind the pod to its node. They are called in order until one of
	// them handles the pod.
	// +optional
	Bind PluginSet `json:"bind,omitzero"`

	// postBind plugins run after the pod has been bound.
	// +optional
	PostBind PluginSet `json:"postBind,omitzero"`

	// multiPoint enables plugins at all extension points that they implement, or
	// disables them there.
	// +optional
	MultiPoint PluginSet `json:"multiPoint,omitzero"`

	// placementGenerate plugins propose placements for a group of pods. They have
	// no effect: livesched chooses the part of the cluster by itself.
	// +optional
	PlacementGenerate PluginSet `json:"placementGenerate,omitzero"`

	// placementScore plugins rank the placements of a group of pods. They have no
	// effect: livesched chooses the part of the cluster by itself.
	// +optional
	PlacementScore PluginSet `json:"placementScore,omitzero"`

	// podGroupPostFilter plugins make room for a group of pods that does not fit.
	// Groups preempt other pods if DefaultPreemption is enabled here and at
	// postFilter. livesched does not call other plugins here.
	// +optional
	PodGroupPostFilter PluginSet `json:"podGroupPostFilter,omitzero"`
}

// PluginSet enables and disables plugins at one extension point.
//
// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, p.name != '*')",message="'*' stands for all plugins: it can be disabled but not enabled",fieldPath=".enabled"
// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, self.enabled.exists_one(q, q.name == p.name))",message="a plugin can be enabled only once",fieldPath=".enabled",reason=FieldValueDuplicate
type PluginSet struct {
	// enabled plugins run in this order, after those of the plugin set that the
	// profile builds on. A plugin that is part of that set keeps its position and
	// gets the weight given here. At most 64 plugins, each once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Enabled []Plugin `json:"enabled,omitempty"`

	// disabled plugins are removed from the plugin set that the profile builds on.
	// The name "*" removes all plugins. At most 64 plugins, each once.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Disabled []Plugin `json:"disabled,omitempty"`
}

// Plugin selects a plugin and sets its weight.
type Plugin struct {
	// name of the plugin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// weight is the factor for the scores of the plugin. It has an effect at score
	// and multiPoint only. If 0 or unset, it is 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Weight *int32 `json:"weight,omitempty"`
}

// PluginConfig holds the arguments of one plugin.
type PluginConfig struct {
	// name of the plugin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// args of the plugin. For kube-scheduler's own plugins they are a kind of the
	// API group kubescheduler.config.k8s.io/v1, such as NodeResourcesFitArgs;
	// apiVersion and kind can be omitted, and omitted fields have the defaults of
	// that API group. Unknown fields are an error.
	// +optional
	// +nullable
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Args runtime.RawExtension `json:"args,omitzero"`
}

// ActivePlugins lists the plugins that run at each extension point, in the
// order in which they run.
type ActivePlugins struct {
	// preEnqueue plugins.
	// +optional
	// +listType=atomic
	PreEnqueue []string `json:"preEnqueue,omitempty"`

	// queueSort plugin.
	// +optional
	// +listType=atomic
	QueueSort []string `json:"queueSort,omitempty"`

	// preFilter plugins.
	// +optional
	// +listType=atomic
	PreFilter []string `json:"preFilter,omitempty"`

	// filter plugins.
	// +optional
	// +listType=atomic
	Filter []string `json:"filter,omitempty"`

	// postFilter plugins.
	// +optional
	// +listType=atomic
	PostFilter []string `json:"postFilter,omitempty"`

	// preScore plugins.
	// +optional
	// +listType=atomic
	PreScore []string `json:"preScore,omitempty"`

	// score plugins and their weights.
	// +optional
	// +listType=atomic
	Score []WeightedPlugin `json:"score,omitempty"`

	// reserve plugins.
	// +optional
	// +listType=atomic
	Reserve []string `json:"reserve,omitempty"`

	// permit plugins.
	// +optional
	// +listType=atomic
	Permit []string `json:"permit,omitempty"`

	// preBind plugins.
	// +optional
	// +listType=atomic
	PreBind []string `json:"preBind,omitempty"`

	// bind plugins.
	// +optional
	// +listType=atomic
	Bind []string `json:"bind,omitempty"`

	// postBind plugins.
	// +optional
	// +listType=atomic
	PostBind []string `json:"postBind,omitempty"`

	// placementGenerate plugins. livesched does not call them.
	// +optional
	// +listType=atomic
	PlacementGenerate []string `json:"placementGenerate,omitempty"`

	// placementScore plugins and their weights. livesched does not call them.
	// +optional
	// +listType=atomic
	PlacementScore []WeightedPlugin `json:"placementScore,omitempty"`

	// podGroupPostFilter plugins. livesched calls only DefaultPreemption.
	// +optional
	// +listType=atomic
	PodGroupPostFilter []string `json:"podGroupPostFilter,omitempty"`
}

// WeightedPlugin is a plugin that scores, with its weight.
type WeightedPlugin struct {
	// name of the plugin.
	Name string `json:"name"`
	// weight is the factor for the scores of the plugin.
	Weight int64 `json:"weight"`
}
