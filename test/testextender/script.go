// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testextender is an extender for tests. It listens on a port, and can hang, break and die:
// its clients see what they would see of a process. A test sets its responses with a Script and
// reads the calls that it received.
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
	// Dead closes the port and all connections in the middle of a response, as the end of a process
	// does.
	Dead Fault = "dead"
	// Unsure performs the call and then behaves like Slow.
	Unsure Fault = "unsure"
)

// Script defines the responses of an extender. The zero value accepts all nodes and victims, has no
// scores, and binds.
type Script struct {
	// Faults by verb.
	Faults map[string]Fault
	// Errors are the errors that it returns, by verb: filter and bind.
	Errors map[string]string
	// Refused and Hopeless are the refused nodes with reasons. Hopeless nodes are those on which
	// preemption does not help.
	Refused  map[string]string
	Hopeless map[string]string
	// Scores of nodes.
	Scores map[string]int64
	// Spared are nodes without preemption, and SparedPods are the UIDs of pods that must not be
	// preempted.
	Spared     []string
	SparedPods []string
}

// Call is a call that the extender received.
type Call struct {
	Verb string
	// Pod is the name of the pod.
	Pod string
	// Nodes are the nodes of the call. Whole is true if the call contained whole nodes or victims
	// rather than only their names.
	Nodes []string
	Whole bool
	// Victims are UIDs by node.
	Victims map[string][]string
	// Client is the common name of the client's certificate.
	Client string
}

func uids(pods []*corev1.Pod) []string {
	all := make([]string, len(pods))
	for i, pod := range pods {
		all[i] = string(pod.UID)
	}
	return all
}
