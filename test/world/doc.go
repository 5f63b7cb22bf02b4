// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world simulates whole clusters, in a bubble of testing/synctest with a clock of its own:
//
//	actors --------------------> API server (package apiserver) --> etcd in memory (package etcd)
//	(users, nodes, kubelets,         ^
//	controllers, trouble)            |
//	                              network: each request, answer and event of a watch is a
//	                                 ^     message that the world delivers, late or not at all
//	livesched, livesched, ... -------+
//
// The livescheds are whole ones: manager, controllers, leader election, informers, loop, binding
// and writers. Their metrics, their secure port and the webhook need sockets, and do not run.
//
// A world comes from a seed. It has a quiet minute, and rounds of trouble, after each of which it
// must come to rest. docs/simulation.md describes what happens and what must hold.
//
// Program replay fixes the random numbers that Go's runtime draws, and what else depends on how
// fast the machine is. With it, the same command takes the same steps each time, whatever the
// environment and the names of files are. A world from a seed may take other steps than one whose
// plan, though the same, is in a file.
//
// Program simulate runs many worlds, each in a process of its own (package runner), and shrinks the
// plan of one that fails.
//
// Program mutants makes mistakes in livesched, one at a time, and looks for worlds that find them.
package world
