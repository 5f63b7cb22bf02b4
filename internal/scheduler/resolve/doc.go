// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolve resolves SchedulerProfiles and SchedulingPolicies into profiles to run, and
// reports the errors of invalid ones.
//
//	objects, last good specs, registered plugin names --Objects--> profiles to run, a result for every object
//
// Objects is a pure function of its input and of the process-wide feature gates. It does four
// things:
//
//   - It checks each policy by itself. The last good spec replaces an invalid one.
//   - It checks each profile and merges it over its policy by kube-scheduler's rules. The last good
//     spec, together with the spec of the policy that it was resolved with, replaces an invalid
//     one.
//   - It decides conflicts about what only one profile can have: a scheduler name and the order of
//     the queue. The oldest profile wins.
//   - It computes the revision of each resolved profile, a hash of everything that its decisions
//     depend on.
//
// It knows plugins by name only. Checks that need plugin instances, such as which extension points
// a plugin implements, run when a profile is built.
package resolve
