// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Types of the conditions in the status of SchedulerProfiles and SchedulingPolicies.
const (
	// ConditionAccepted reports whether the spec is valid and does not conflict with other objects.
	ConditionAccepted = "Accepted"
	// ConditionProgrammed reports whether livesched schedules pods with this generation of the
	// spec.
	ConditionProgrammed = "Programmed"
	// ConditionReady reports whether this generation of the spec is active. It sums up the two
	// above for tools that know nothing of livesched.
	ConditionReady = "Ready"
	// ConditionStalled is true while the spec cannot become active in the livesched that runs
	// unless it is changed. Otherwise the object does not have it.
	ConditionStalled = "Stalled"
)

// Reasons of Accepted.
const (
	// ReasonAccepted (True): the spec is valid.
	ReasonAccepted = "Accepted"
	// ReasonInvalid (False): a field has an invalid value.
	ReasonInvalid = "Invalid"
	// ReasonUnknownPlugin (False): the spec names a plugin that is not registered.
	ReasonUnknownPlugin = "UnknownPlugin"
	// ReasonInvalidArgs (False): the arguments of a plugin cannot be decoded or have invalid
	// values.
	ReasonInvalidArgs = "InvalidArgs"
	// ReasonPolicyNotFound (False): the policy that the profile references does not exist.
	ReasonPolicyNotFound = "PolicyNotFound"
	// ReasonPolicyNotAccepted (False): the policy that the profile references is not accepted, and
	// it has no last good spec.
	ReasonPolicyNotAccepted = "PolicyNotAccepted"
	// ReasonProfileNotFound (False): the profile that a shadow follows does not exist.
	ReasonProfileNotFound = "ProfileNotFound"
	// ReasonQueueSortConflict (False): an older profile requires another order of the queue.
	ReasonQueueSortConflict = "QueueSortConflict"
	// ReasonSchedulerNameConflict (False): an older profile has the scheduler name.
	ReasonSchedulerNameConflict = "SchedulerNameConflict"
	// ReasonSecretNotFound (False): a Secret that an extender names does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretNotReadable (False): a Secret that an extender names could not be read, most
	// likely because livesched does not have the permission.
	ReasonSecretNotReadable = "SecretNotReadable"
	// ReasonInvalidSecret (False): a Secret that an extender names has no TLS material, or invalid
	// TLS material.
	ReasonInvalidSecret = "InvalidSecret"
	// ReasonSecretNotPermitted (False): a Secret that an extender names does not have the label
	// that lets the policy use it.
	ReasonSecretNotPermitted = "SecretNotPermitted"
	// ReasonExtenderHostNotAllowed (False): livesched's flag --extender-allowed-hosts does not
	// allow the URL of an extender.
	ReasonExtenderHostNotAllowed = "ExtenderHostNotAllowed"
)

// PodReasonPreEnqueueRejected is the reason of the condition PodScheduled, with status False, of
// pods that a PreEnqueue plugin or an incomplete pod group keeps from being tried. It differs from
// Unschedulable, for which cluster autoscalers add nodes.
const PodReasonPreEnqueueRejected = "PreEnqueueRejected"

// Reasons of Programmed. With status False, ReasonInvalid means that the spec is not accepted and
// that no last good spec can run.
const (
	// ReasonProgrammed (True): livesched schedules pods with this generation.
	ReasonProgrammed = "Programmed"
	// ReasonKeptLastGood (False): the spec is not accepted, and the last good spec remains in
	// effect.
	ReasonKeptLastGood = "KeptLastGood"
	// ReasonPending (Unknown): the spec is accepted, and its plugins are still being built; the
	// previous revision remains in effect until they are.
	ReasonPending = "Pending"
	// ReasonBuildFailed (False): the spec is accepted, but its plugins could not be built; the
	// previous revision remains in effect.
	ReasonBuildFailed = "BuildFailed"
	// ReasonNotStored (False): this generation is in effect, but it could not be stored as a
	// revision, so a restart of livesched might lose it. Until it is stored, status.active
	// describes the previous one.
	ReasonNotStored = "NotStored"
	// ReasonRollingOut (Unknown): the spec is accepted, and is being rolled out step by step; the
	// previous revision decides the other pods.
	ReasonRollingOut = "RollingOut"
	// ReasonRolloutAborted (False): the spec is accepted, and was taken back by the roll-out or the
	// user; the previous revision remains in effect.
	ReasonRolloutAborted = "RolloutAborted"
	// ReasonSchedulerNameInUse (False): the spec is accepted, but a kube-scheduler runs, which
	// schedules the pods with this scheduler name; the profile begins to run when that has stopped.
	ReasonSchedulerNameInUse = "SchedulerNameInUse"
)

// Reasons of Events that are not about a condition.
const (
	// ReasonRolledBack: the spec was rolled back to an older revision.
	ReasonRolledBack = "RolledBack"
	// ReasonShadowDisagrees: for the first time, a pod fits a node either with a shadow or with the
	// profile that it follows, but not with both.
	ReasonShadowDisagrees = "ShadowDisagrees"
	// ReasonKubeSchedulerRuns: a kube-scheduler runs, and the profile has its scheduler name.
	ReasonKubeSchedulerRuns = "KubeSchedulerRuns"
)
