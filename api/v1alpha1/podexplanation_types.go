// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verdict is a word for what keeps a pod pending, or that it is bound.
type Verdict string

const (
	// VerdictNeverFits means that every node refuses the pod, even when no other pods are
	// on it. Something has to change: the pod, a node, or the profile.
	VerdictNeverFits Verdict = "NeverFits"
	// VerdictFitsWhenFreed means that no node has room for the pod now, but at least one
	// would if pods left it.
	VerdictFitsWhenFreed Verdict = "FitsWhenFreed"
	// VerdictWaitingForTurn means that the pod fits on a node. It waits for its turn in the
	// queue, for its back-off to end, or for an event.
	VerdictWaitingForTurn Verdict = "WaitingForTurn"
	// VerdictWaitingForVictims means that the pod is nominated to a node, and waits until
	// the pods that it preempts have ended.
	VerdictWaitingForVictims Verdict = "WaitingForVictims"
	// VerdictBinding means that the pod is assumed on a node, and its binding cycle has not
	// ended: it waits on Permit, or for a volume or a device.
	VerdictBinding Verdict = "Binding"
	// VerdictGated means that a scheduling gate or a PreEnqueue plugin keeps the pod from
	// being scheduled.
	VerdictGated Verdict = "Gated"
	// VerdictNoProfile means that no SchedulerProfile has the scheduler name of the pod.
	VerdictNoProfile Verdict = "NoProfile"
	// VerdictOtherScheduler means that no SchedulerProfile has the scheduler name of the
	// pod, and another scheduler has tried or bound the pod.
	VerdictOtherScheduler Verdict = "OtherScheduler"
	// VerdictBound means that the pod is on a node.
	VerdictBound Verdict = "Bound"
	// VerdictUnknown means that a plugin or an extender failed, so it is unknown whether
	// the pod fits. The message has the error.
	VerdictUnknown Verdict = "Unknown"
)

// Basis is where the explanation of a bound pod comes from.
type Basis string

const (
	// BasisRecorded means that the decision was recorded when livesched made it.
	BasisRecorded Basis = "Recorded"
	// BasisRecomputed means that the pod was decided again, as if it were pending, in the
	// present state of the cluster. The cluster may have changed since.
	BasisRecomputed Basis = "Recomputed"
)

// SuggestionType is what a suggestion changes.
type SuggestionType string

const (
	// SuggestionFree frees resources on a node.
	SuggestionFree SuggestionType = "Free"
	// SuggestionAddNode adds a node like those of a pool.
	SuggestionAddNode SuggestionType = "AddNode"
	// SuggestionTolerate adds tolerations to the pod.
	SuggestionTolerate SuggestionType = "Tolerate"
	// SuggestionRemoveTaint removes taints from a node.
	SuggestionRemoveTaint SuggestionType = "RemoveTaint"
	// SuggestionUncordon makes a node schedulable.
	SuggestionUncordon SuggestionType = "Uncordon"
	// SuggestionRelaxNodeAffinity removes the node selector and the required node
	// affinity from the pod.
	SuggestionRelaxNodeAffinity SuggestionType = "RelaxNodeAffinity"
	// SuggestionRelaxPodAffinity removes the required pod affinity and
	// anti-affinity from the pod.
	SuggestionRelaxPodAffinity SuggestionType = "RelaxPodAffinity"
	// SuggestionRelaxTopologySpread lets the pod be placed although its topology
	// spread constraints are not satisfied.
	SuggestionRelaxTopologySpread SuggestionType = "RelaxTopologySpread"
)

// The metadata is not embedded, so that controller-gen makes no CRD of it.

// PodExplanation says why a pod is pending, or why it is on its node. It has
// the name, the namespace and the UID of the pod. livesched computes it when
// it is asked, and nobody stores it: the API server does not have this kind.
//
// +kubebuilder:object:root=true
type PodExplanation struct {
	metav1.TypeMeta `json:",inline"`

	// metadata has the name, the namespace and the UID of the pod.
	// +optional
	Metadata metav1.ObjectMeta `json:"metadata,omitempty"`

	// time is when the explanation was made.
	Time metav1.Time `json:"time,omitzero"`

	// verdict is a word for what keeps the pod pending, or that it is bound.
	Verdict Verdict `json:"verdict"`

	// message says it in a sentence.
	// +optional
	Message string `json:"message,omitempty"`

	// schedulerName is the spec.schedulerName of the pod.
	SchedulerName string `json:"schedulerName"`

	// profile is the name of the SchedulerProfile. It is unset if no profile has
	// the scheduler name.
	// +optional
	Profile string `json:"profile,omitempty"`
	// revision is the revision of the profile that the explanation is for.
	// +optional
	Revision string `json:"revision,omitempty"`

	// nodes is the number of nodes in the cluster.
	Nodes int32 `json:"nodes"`

	// feasible is the number of nodes that the pod fits on: of a bound pod, when
	// it was decided.
	Feasible int32 `json:"feasible"`

	// pending describes a pod that is not bound.
	// +optional
	Pending *PendingExplanation `json:"pending,omitempty"`

	// bound describes a pod that is bound.
	// +optional
	Bound *BoundExplanation `json:"bound,omitempty"`
}

// PendingExplanation describes why a pod is pending.
type PendingExplanation struct {
	// reason is the reason of the pod's condition PodScheduled.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the message of the pod's condition PodScheduled.
	// +optional
	Message string `json:"message,omitempty"`

	// since is when the pod was created.
	// +optional
	Since metav1.Time `json:"since,omitzero"`

	// place is where the pod is in the scheduling queue: Active, Backoff,
	// ErrorBackoff, Unschedulable, Gated or InFlight. It is unset if the pod is
	// not in the queue.
	// +optional
	Place string `json:"place,omitempty"`

	// attempts is how often this replica has tried to schedule the pod.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// nextTry is when the pod is tried again at the latest: when its back-off
	// ends, or when it has waited for an event for too long.
	// +optional
	NextTry metav1.Time `json:"nextTry,omitzero"`

	// alike is the number of other pods that wait for the same reason.
	// +optional
	Alike int32 `json:"alike,omitempty"`

	// nominatedNode is the node on which pods are preempted for this pod, or, of a
	// pod in its binding cycle, the node that the pod is assumed on.
	// +optional
	NominatedNode string `json:"nominatedNode,omitempty"`

	// gates are the scheduling gates of the pod.
	// +optional
	Gates []string `json:"gates,omitempty"`
	// gatingPlugin is the PreEnqueue plugin that refuses the pod.
	// +optional
	GatingPlugin string `json:"gatingPlugin,omitempty"`

	// groups are the nodes that refuse the pod, by pool, plugins and reasons, with
	// the largest group first. All filters are run on each node, also after one
	// has refused the pod.
	// +optional
	Groups []NodeGroup `json:"groups,omitempty"`

	// suggestions are changes of which each one, by itself, lets the pod be
	// scheduled. livesched has tried each of them in a copy of its state.
	// +optional
	Suggestions []Suggestion `json:"suggestions,omitempty"`

	// waitsFor are the events after which the pod is tried again, by the plugins
	// that refused its last attempt.
	// +optional
	WaitsFor []EventAwaited `json:"waitsFor,omitempty"`

	// podGroup says whether the pod's group fits now. It is unset if the pod is
	// scheduled by itself, or if its group was not placed because it lacks a
	// PodGroup or pods.
	// +optional
	PodGroup *PodGroupFit `json:"podGroup,omitempty"`
}

// PodGroupFit says how many pods of a group fit together now. livesched has
// placed them in a copy of its state, one after the other and without
// preemption.
//
// +kubebuilder:object:generate=false
type PodGroupFit struct {
	// name is the name of the PodGroup.
	Name string `json:"name"`
	// needed is the number of pods that must get a node together.
	Needed int32 `json:"needed"`
	// ready is the number of pods that can be placed now: they have no scheduling
	// gates, and PreEnqueue plugins admit them.
	Ready int32 `json:"ready"`
	// fit is the largest number of these pods that fitted together in a domain
	// that was tried.
	Fit int32 `json:"fit"`
	// domain has the labels of the nodes where they fitted, such as
	// example.com/rack=r7. It is unset if that is the whole cluster, or if you may
	// not list nodes.
	// +optional
	Domain string `json:"domain,omitempty"`
	// tried are the domains in which the group was placed, in this order. At most
	// 8 values of each topology key are tried, those with the most room. Without a
	// topology, there is one: the whole cluster. It is unset if you may not list
	// nodes.
	// +optional
	Tried []DomainFit `json:"tried,omitempty"`
	// incomplete means that the time was up before all of them were tried.
	// +optional
	Incomplete bool `json:"incomplete,omitempty"`
}

// DeepCopy returns a copy that shares nothing with the original. It is nil if the original is.
func (in *PodGroupFit) DeepCopy() *PodGroupFit {
	if in == nil {
		return nil
	}
	out := *in
	out.Tried = slices.Clone(in.Tried)
	return &out
}

// DomainFit says how many pods of a group fit together on some nodes.
//
// +kubebuilder:object:generate=false
type DomainFit struct {
	// domain has the labels of the nodes, such as example.com/rack=r7. It is unset
	// for the whole cluster.
	// +optional
	Domain string `json:"domain,omitempty"`
	// fit is the number of pods that fitted.
	Fit int32 `json:"fit"`
}

// NodeGroup is a number of nodes of one pool that refuse a pod for the same
// reasons.
type NodeGroup struct {
	// nodes is the number of nodes.
	Nodes int32 `json:"nodes"`

	// pool is the node pool, by the label of the provider, or else the role or the
	// instance type of the nodes. It is "-" if they have none of these labels.
	Pool string `json:"pool"`

	// refusals are all plugins that refuse the pod on these nodes, in the order in
	// which they run.
	Refusals []Refusal `json:"refusals"`

	// example is one of the nodes. It is unset for users who may not list nodes.
	// +optional
	Example string `json:"example,omitempty"`
}

// Refusal is the refusal of a pod by a plugin.
type Refusal struct {
	// plugin is the name of the plugin, or "Extender" for extenders.
	Plugin string `json:"plugin"`

	// reason is a word that does not change between versions, such as
	// InsufficientResource or UntoleratedTaint. For plugins that livesched does
	// not know it is Refused.
	Reason string `json:"reason"`

	// messages are the plugin's own words.
	// +optional
	Messages []string `json:"messages,omitempty"`

	// resolvable reports whether the pod might fit if other pods left the nodes.
	Resolvable bool `json:"resolvable"`

	// shortBy is what is missing, for the resources that the nodes do not have
	// enough of.
	// +optional
	ShortBy []Shortage `json:"shortBy,omitempty"`
}

// Shortage is how much of a resource is missing, on nodes that all are short by
// exactly this much. If the nodes of a group lack different quantities, it is
// the least.
type Shortage struct {
	// resource is the name of the resource.
	Resource string `json:"resource"`

	// quantity is the least that is missing on any node of the group.
	Quantity resource.Quantity `json:"quantity"`
	// nodes is the number of nodes in the group that are short by this quantity.
	Nodes int32 `json:"nodes"`

	// node is one of these nodes. It is unset for users who may not list nodes.
	// +optional
	Node string `json:"node,omitempty"`
}

// Suggestion is a change that lets a pod be scheduled.
type Suggestion struct {
	// type is what is changed.
	Type SuggestionType `json:"type"`

	// description says what to do.
	Description string `json:"description"`

	// node is the node that is changed, or on which the pod then fits. It is unset
	// for users who may not list nodes.
	// +optional
	Node string `json:"node,omitempty"`

	// nodes is the number of nodes of which any one could be changed in this way,
	// as far as livesched has compared them.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`

	// verified reports whether livesched has decided the pod again with the
	// change, and found a node for it.
	Verified bool `json:"verified"`
}

// EventAwaited is an event in the cluster after which a pod is tried again.
type EventAwaited struct {
	// event is the resource and the action, such as Pod/Delete.
	Event string `json:"event"`

	// plugins are those that asked for the event.
	Plugins []string `json:"plugins"`
}

// BoundExplanation describes why a pod is on its node.
type BoundExplanation struct {
	// node is the node that the pod is on.
	Node string `json:"node"`

	// basis is whether the decision was recorded, or was made again for this
	// explanation.
	Basis Basis `json:"basis"`

	// changes is the number of changes of nodes and other pods from the recorded
	// decision until now. Several changes of a node at a time may count once.
	// +optional
	Changes int64 `json:"changes,omitempty"`

	// decided is when the decision was made. It is unset if it was not recorded.
	// +optional
	Decided metav1.Time `json:"decided,omitzero"`

	// tied is the number of nodes that shared the highest total.
	// +optional
	Tied int32 `json:"tied,omitempty"`

	// top are the nodes with the highest totals, with the scores of the plugins.
	// +optional
	Top []NodeScore `json:"top,omitempty"`
}

// NodeScore is the score of a node.
type NodeScore struct {
	// node is the name of the node.
	Node string `json:"node"`

	// total is the sum of the scores.
	Total int64 `json:"total"`

	// scores are the scores of the plugins, multiplied by their weights.
	// +optional
	Scores map[string]int64 `json:"scores,omitempty"`
}
