// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config resolves SchedulerProfiles and SchedulingPolicies into profiles to run, and
// reports what is wrong with invalid ones.
//
//	objects, last good specs, registered plugin names --Resolve--> profiles to run, a result for every object
//
// Resolve is a pure function of its input and of the process-wide feature gates. It does four
// things:
//
// 1. checks each policy by itself; the last good spec stands in for one that is invalid; 2. checks
// each profile and merges it over its policy by kube-scheduler's rules; the last good spec,
// together with the policy spec it was resolved with, stands in for one that is invalid; 3. decides
// conflicts about what only one profile can have, a scheduler name and the order of the queue: the
// oldest profile wins; 4. computes the revision of each resolved profile, a hash of everything that
// its decisions depend on.
//
// It knows plugins by name only. Checks that need plugin instances, such as which extension points
// a plugin implements, run when a profile is built.
package config
