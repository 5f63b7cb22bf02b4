// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testextender is an extender for tests that runs as a process of its own, so that it can
// hang, break and die as real ones do. A test tells it what to answer by a Script, and asks it what
// it was asked.
package testextender

import corev1 "k8s.io/api/core/v1"

// Verbs of the extender. Each is the last part of the path that it is called by.
const (
	Filter     = "filter"
	Prioritize = "prioritize"
	Preempt    = "preempt"
	Bind       = "bind"
)

// Fault is a way not to answer.
type Fault string

// Faults.
const (
	// Slow does not answer as long as the caller waits.
	Slow Fault = "slow"
	// Broken answers with status 500.
	Broken Fault = "broken"
	// Garbage answers with what is no JSON.
	Garbage Fault = "garbage"
	// Gone closes the connection in the middle of an answer.
	Gone Fault = "gone"
	// Dead ends the process in the middle of an answer.
	Dead Fault = "dead"
	// Unsure does what it was asked to do, and then is Slow.
	Unsure Fault = "unsure"
)

// Script is what an extender answers. The zero value leaves all nodes and victims, has no scores,
// and binds.
type Script struct {
	// Faults by verb.
	Faults map[string]Fault `json:"faults,omitempty"`
	// Errors are what it says went wrong, by verb: filter and bind.
	Errors map[string]string `json:"errors,omitempty"`
	// Refused and Hopeless are the nodes that it refuses, with reasons; the latter are those on
	// which no preemption helps.
	Refused  map[string]string `json:"refused,omitempty"`
	Hopeless map[string]string `json:"hopeless,omitempty"`
	// Scores of nodes.
	Scores map[string]int64 `json:"scores,omitempty"`
	// Spared are nodes on which nobody is to be preempted, SparedPods the UIDs of pods that are not
	// to be.
	Spared     []string `json:"spared,omitempty"`
	SparedPods []string `json:"sparedPods,omitempty"`
}

// Call is a call that the extender got.
type Call struct {
	Verb string `json:"verb"`
	// Pod is the name of the pod.
	Pod string `json:"pod"`
	// Nodes that it was asked about. Whole says that it was sent the nodes, or the victims, not
	// only their names.
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
