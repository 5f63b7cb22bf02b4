// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulate tries what a change of profiles, policies or nodes would do, by deciding pods
// again on a fork of the scheduler. It also counts how many pods of a kind still fit.
//
//	snapshot --select--> pods --measure--> Actual
//	                      | lift off, change nodes
//	                      v
//	                   Sequence, current profiles --measure--> Current --take back--+
//	                   Sequence, new profiles     --measure--> New  <---------------+
//
//	sequence.go    pods decided one after the other, and taken back
//	simulate.go    Run: the two sequences, and what is compared
//	play.go        the decisions of a sequence, and the pods that are preempted
//	selection.go   the pods that are decided
//	nodes.go       nodes that are added and removed
//	profiles.go    the profiles that a change of objects changes
//	outcome.go     how pods are spread over nodes and zones
//	owners.go      the owners of pods
//	hidden.go      the names of nodes in messages
//	capacity.go    Count: how many pods of a kind fit
//	namedgroup.go  the PodGroup that these pods name
package simulate
