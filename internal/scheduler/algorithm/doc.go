// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package algorithm finds a node for one pod on one snapshot of the cluster.
//
//	Decide ----+-- fast path     fast.go: package fastpath decides, or names the Reason why not
//	           +-- scalar path   scalar.go: every plugin on every node
//	           +-- both          verify.go: compares them (--fast-path=verify)
//
// The scalar path has these steps:
//
//	PreFilter        once; it may reject the pod or name the nodes that are left
//	nominated node   alone, if the pod has one; if it fits, the other nodes are not evaluated
//	Filter           on all nodes, or until enough fit; then the extenders' filters
//	PreScore         once
//	Score            on the nodes that fit; then the extenders' scores on top
//	select           the node with the highest total; of equals, the one with the fewest pods of 32
//	                 that are drawn
//
// It runs every plugin on every node that it evaluates, as kube-scheduler does
// (pkg/scheduler/schedule_one.go), and decides and explains as kube-scheduler does, with two
// exceptions. For a profile without a percentage, it scores all nodes, where kube-scheduler samples
// a number that depends on the size of the cluster. And among nodes of equal total it prefers those
// with few pods, where kube-scheduler takes one of those that it evaluated first.
package algorithm
