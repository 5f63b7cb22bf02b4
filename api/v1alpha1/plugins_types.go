// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// Plugins enables and disables plugins at each extension point. A setting for
// one extension point takes precedence over multiPoint, and multiPoint over
// the plugin set that the profile builds on.
type Plugins struct {
	// preEnqueue plugins decide whether a pod may enter the scheduling queue.
	// +optional
	PreEnqueue PluginSet `json:"preEnqueue,omitzero"`

	// queueSort is the plugin that orders the scheduling queue. There is one
	// queue: profiles that ask for different ones conflict, and the older profile
	// has its way. A plugin enabled here takes the place of the policy's
	// queueSort. To replace PrioritySort, disable "*" here too. Any other queue
	// sort has to be enabled here, not in multiPoint alone.
	// +optional
	QueueSort PluginSet `json:"queueSort,omitzero"`

	// preFilter plugins look at the pod and the cluster before nodes are filtered.
	// +optional
	PreFilter PluginSet `json:"preFilter,omitzero"`

	// filter plugins rule out the nodes that cannot run the pod.
	// +optional
	Filter PluginSet `json:"filter,omitzero"`

	// postFilter plugins run when no node can run the pod, preemption for one.
	// +optional
	PostFilter PluginSet `json:"postFilter,omitzero"`

	// preScore plugins look at the nodes that are left before they are scored.
	// +optional
	PreScore PluginSet `json:"preScore,omitzero"`

	// score plugins rank the nodes that are left. The total of a node is the sum
	// of the scores (0 to 100) times the weights of their plugins.
	// +optional
	Score PluginSet `json:"score,omitzero"`

	// reserve plugins keep account of what the pod will use on the chosen node.
	// +optional
	Reserve PluginSet `json:"reserve,omitzero"`

	// permit plugins let the binding of a pod go on, hold it up or refuse it.
	// +optional
	Permit PluginSet `json:"permit,omitzero"`

	// preBind plugins do what has to be done before the pod is bound, such as
	// providing its volumes.
	// +optional
	PreBind PluginSet `json:"preBind,omitzero"`

	// bind plugins bind the pod to its node. They are called in turn until one
	// takes the pod.
	// +optional
	Bind PluginSet `json:"bind,omitzero"`

	// postBind plugins are told that the pod was bound.
	// +optional
	PostBind PluginSet `json:"postBind,omitzero"`

	// multiPoint enables plugins at every extension point that they implement, or
	// disables them there.
	// +optional
	MultiPoint PluginSet `json:"multiPoint,omitzero"`

	// placementGenerate is the plugin that proposes placements for a group of
	// pods.
	// +optional
	PlacementGenerate PluginSet `json:"placementGenerate,omitzero"`

	// placementScore plugins rank the placements of a group of pods.
	// +optional
	PlacementScore PluginSet `json:"placementScore,omitzero"`
}

// PluginSet enables and disables plugins at one extension point.
//
// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, p.name != '*')",message="'*' stands for all plugins: it can be disabled but not enabled",fieldPath=".enabled"
// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, self.enabled.exists_one(q, q.name == p.name))",message="a plugin can be enabled only once",fieldPath=".enabled",reason=FieldValueDuplicate
type PluginSet struct {
	// enabled plugins are called in this order, after those of the set that the
	// profile builds on. A plugin that is part of that set keeps its place there
	// and takes the weight given here.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Enabled []Plugin `json:"enabled,omitempty"`

	// disabled plugins are taken out of the set that the profile builds on. The
	// name "*" takes out all of them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Disabled []Plugin `json:"disabled,omitempty"`
}

// Plugin names a plugin and its weight.
type Plugin struct {
	// name of the plugin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// weight by which the scores of the plugin are multiplied. It has a meaning
	// for the plugins enabled at score, placementScore and multiPoint only. 0 or
	// unset means 1.
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

	// args of the plugin. Those of kube-scheduler's own plugins are the kinds of
	// the group kubescheduler.config.k8s.io/v1, such as NodeResourcesFitArgs;
	// apiVersion and kind may be left out, and what is left out of the rest has
	// the defaults of that group. Fields that the plugin does not know are an
	// error.
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

	// placementGenerate plugin.
	// +optional
	// +listType=atomic
	PlacementGenerate []string `json:"placementGenerate,omitempty"`

	// placementScore plugins and their weights.
	// +optional
	// +listType=atomic
	PlacementScore []WeightedPlugin `json:"placementScore,omitempty"`
}

// WeightedPlugin is a plugin that scores, with the weight of its scores.
type WeightedPlugin struct {
	// name of the plugin.
	Name string `json:"name"`
	// weight by which the scores of the plugin are multiplied.
	Weight int64 `json:"weight"`
}
