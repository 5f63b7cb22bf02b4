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
	// VerdictGroupDoesNotFit means that the pod by itself may fit on a node, but too few
	// pods of its group fit together.
	VerdictGroupDoesNotFit Verdict = "GroupDoesNotFit"
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
	// SuggestionAddNode adds nodes like the nodes of a pool.
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
	// SuggestionReduceRequests lowers the resource requests of the pod.
	SuggestionReduceRequests SuggestionType = "ReduceRequests"
	// SuggestionCreateClaim creates a PersistentVolumeClaim or a ResourceClaim that the
	// pod names and that does not exist.
	SuggestionCreateClaim SuggestionType = "CreateClaim"
)

// The metadata is not embedded, so that controller-gen makes no CRD of it.

// PodExplanation describes why a pod is pending, or why it is on its node. It has
// the name, the namespace and the UID of the pod. livesched computes it for each
// request. The API server does not have this kind.
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

	// message is a human-readable explanation of the verdict.
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

	// node compares one node with the others. It is set if the request names a
	// node, unless no profile has the scheduler name, or the verdict is Unknown.
	// +optional
	Node *NodeExplanation `json:"node,omitempty"`
}

// NodeExplanation describes why a pod is not placed on a certain node. All is about
// the present state of the cluster: a bound pod is decided as if it were pending.
// Extenders are not asked.
type NodeExplanation struct {
	// name is the name of the node.
	Name string `json:"name"`

	// fits reports whether the pod fits on the node now.
	Fits bool `json:"fits"`

	// refusals are all plugins that refuse the pod on the node: first those that
	// refuse it whatever the node is, then the others in the order in which they
	// run.
	// +optional
	Refusals []Refusal `json:"refusals,omitempty"`

	// score has the scores of the node. It is unset if the pod does not fit on the
	// node.
	// +optional
	Score *NodeScore `json:"score,omitempty"`

	// best has the scores of the node with the highest total, which may be this
	// one. It is unset if the pod fits on no node.
	// +optional
	Best *NodeScore `json:"best,omitempty"`

	// rank is the place of the node among those that the pod fits on, by its
	// total, from 1. Nodes with the same total share a rank. It is unset if the pod
	// does not fit on the node.
	// +optional
	Rank int32 `json:"rank,omitempty"`
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
	// gatingMessage is the message of that plugin.
	// +optional
	GatingMessage string `json:"gatingMessage,omitempty"`

	// victims are the pods that are being preempted for this pod and have not
	// ended.
	// +optional
	Victims []PodReference `json:"victims,omitempty"`

	// podRefusals are the plugins that refuse the pod whatever the node is, for
	// example because a claim that the pod names does not exist. The groups do not
	// repeat them.
	// +optional
	PodRefusals []Refusal `json:"podRefusals,omitempty"`

	// groups are the nodes that refuse the pod, by plugins, reasons and details.
	// The closest come first: those that the fewest plugins refuse, and for
	// reasons that other pods could resolve by ending. All filters are run on each
	// node, also after one has refused the pod. If the pod's node selector and
	// required node affinity match some nodes, then all nodes that they exclude are
	// in the last group, which is partial. There are at most 50 groups before it.
	// If there would be more, the 50th has all other nodes, with the refusals that
	// they have in common. Nodes that only podRefusals keep from the pod are in no
	// group.
	// +optional
	Groups []NodeGroup `json:"groups,omitempty"`

	// suggestions are changes of which each one, by itself, lets the pod be
	// scheduled, or its group if that does not fit. livesched has tried each of them
	// in a copy of its state, unless verified is false.
	// +optional
	Suggestions []Suggestion `json:"suggestions,omitempty"`

	// waitsFor are the events after which the pod is tried again, by the plugins
	// that refused its last attempt.
	// +optional
	WaitsFor []EventAwaited `json:"waitsFor,omitempty"`

	// podGroup is how many pods of the pod's group fit together now. It is unset if
	// the pod is scheduled by itself, or if its group was not placed because it
	// lacks a PodGroup or pods.
	// +optional
	PodGroup *PodGroupFit `json:"podGroup,omitempty"`
}

// PodGroupFit is how many pods of a group fit together now. livesched has
// placed them in a copy of its state, one after the other and without
// preemption.
//
// +kubebuilder:object:generate=false
type PodGroupFit struct {
	// name is the name of the PodGroup, or of the CompositePodGroup that it belongs to.
	Name string `json:"name"`
	// composite means that this is a CompositePodGroup. Then needed, ready and fit,
	// also those of domains, are numbers of its groups, not of pods: a group counts if
	// as many of its pods are ready, or fit, as must be placed together.
	// +optional
	Composite bool `json:"composite,omitempty"`
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
	// tried are the domains in which the group was placed, in this order: the first
	// 8, those with the most room, or 7 of them and the best one. Without a topology,
	// there is one: the whole cluster. It is unset if you may not list nodes.
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

// DomainFit is how many pods of a group fit together on some nodes.
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

// PodReference names a pod.
type PodReference struct {
	// namespace is the namespace of the pod.
	Namespace string `json:"namespace"`
	// name is the name of the pod.
	Name string `json:"name"`

	// controller is the controller that replaces the pod when it ends, such as
	// ReplicaSet/web-5d9c. It is unset if the pod has none.
	// +optional
	Controller string `json:"controller,omitempty"`

	// terminatingSince is when the deletion of the pod was requested.
	// +optional
	TerminatingSince metav1.Time `json:"terminatingSince,omitzero"`

	// finalizers are the finalizers of a pod that is being deleted.
	// +optional
	Finalizers []string `json:"finalizers,omitempty"`
}

// NodeGroup is a number of nodes that refuse a pod for the same reasons.
type NodeGroup struct {
	// nodes is the number of nodes.
	Nodes int32 `json:"nodes"`

	// pools are the node pools, by the label of the provider, or else by the role
	// or the instance type of the nodes, with the largest first. A node with none
	// of these labels is in the pool "-".
	Pools []string `json:"pools"`

	// refusals are the plugins that refuse the pod on these nodes, in the order in
	// which they run: all of them, unless partial is set.
	Refusals []Refusal `json:"refusals"`

	// partial reports whether plugins that are not in refusals refuse the pod on some
	// of these nodes, too.
	// +optional
	Partial bool `json:"partial,omitempty"`

	// example is one of the nodes. It is unset for users who may not list nodes.
	// +optional
	Example string `json:"example,omitempty"`
}

// RefusalReason is a word for why a plugin refuses a pod. Programs may rely on
// these words: they do not change between versions.
type RefusalReason string

const (
	// ReasonInsufficientResource means that the node has too little of a resource left.
	ReasonInsufficientResource RefusalReason = "InsufficientResource"
	// ReasonUntoleratedTaint means that the node has a taint that the pod does not tolerate.
	ReasonUntoleratedTaint RefusalReason = "UntoleratedTaint"
	// ReasonCordoned means that the node is marked unschedulable.
	ReasonCordoned RefusalReason = "Cordoned"
	// ReasonNodeAffinityMismatch means that the node does not match the node selector or
	// the required node affinity of the pod, or the node affinity or the labels that the
	// profile demands.
	ReasonNodeAffinityMismatch RefusalReason = "NodeAffinityMismatch"
	// ReasonOtherNodeRequested means that the pod names another node.
	ReasonOtherNodeRequested RefusalReason = "OtherNodeRequested"
	// ReasonHostPortInUse means that a host port of the pod is in use on the node.
	ReasonHostPortInUse RefusalReason = "HostPortInUse"
	// ReasonTopologySpread means that the pod would exceed the maximum skew of a topology
	// spread constraint.
	ReasonTopologySpread RefusalReason = "TopologySpread"
	// ReasonTopologyLabelMissing means that the node lacks the topology label of a
	// topology spread constraint.
	ReasonTopologyLabelMissing RefusalReason = "TopologyLabelMissing"
	// ReasonPodAffinityNotSatisfied means that the required pod affinity of the pod is not
	// satisfied on the node.
	ReasonPodAffinityNotSatisfied RefusalReason = "PodAffinityNotSatisfied"
	// ReasonPodAntiAffinity means that the required pod anti-affinity of the pod keeps it
	// off the node.
	ReasonPodAntiAffinity RefusalReason = "PodAntiAffinity"
	// ReasonAntiAffinityOfOtherPods means that the required pod anti-affinity of other pods
	// keeps the pod off the node.
	ReasonAntiAffinityOfOtherPods RefusalReason = "AntiAffinityOfOtherPods"
	// ReasonServiceAffinityNotSatisfied means that the node is not in the same domain as
	// the other pods of the pod's Services, as the plugin ServiceAffinity demands.
	ReasonServiceAffinityNotSatisfied RefusalReason = "ServiceAffinityNotSatisfied"
	// ReasonClaimNotFound means that a PersistentVolumeClaim or a ResourceClaim of the pod
	// does not exist.
	ReasonClaimNotFound RefusalReason = "ClaimNotFound"
	// ReasonClaimUnbound means that a PersistentVolumeClaim of the pod is not bound, and
	// that its storage class does not wait for a pod.
	ReasonClaimUnbound RefusalReason = "ClaimUnbound"
	// ReasonClaimUnusable means that a claim of the pod cannot be used: it is being
	// deleted or allocated, has lost its volume, belongs to another pod, or is in use by
	// as many pods as may use it.
	ReasonClaimUnusable RefusalReason = "ClaimUnusable"
	// ReasonClassNotFound means that the StorageClass or a DeviceClass of a claim of the
	// pod does not exist.
	ReasonClassNotFound RefusalReason = "ClassNotFound"
	// ReasonVolumeNotAvailable means that there is no volume for a claim of the pod on the
	// node, and that none can be provisioned there.
	ReasonVolumeNotAvailable RefusalReason = "VolumeNotAvailable"
	// ReasonVolumeOnOtherNode means that the node does not match the node affinity of a
	// volume of the pod.
	ReasonVolumeOnOtherNode RefusalReason = "VolumeOnOtherNode"
	// ReasonVolumeInOtherZone means that a volume of the pod is in another zone.
	ReasonVolumeInOtherZone RefusalReason = "VolumeInOtherZone"
	// ReasonVolumeInUse means that another pod uses a volume of the pod, and the volume
	// cannot be shared.
	ReasonVolumeInUse RefusalReason = "VolumeInUse"
	// ReasonTooManyVolumes means that the node would have more volumes than it can attach.
	ReasonTooManyVolumes RefusalReason = "TooManyVolumes"
	// ReasonVolumeDriverMissing means that the CSI driver of a volume of the pod is not
	// installed on the node.
	ReasonVolumeDriverMissing RefusalReason = "VolumeDriverMissing"
	// ReasonDeviceNotAvailable means that the devices that the pod claims are not available
	// on the node.
	ReasonDeviceNotAvailable RefusalReason = "DeviceNotAvailable"
	// ReasonNodeFeatureMissing means that the node lacks a feature that the pod needs.
	ReasonNodeFeatureMissing RefusalReason = "NodeFeatureMissing"
	// ReasonRefused means anything else, such as the refusal of a plugin that livesched does
	// not know. The messages have the words of the plugin.
	ReasonRefused RefusalReason = "Refused"
)

// Refusal is the refusal of a pod by a plugin.
type Refusal struct {
	// plugin is the name of the plugin, or "Extender" for extenders.
	Plugin string `json:"plugin"`

	// reason is a word for the status of the plugin. It does not change between
	// versions.
	Reason RefusalReason `json:"reason"`

	// detail names what refuses the pod, such as the taint, the port, or the label
	// that is missing. It is unset if the messages say all there is.
	// +optional
	Detail string `json:"detail,omitempty"`

	// messages are the messages of the plugin.
	// +optional
	Messages []string `json:"messages,omitempty"`

	// resolvable reports whether the pod might fit if other pods left the nodes.
	Resolvable bool `json:"resolvable"`

	// shortBy is what is missing, for the resources that the nodes do not have
	// enough of.
	// +optional
	ShortBy []Shortage `json:"shortBy,omitempty"`
}

// Shortage is how much of a resource the nodes of a group lack at least.
type Shortage struct {
	// resource is the name of the resource.
	Resource string `json:"resource"`

	// quantity is the least that is missing on any node of the group.
	Quantity resource.Quantity `json:"quantity"`
	// nodes is the number of nodes in the group that lack exactly this quantity.
	Nodes int32 `json:"nodes"`

	// most is the most that is missing on any node of the group. It is unset if all
	// nodes lack the same.
	// +optional
	Most *resource.Quantity `json:"most,omitempty"`

	// node is one of these nodes. It is unset for users who may not list nodes.
	// +optional
	Node string `json:"node,omitempty"`
}

// Suggestion is a change that lets a pod be scheduled.
type Suggestion struct {
	// type is what is changed.
	Type SuggestionType `json:"type"`

	// description is what to do, in a sentence.
	Description string `json:"description"`

	// node is the node that is changed, or on which the pod then fits, or a node
	// like those to add if these are in no pool. It is unset for users who may not
	// list nodes.
	// +optional
	Node string `json:"node,omitempty"`

	// nodes is the number of nodes of which any one could be changed in this way,
	// as far as livesched has compared them.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`

	// pool is the pool of these nodes, or of those to add, as in NodeGroup. It is
	// unset if they are in no pool or in several.
	// +optional
	Pool string `json:"pool,omitempty"`

	// count is the number of nodes to add. It is unset for other types of
	// suggestions.
	// +optional
	Count int32 `json:"count,omitempty"`

	// pods are the pods that left the node for a suggestion of the type Free.
	// Pods of other namespaces are left out for users who may not list pods in all
	// namespaces.
	// +optional
	Pods []PodReference `json:"pods,omitempty"`

	// verified reports whether livesched has decided the pod again with the
	// change, and found a node for it.
	Verified bool `json:"verified"`

	// fits is how many of the pods that wait for the same reason, with this one,
	// find a node with the change: livesched has placed as many like this one. It
	// is at most 500. It is unset if no other pod waits, and if livesched did not
	// count.
	// +optional
	Fits int32 `json:"fits,omitempty"`
}

// EventAwaited is an event in the cluster after which a pod is tried again.
type EventAwaited struct {
	// event is the resource and the action, such as AssignedPod/Delete.
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
	// decision until now.
	// +optional
	Changes int64 `json:"changes,omitempty"`

	// decided is when the decision was made. It is unset if it was not recorded.
	// +optional
	Decided metav1.Time `json:"decided,omitzero"`

	// evaluated is the number of nodes that were evaluated. It is unset if those were
	// all: otherwise, the pod may have fitted on others, too.
	// +optional
	Evaluated int32 `json:"evaluated,omitempty"`

	// tied is the number of evaluated nodes that shared the highest total.
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
