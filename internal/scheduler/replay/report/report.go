// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report has the result of a replay, apart from the scheduler that makes the decisions.
package report

import "github.com/livesched/livesched/internal/scheduler/capture"

// Report is the result of a replay.
type Report struct {
	// Decisions is the number of recorded decisions, and Same how many of them are the same.
	Decisions int `json:"decisions"`
	Same      int `json:"same"`
	// Different are the others that were made again, the first decision first.
	Different []Difference `json:"different"`
	// Left counts the decisions that cannot be made again.
	Left map[Reason]int `json:"notMadeAgain"`
}

// Difference is a decision that differs.
type Difference struct {
	Decision  capture.Decision `json:"decision"`
	Namespace string           `json:"namespace"`
	Pod       string           `json:"pod"`
	// Then describes the recorded decision, and Now the one that was made again.
	Then string `json:"recorded"`
	Now  string `json:"now"`
}

// Reason is the reason why a decision cannot be made again.
type Reason string

// The reasons, in the order in which they are checked.
const (
	PodGone        Reason = "PodGone"
	DecisionFailed Reason = "DecisionFailed"
	// OtherProfile: the profile runs at another revision, or the snapshot does not resolve to it,
	// or it has plugins that this program does not have.
	OtherProfile Reason = "OtherProfile"
	Extenders    Reason = "Extenders"
	// Sampled: not all nodes were filtered, and which ones is not recorded.
	Sampled Reason = "Sampled"
	// Nominated: there were nominated pods, and which ones is not recorded.
	Nominated Reason = "Nominated"
	// InDomain: the pod was placed in a domain of the topology of its group, and which one was not
	// recorded by that version of livesched.
	InDomain  Reason = "InDomain"
	NoDevices Reason = "NoDevices"
	// Changed: nodes or pods have changed, other than by the decisions that follow.
	Changed Reason = "Changed"
	// Selected: the decision differs, and an object that selects the pod is younger than it.
	Selected Reason = "Selected"
	// Claims: the decision differs, and the pod has claims, which have been bound since.
	Claims Reason = "Claims"
)

// Reasons are all reasons, in their order.
var Reasons = []Reason{PodGone, DecisionFailed, OtherProfile, Extenders, Sampled, Nominated, InDomain, NoDevices,
	Changed, Selected, Claims}

var descriptions = map[Reason]string{
	PodGone:        "the pod is not in the snapshot: it is gone",
	DecisionFailed: "a plugin or an extender failed",
	OtherProfile:   "the profile has changed, or cannot be built here",
	Extenders:      "the profile has extenders",
	Sampled:        "a sample of the nodes was filtered",
	Nominated:      "pods were nominated to nodes",
	InDomain:       "a pod group was placed in one domain, which is not recorded",
	NoDevices:      "devices are not in a redacted snapshot",
	Changed:        "the state at that time is not in the snapshot: nodes or pods have changed since",
	Selected:       "it differs, and a Service or the like that selects the pod is younger",
	Claims:         "it differs, and the pod has claims, which binding changes",
}

// Describe returns a description of the reason for people.
func (r Reason) Describe() string { return descriptions[r] }
