// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationRollout is the annotation of a SchedulerProfile by which users
// direct a roll-out. Its value is a command and the canary revision that it
// is about, such as "promote:b47874bsgc", and, to give a command again,
// anything else after another colon, such as "promote:b47874bsgc:2": promote
// ends the stage or the pause, promote-full the roll-out, abort takes the
// revision back, pause and resume hold it where it is, and retry begins an
// aborted one anew. A command about another revision has no effect, so it
// may stay in a manifest.
const AnnotationRollout = "livesched.io/rollout"

// RolloutStrategy is how a change of a profile takes effect.
type RolloutStrategy string

const (
	// RolloutImmediate means that it does so for all pods at once. It is the
	// default.
	RolloutImmediate RolloutStrategy = "Immediate"
	// RolloutCanary means that it does so for a growing share of the owners of
	// pods.
	RolloutCanary RolloutStrategy = "Canary"
)

// RolloutSpec configures how a change of the profile, or of its policy,
// takes effect.
type RolloutSpec struct {
	// strategy is "Immediate" (the default): a change decides all pods at once,
	// or "Canary": it is tried first, and taken back by itself if it makes
	// things worse.
	// +optional
	// +kubebuilder:validation:Enum=Immediate;Canary
	Strategy RolloutStrategy `json:"strategy,omitempty"`

	// canary configures the strategy Canary.
	// +optional
	Canary *CanarySpec `json:"canary,omitempty"`
}

// CanarySpec configures how a change is tried.
type CanarySpec struct {
	// shadowDuration is how long the new revision decides the pods of the
	// running one, too, before it gets any. "0s" leaves this out. Default: 5m.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s|ms)){1,4}$`
	ShadowDuration *metav1.Duration `json:"shadowDuration,omitempty"`

	// steps are taken after that. Each sets the share of owners that get the new
	// revision, or pauses. After the last one, the new revision decides all
	// pods. Default: 5 percent for 10 minutes, then 50 percent for 10 minutes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	Steps []CanaryStep `json:"steps,omitempty"`

	// analysis configures what takes a new revision back.
	// +optional
	Analysis CanaryAnalysis `json:"analysis,omitzero"`
}

// CanaryStep is a step of a roll-out.
//
// +kubebuilder:validation:XValidation:rule="has(self.setWeight) != has(self.pause)",message="a step has either setWeight or pause"
type CanaryStep struct {
	// setWeight is the percentage of owners whose pods the new revision decides,
	// from 1 to 100. All pods of an owner, such as a Deployment's ReplicaSet or
	// a Job, get the same revision, and so do the pods of a group.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	SetWeight *int32 `json:"setWeight,omitempty"`

	// pause waits before the next step.
	// +optional
	Pause *CanaryPause `json:"pause,omitempty"`
}

// CanaryPause is a pause of a roll-out.
type CanaryPause struct {
	// duration is how long it lasts. If unset, it lasts until the roll-out is
	// promoted by "kubectl livesched rollout promote".
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s|ms)){1,4}$`
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// CanaryAnalysis configures what takes a new revision back.
type CanaryAnalysis struct {
	// minOwners is the number of owners that must have been decided by the new
	// revision before a stage or a pause of the roll-out ends, and that must
	// have failed with it before it is taken back. From 1 to 10000. Default: 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinOwners *int32 `json:"minOwners,omitempty"`

	// odds is how strong the evidence against the new revision must be to take
	// it back: a revision that is no worse is taken back with a probability of
	// at most 1 in odds, in all tests together. With 100 and three tests, each
	// of them needs 300 to 1. From 2 to 1000000. Default: 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000000
	Odds *int32 `json:"odds,omitempty"`

	// placementPods is the largest number of pods that a simulation places anew,
	// at the beginning of each stage and step, to compare how well both
	// revisions use the nodes. It calls the plugins of both, also at Reserve and
	// Permit. 0 leaves it out. From 0 to 5000. Default: 500.
	// +optional
	// +kubebuilder:default=500
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5000
	PlacementPods *int32 `json:"placementPods,omitempty"`

	// dryRun names metrics that are measured and never take the revision back.
	// +optional
	// +listType=map
	// +listMapKey=metricName
	// +kubebuilder:validation:MaxItems=10
	DryRun []DryRunMetric `json:"dryRun,omitempty"`
}

// RolloutMetric is a way in which a revision can be worse for an owner.
type RolloutMetric string

const (
	// RolloutUnschedulable means that a pod of the owner was not placed: it fits
	// no node, or the attempt or the binding failed.
	RolloutUnschedulable RolloutMetric = "Unschedulable"
	// RolloutPreempting means that a pod of the owner evicts others.
	RolloutPreempting RolloutMetric = "Preempting"
)

// DryRunMetric is a metric that is only measured.
type DryRunMetric struct {
	// metricName is "Unschedulable" or "Preempting".
	// +kubebuilder:validation:Enum=Unschedulable;Preempting
	MetricName RolloutMetric `json:"metricName"`
}

// RolloutPhase is the state of a roll-out, with the names of Argo Rollouts.
type RolloutPhase string

const (
	// RolloutHealthy means that no roll-out is under way, and the spec is
	// active.
	RolloutHealthy RolloutPhase = "Healthy"
	// RolloutProgressing means that a roll-out is under way.
	RolloutProgressing RolloutPhase = "Progressing"
	// RolloutPaused means that a roll-out waits for the user, or for more
	// owners.
	RolloutPaused RolloutPhase = "Paused"
	// RolloutDegraded means that a roll-out was aborted.
	RolloutDegraded RolloutPhase = "Degraded"
)

// RolloutStatus is the state of a roll-out.
type RolloutStatus struct {
	// phase is Healthy, Progressing, Paused or Degraded.
	Phase RolloutPhase `json:"phase"`

	// message describes what the roll-out waits for, or why it was aborted.
	// +optional
	Message string `json:"message,omitempty"`

	// stableRevision is the revision that decides the other pods, and
	// canaryRevision the one that is tried.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// +optional
	CanaryRevision string `json:"canaryRevision,omitempty"`

	// stage is "Shadow", "Canary", "Promoted" or "Aborted".
	// +optional
	Stage string `json:"stage,omitempty"`

	// currentStepIndex is the index of the step in spec.rollout.canary.steps. It
	// is set in the stage Canary.
	// +optional
	CurrentStepIndex *int32 `json:"currentStepIndex,omitempty"`

	// weight is the percentage of owners that get the new revision.
	Weight int32 `json:"weight"`

	// since is when the stage or the step began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// paused means that the user has paused the roll-out.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// compared is the number of owners whose pods both revisions decided in the
	// stage Shadow. stableOwners and canaryOwners are the numbers of owners with
	// each revision in the stage Canary.
	// +optional
	Compared int64 `json:"compared,omitempty"`
	// +optional
	StableOwners int64 `json:"stableOwners,omitempty"`
	// +optional
	CanaryOwners int64 `json:"canaryOwners,omitempty"`

	// stableDecision and canaryDecision are how long decisions about pods take
	// with each revision in the stage Canary: the median of the latest 1000.
	// +optional
	StableDecision *metav1.Duration `json:"stableDecision,omitempty"`
	// +optional
	CanaryDecision *metav1.Duration `json:"canaryDecision,omitempty"`

	// evidence is what was observed, by metric.
	// +optional
	// +listType=map
	// +listMapKey=metricName
	Evidence []RolloutEvidence `json:"evidence,omitempty"`

	// placement compares where the two revisions would place pods, by a
	// simulation at the beginning of the present stage or step. Both share the
	// nodes, so the nodes themselves do not show what each of them makes of the
	// cluster.
	// +optional
	Placement *RolloutPlacement `json:"placement,omitempty"`

	// lastCommand is the annotation that the roll-out has followed last.
	// +optional
	LastCommand string `json:"lastCommand,omitempty"`
}

// RolloutPlacement is a simulation of both revisions. It never takes a
// revision back.
type RolloutPlacement struct {
	// time is when the simulation began.
	Time metav1.Time `json:"time"`

	// pods is the number of pods that both have placed anew: the pending ones of
	// the profile, and those that were scheduled last.
	Pods int32 `json:"pods"`

	// stable and canary are the outcomes with each revision.
	Stable PlacementOutcome `json:"stable"`
	Canary PlacementOutcome `json:"canary"`
}

// PlacementOutcome is where a revision would place pods.
type PlacementOutcome struct {
	// unplaced is the number of pods that fit no node.
	Unplaced int32 `json:"unplaced"`
	// nodesUsed is the number of nodes with pods, not counting the pods of
	// DaemonSets and static pods.
	NodesUsed int32 `json:"nodesUsed"`
	// zoneSkewMax is the largest difference between the numbers of pods of one
	// owner in two zones.
	ZoneSkewMax int32 `json:"zoneSkewMax"`
	// preemptions is the number of pods that would evict others.
	// +optional
	Preemptions int32 `json:"preemptions,omitempty"`
	// utilization is how much of each resource pods request, and how much that
	// differs between nodes.
	// +optional
	// +listType=map
	// +listMapKey=resource
	Utilization []ResourceUtilization `json:"utilization,omitempty"`
}

// RolloutEvidence is what was observed of one metric.
type RolloutEvidence struct {
	// metricName is "Unschedulable" or "Preempting".
	MetricName RolloutMetric `json:"metricName"`

	// text describes the evidence, such as "14 : 1 that the new revision leaves
	// more owners without a node, 9 of 11 owners for which the two revisions
	// differ".
	Text string `json:"text"`

	// differing is the number of owners for which one of the revisions was worse
	// in the stage Shadow, and against the number of those for which the new one
	// was.
	// +optional
	Differing int64 `json:"differing,omitempty"`
	// +optional
	Against int64 `json:"against,omitempty"`

	// failed counts the owners that failed in the stage Canary, by the weight at
	// that time, and failedCanary those of them that had the new revision.
	// +optional
	// +listType=map
	// +listMapKey=weight
	Failed []FailedOwners `json:"failed,omitempty"`
	// +optional
	FailedCanary int64 `json:"failedCanary,omitempty"`
}

// FailedOwners counts owners that failed.
type FailedOwners struct {
	// weight is the percentage of owners that got the new revision at that time.
	Weight int32 `json:"weight"`
	// owners is the number of owners that failed.
	Owners int64 `json:"owners"`
}
