// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replay makes recorded decisions again, with the snapshot of a cluster and without the
// cluster.
//
//	capture.Snapshot --New--> State: cache, informers that never change, profiles
//	                            |
//	                            +--Decide---> Report: which decisions are the same
//	                            +--Fork-----> simulations and explanations
//
// Decide goes from the latest decision to the first, and takes the pod of each off its node. So
// each pod is decided in the state in which it was decided before, if nothing else has changed
// since. The number of changes that the scheduler counted tells whether that is so.
//
// The pods of a group are decided one after the other, on the nodes of the domain in which that was
// done. Where a group did not fit, its pods that fitted are put back on their nodes first.
//
//	state.go    New: the parts of a scheduler, with the objects of a snapshot
//	groups.go   its pod groups
//	profiles.go the profiles of a snapshot, and what would change with others
//	decide.go   Decide
//	past.go     which decisions can be made again, and why the others cannot
//	attempts.go the pods of groups that were placed for a moment, and did not fit
package replay
