// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config turns SchedulerProfiles and SchedulingPolicies into what is to run, and says what
// is wrong with those that cannot.
//
//	objects, last good specs, registered plugin names --Resolve--> profiles to run, a result for every object
//
// Resolve is a pure function of its input and of the process-wide feature gates. It does four
// things:
//
//  1. checks each policy by itself; the last good spec stands in for one that is invalid;
//  2. checks each profile and merges it over its policy by kube-scheduler's rules; the last good
//     spec, together with the policy spec it was resolved with, stands in for one that is invalid;
//  3. settles what only one profile can have, a scheduler name and the order of the queue, in
//     favour of the oldest;
//  4. gives each resolved profile a revision, a hash of all that its decisions depend on.
//
// It knows plugins by name only. What takes plugin instances, such as which extension points a
// plugin implements, is checked when a profile is built.
package config
