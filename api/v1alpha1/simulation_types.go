// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodSelectionType is which pods a simulation decides again.
type PodSelectionType string

const (
	// PodsLast selects the bound pods that were scheduled last.
	PodsLast PodSelectionType = "Last"
	// PodsPending selects the pods that are not bound.
	PodsPending PodSelectionType = "Pending"
	// PodsAll selects the pending pods, and the bound pods that were scheduled last.
	PodsAll PodSelectionType = "All"
)

// Simulation asks what a change of profiles, policies or nodes would do.
// livesched decides pods again in a copy of its state, once as it is configured
// and once with the change. A simulation is not stored: the API server does not
// have this kind. A simulation in a namespace decides the pods of that
// namespace.
//
// +kubebuilder:object:root=true
type Simulation struct {
	metav1.TypeMeta `json:",inline"`

	// metadata has the namespace.
	// +optional
	Metadata metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	// +optional
	Spec SimulationSpec `json:"spec,omitzero"`

	// status is the answer.
	// +optional
	Status SimulationStatus `json:"status,omitzero"`
}

// SimulationSpec is the change that is simulated, and the pods that are decided.
type SimulationSpec struct {
	// profiles replace profiles of the same names in the cluster, or are added.
	// +optional
	Profiles []SchedulerProfile `json:"profiles,omitempty"`
	// policies replace policies of the same names in the cluster, or are added.
	// +optional
	Policies []SchedulingPolicy `json:"policies,omitempty"`

	// pods selects the pods that are decided again.
	// +optional
	Pods PodSelection `json:"pods,omitzero"`

	// schedulerName is the scheduler name that the pods get, instead of their own.
	// It also selects pods of other schedulers than livesched.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// nodes changes the nodes on which pods are decided, with both
	// configurations.
	// +optional
	Nodes NodeChanges `json:"nodes,omitzero"`

	// nodeAllocations adds the room of each node to the outcomes. You need the
	// permission to list nodes as well.
	// +optional
	NodeAllocations bool `json:"nodeAllocations,omitempty"`

	// seed chooses among nodes of equal score. The same seed in the same state
	// gives the same answer.
	// +optional
	Seed int64 `json:"seed,omitempty"`
}

// PodSelection selects pods of profiles of livesched. Pods of DaemonSets, static
// pods, pods with scheduling gates and pods that are being deleted or bound are
// never selected.
type PodSelection struct {
	// type is Last, Pending or All. Default: Last.
	// +optional
	Type PodSelectionType `json:"type,omitempty"`
	// limit is the largest number of pods. Default: 2000. Maximum: 5000.
	// +optional
	Limit int32 `json:"limit,omitempty"`

	// schedulerName selects pods by their scheduler name, which must be that of a
	// profile of livesched. Default: pods of all profiles.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// labelSelector selects pods by their labels.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`

	// names selects pods by their names, in the namespace of the simulation. At most
	// 5000. Default: pods of all names.
	// +optional
	Names []string `json:"names,omitempty"`
}

// NodeChanges adds and removes nodes.
type NodeChanges struct {
	// add adds nodes like others, with copies of their pods of DaemonSets and static pods.
	// +optional
	Add []NodeAddition `json:"add,omitempty"`

	// remove has the names of nodes to remove. The selected pods on them are
	// decided again, also beyond the limit of the selection.
	// +optional
	Remove []string `json:"remove,omitempty"`

	// removeSelector selects nodes to remove by their labels.
	// +optional
	RemoveSelector string `json:"removeSelector,omitempty"`
}

// NodeAddition adds nodes like another one.
type NodeAddition struct {
	// like is the name of a node or of a node pool.
	Like string `json:"like"`

	// count is the number of nodes.
	Count int32 `json:"count"`
}

// SimulationStatus is the result of a simulation.
type SimulationStatus struct {
	// time is when the simulation was made.
	// +optional
	Time metav1.Time `json:"time,omitzero"`

	// pods is the number of pods that were decided.
	Pods int32 `json:"pods"`
	// matching is the number of pods that match the selection. If it is more than
	// pods, the others have stayed where they are.
	Matching int32 `json:"matching"`

	// displaced is the number of pods on removed nodes that were not decided,
	// because no profile of livesched schedules them, or because they are in
	// other namespaces.
	// +optional
	Displaced int32 `json:"displaced,omitempty"`

	// nodes is the number of nodes on which pods were decided.
	Nodes int32 `json:"nodes"`

	// profiles are the profiles of the pods, by scheduler name.
	// +optional
	Profiles []SimulatedProfile `json:"profiles,omitempty"`

	// actual is where the pods are, before nodes were added and removed.
	Actual SimulationOutcome `json:"actual"`

	// current is the outcome of the current configuration. What differs between
	// actual and current is not an effect of the new configuration.
	Current SimulationOutcome `json:"current"`

	// new is the outcome of the new configuration. It is unset if the simulation
	// changes no profile and no policy.
	// +optional
	New *SimulationOutcome `json:"new,omitempty"`
}

// SimulatedProfile is a profile that pods were decided with.
type SimulatedProfile struct {
	// schedulerName is the scheduler name of the pods.
	SchedulerName string `json:"schedulerName"`

	// pods is the number of pods that were decided.
	Pods int32 `json:"pods"`

	// current is the revision that is active.
	// +optional
	Current string `json:"current,omitempty"`
	// new is the revision with the change. It is unset if no profile would have
	// the scheduler name.
	// +optional
	New string `json:"new,omitempty"`

	// extendersNotCalled reports whether one of the revisions has extenders, which
	// a simulation does not call.
	// +optional
	ExtendersNotCalled bool `json:"extendersNotCalled,omitempty"`
}

// SimulationOutcome describes where pods are.
type SimulationOutcome struct {
	// unplaced is the number of the selected pods without a node.
	Unplaced int32 `json:"unplaced"`

	// nodesUsed is the number of nodes with pods, not counting the pods of
	// DaemonSets and static pods.
	NodesUsed int32 `json:"nodesUsed"`

	// utilization is how much of each resource all pods request.
	// +optional
	Utilization []ResourceUtilization `json:"utilization,omitempty"`

	// nodeAllocations is the room of each node, by name, if the simulation asks for
	// it.
	// +optional
	NodeAllocations []NodeAllocation `json:"nodeAllocations,omitempty"`

	// zoneSkewMax is the largest difference between the numbers of pods of one
	// owner in two zones, among the owners of the selected pods.
	ZoneSkewMax int32 `json:"zoneSkewMax"`

	// preemptions is the number of pods that fitted nowhere and have preempted
	// others.
	// +optional
	Preemptions int32 `json:"preemptions,omitempty"`
	// victims is the number of pods that were evicted for them. They are not
	// decided again. Selected pods among them are unplaced.
	// +optional
	Victims int32 `json:"victims,omitempty"`
	// victimPods are some of the evicted pods. A simulation in a namespace names
	// only the pods of that namespace.
	// +optional
	VictimPods []VictimPod `json:"victimPods,omitempty"`
	// preemptionsLimited reports whether livesched has stopped looking for
	// preemptions because it would have taken too long. Further pods that would
	// preempt others are unplaced.
	// +optional
	PreemptionsLimited bool `json:"preemptionsLimited,omitempty"`

	// moved is the number of pods that are on another node than in the outcome
	// before: actual for current, and current for new.
	Moved int32 `json:"moved"`
	// movedByOwner are the owners with the most moved pods.
	// +optional
	MovedByOwner []OwnerPods `json:"movedByOwner,omitempty"`

	// unplacedPods are some of the pods without a node, with the reasons.
	// +optional
	UnplacedPods []UnplacedPod `json:"unplacedPods,omitempty"`
}

// ResourceUtilization is the share of a resource that pods request, over the
// nodes that have the resource.
type ResourceUtilization struct {
	// resource is the name of the resource.
	Resource string `json:"resource"`

	// meanPermille is the mean of the nodes, in thousandths of what is
	// allocatable.
	MeanPermille int32 `json:"meanPermille"`

	// stddevPermille is the standard deviation between the nodes.
	StddevPermille int32 `json:"stddevPermille"`
}

// OwnerPods counts pods of an owner.
type OwnerPods struct {
	// kind is the kind of the controller, or of the Deployment above a ReplicaSet.
	// It is Pod for pods without a controller.
	Kind string `json:"kind"`

	// namespace is the namespace of the pods.
	Namespace string `json:"namespace"`

	// name is the name of the owner. It is empty for pods without a controller.
	// +optional
	Name string `json:"name,omitempty"`

	// pods is the number of pods.
	Pods int32 `json:"pods"`
}

// UnplacedPod is a pod without a node.
type UnplacedPod struct {
	// namespace of the pod.
	Namespace string `json:"namespace"`

	// name of the pod.
	Name string `json:"name"`

	// message is why the pod has no node. It is unset for pods after the first 20.
	// Names of nodes are left out if you may not list nodes.
	// +optional
	Message string `json:"message,omitempty"`
}

// VictimPod is a pod that was evicted.
//
// +kubebuilder:object:generate=false
type VictimPod struct {
	// namespace of the pod.
	Namespace string `json:"namespace"`

	// name of the pod.
	Name string `json:"name"`

	// node is the node that the pod was on.
	Node string `json:"node"`

	// preemptorNamespace is the namespace of the pod that it was evicted for.
	PreemptorNamespace string `json:"preemptorNamespace"`

	// preemptorName is the name of the pod that it was evicted for.
	PreemptorName string `json:"preemptorName"`
}
