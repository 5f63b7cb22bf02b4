// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Types of the conditions in the status of SchedulerProfiles and SchedulingPolicies.
const (
	// ConditionAccepted says whether the spec is valid and agrees with the other objects.
	ConditionAccepted = "Accepted"
	// ConditionProgrammed says whether this generation of the spec is the one that decides.
	ConditionProgrammed = "Programmed"
)

// Reasons of Accepted.
const (
	// ReasonAccepted (True): the spec is valid.
	ReasonAccepted = "Accepted"
	// ReasonInvalid (False): a field has a value that it cannot have.
	ReasonInvalid = "Invalid"
	// ReasonUnknownPlugin (False): a plugin is named that is not registered.
	ReasonUnknownPlugin = "UnknownPlugin"
	// ReasonInvalidArgs (False): the arguments of a plugin cannot be read or have values that they cannot have.
	ReasonInvalidArgs = "InvalidArgs"
	// ReasonPolicyNotFound (False): the policy that the profile references does not exist.
	ReasonPolicyNotFound = "PolicyNotFound"
	// ReasonPolicyNotAccepted (False): the policy that the profile references is not accepted, and there is no last
	// good spec of it.
	ReasonPolicyNotAccepted = "PolicyNotAccepted"
	// ReasonQueueSortConflict (False): an older profile orders the queue in another way.
	ReasonQueueSortConflict = "QueueSortConflict"
	// ReasonSchedulerNameConflict (False): an older profile has the scheduler name.
	ReasonSchedulerNameConflict = "SchedulerNameConflict"
	// ReasonSecretNotFound (False): a Secret that an extender names does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretNotReadable (False): a Secret that an extender names could not be read, most likely since livesched
	// may not read it.
	ReasonSecretNotReadable = "SecretNotReadable"
	// ReasonInvalidSecret (False): a Secret that an extender names has no TLS material, or some that is broken.
	ReasonInvalidSecret = "InvalidSecret"
)

// Reasons of Programmed. With status False, ReasonInvalid means that the spec is not accepted and that there is no last
// good one to keep.
const (
	// ReasonProgrammed (True): this generation decides.
	ReasonProgrammed = "Programmed"
	// ReasonKeptLastGood (False): the spec is not accepted, and the last good one goes on deciding.
	ReasonKeptLastGood = "KeptLastGood"
	// ReasonPending (Unknown): the spec is accepted, and its plugins are still being built; what decided before goes on
	// deciding until they are.
	ReasonPending = "Pending"
	// ReasonBuildFailed (False): the spec is accepted but its plugins could not be built; what decided before
	// goes on deciding.
	ReasonBuildFailed = "BuildFailed"
	// ReasonNotStored (False): this generation decides, but it could not be stored as a revision, so that a restart of
	// livesched might lose it. Until it is stored, status.active names what was active before.
	ReasonNotStored = "NotStored"
)

// Reasons of Events that are not about a condition.
const (
	// ReasonRolledBack: the object has gone back to an older revision.
	ReasonRolledBack = "RolledBack"
)
