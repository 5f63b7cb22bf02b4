// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testextender is an extender for tests that runs as a process of its own, so that it can
// hang, break and die like real ones. A test sets its responses with a Script and reads the calls
// that it received.
package testextender

import corev1 "k8s.io/api/core/v1"

// Verbs of the extender. Each is the last part of its URL path.
const (
	Filter     = "filter"
	Prioritize = "prioritize"
	Preempt    = "preempt"
	Bind       = "bind"
)

// Fault is a way to fail a call.
type Fault string

// The faults.
const (
	// Slow does not respond while the caller waits.
	Slow Fault = "slow"
	// Broken responds with status 500.
	Broken Fault = "broken"
	// Garbage responds with invalid JSON.
	Garbage Fault = "garbage"
	// Gone closes the connection in the middle of a response.
	Gone Fault = "gone"
	// Dead ends the process in the middle of a response.
	Dead Fault = "dead"
	// Unsure performs the call and then behaves like Slow.
	Unsure Fault = "unsure"
)

// Script defines the responses of an extender. The zero value accepts all nodes and victims, has no
// scores, and binds.
type Script struct {
	// Faults by verb.
	Faults map[string]Fault `json:"faults,omitempty"`
	// Errors are the errors that it returns, by verb: filter and bind.
	Errors map[string]string `json:"errors,omitempty"`
	// Refused and Hopeless are the refused nodes with reasons. Hopeless nodes are those on which
	// preemption does not help.
	Refused  map[string]string `json:"refused,omitempty"`
	Hopeless map[string]string `json:"hopeless,omitempty"`
	// Scores of nodes.
	Scores map[string]int64 `json:"scores,omitempty"`
	// Spared are nodes without preemption, and SparedPods are the UIDs of pods that must not be
	// preempted.
	Spared     []string `json:"spared,omitempty"`
	SparedPods []string `json:"sparedPods,omitempty"`
}

// Call is a call that the extender received.
type Call struct {
	Verb string `json:"verb"`
	// Pod is the name of the pod.
	Pod string `json:"pod"`
	// Nodes are the nodes of the call. Whole is true if the call contained whole nodes or victims
	// rather than only their names.
	Nodes []string `json:"nodes,omitempty"`
	Whole bool     `json:"whole,omitempty"`
	// Victims are UIDs by node.
	Victims map[string][]string `json:"victims,omitempty"`
	// Client is the common name of the client's certificate.
	Client string `json:"client,omitempty"`
}

func uids(pods []*corev1.Pod) []string {
	all := make([]string, len(pods))
	for i, pod := range pods {
		all[i] = string(pod.UID)
	}
	return all
}
