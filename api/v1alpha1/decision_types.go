// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DecisionList has the latest decisions of the leader. livesched keeps them in
// memory: the last 65,536, or as many as --decision-log-size. A new leader begins
// without any. livesched computes a DecisionList for each request. The API server
// does not have this kind.
//
// +kubebuilder:object:root=true
type DecisionList struct {
	metav1.TypeMeta `json:",inline"`

	// items are the decisions, the latest first.
	Items []Decision `json:"items"`

	// latest is the number of the latest decision of the leader, also if it is not
	// among the items. To follow the decisions, list those after it.
	// +optional
	Latest int64 `json:"latest,omitempty"`

	// nodesHidden reports whether the names of nodes are left out, because you may not
	// list nodes.
	// +optional
	NodesHidden bool `json:"nodesHidden,omitempty"`
}

// DecisionResult is the outcome of a decision.
type DecisionResult string

// The results, with the names that snapshots have for them.
const (
	// DecisionBinding means that the pod is assumed on the node and not bound yet.
	DecisionBinding DecisionResult = "Binding"
	// DecisionBound means that the pod was bound to the node.
	DecisionBound DecisionResult = "Bound"
	// DecisionBindFailed means that the pod was not bound to the node: a plugin refused
	// it on Reserve or Permit, or the binding cycle failed.
	DecisionBindFailed DecisionResult = "BindFailed"
	// DecisionUnschedulable means that the pod fits no node, or that too few pods of its
	// group do.
	DecisionUnschedulable DecisionResult = "Unschedulable"
	// DecisionFailed means that a plugin or an extender returned an error.
	DecisionFailed DecisionResult = "Failed"
)

// DecisionResultNames are the names of all results.
var DecisionResultNames = []string{
	string(DecisionBinding), string(DecisionBound), string(DecisionBindFailed), string(DecisionUnschedulable),
	string(DecisionFailed),
}

// Decision is one attempt to schedule a pod, or a pod group none of whose pods was
// tried by itself, because too few of them can fit.
type Decision struct {
	// number is the number of the decision. Each leader counts its decisions from 1.
	// +optional
	Number int64 `json:"number,omitempty"`

	// time is when the scheduling cycle began.
	Time metav1.MicroTime `json:"time"`

	// namespace and pod are the namespace and the name of the pod. The pod may be gone.
	// pod is unset if the decision is about a pod group as a whole.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Pod string `json:"pod,omitempty"`
	// podUID is the UID of the pod.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`

	// podGroup is the name of the pod's group. It is unset if the pod has none.
	// +optional
	PodGroup string `json:"podGroup,omitempty"`

	// attempt is the number of the attempt for this pod, from 1. Of a pod group, it is
	// the highest of its pods.
	Attempt int32 `json:"attempt"`

	// profile is the name of the SchedulerProfile, and revision the one that
	// decided.
	Profile  string `json:"profile"`
	Revision string `json:"revision"`

	// result is the outcome of the decision.
	Result DecisionResult `json:"result"`

	// message is the reason why the pod was not bound, as in its Event. Old messages
	// are dropped if there are many long ones.
	// +optional
	Message string `json:"message,omitempty"`

	// repeated is the number of decisions about the pod that this one stands for, if
	// equal ones were to be left out: this one, and those before it that differ only in
	// time, attempt, scores and the numbers in their messages. since is the time of the
	// first one.
	// +optional
	Repeated int32 `json:"repeated,omitempty"`
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`

	// node is the chosen node. It is unset if there is none, or if you may not list
	// nodes.
	// +optional
	Node string `json:"node,omitempty"`

	// domain has the labels of the nodes that were allowed, such as
	// example.com/rack=r7: one domain of the topology of the pod's group. It is
	// unset if all nodes were allowed, or if you may not list nodes.
	// +optional
	Domain string `json:"domain,omitempty"`

	// nodes is the number of nodes, and feasible the number of nodes that the pod
	// fitted.
	Nodes    int32 `json:"nodes"`
	Feasible int32 `json:"feasible"`

	// evaluated is the number of nodes that were evaluated. It is unset if those were
	// all: otherwise, the pod may have fitted on others, too.
	// +optional
	Evaluated int32 `json:"evaluated,omitempty"`

	// total is the score of the node, the highest of all that were evaluated. Of a
	// pod that fitted one node, it is 0, unless others were not evaluated.
	// +optional
	Total int64 `json:"total,omitempty"`

	// tied is the number of evaluated nodes with this score, from which the node was
	// drawn.
	// +optional
	Tied int32 `json:"tied,omitempty"`
}
