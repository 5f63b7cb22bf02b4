// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package churn has a test that lets a cluster change at random, for seconds in `make test` and for
// minutes in `make soak`, and looks whether livesched keeps its promises:
//
//	world     etcd, kube-apiserver, two livescheds that elect their leader, in this process
//	actors    pods, nodes, volumes, profiles and policies come, change and go; replicas are stopped and cut off
//	faults    calls of livesched fail, take place without an answer, or come late; watches are cut
//	history   every version of every pod, from a watch that has no faults
//	settle    from time to time the actors pause and the faults end: whatever is wrong now stays wrong
//	checks    on the pods, the replicas' caches and queues, and what the process holds
//
// The actors draw from one seed, which is logged. The order in which the cluster takes in what they
// do is its own, so a seed gives the same kind of run rather than the same run.
//
// # What is checked
//
// All along: no pod changes its node or is bound twice; livez is healthy; nothing is logged as an
// error that is not known and explained; and on calm nodes no pod takes room, a host port or the
// place of an anti-affine pod that was taken. Calm nodes are those whose allocatable never changes
// and to which nobody but livesched binds. On the rough ones such things happen between a decision
// and its binding, and no scheduler could tell. Nor could it for spread constraints and
// anti-affinity across nodes: pods that go and nodes that change their zone move the goal while a
// binding is under way. For some seconds after a takeover rooms are not looked at: a new leader may
// not have seen yet what the old one bound last.
//
// When it settles: each pod is bound, or its condition tells why not, or it is gated, or no profile
// has its name; caches and queues hold what the API server holds, on the leader and on the
// follower; nothing is in flight, waits on Permit, or is tried again and again; what is nominated
// exists; and no pod waits that would fit. The last is asked of the plugins themselves, on a
// snapshot made from what the API server has: a pod that fits and waits missed its event.
//
// In the end, with all objects deleted: goroutines, informer handlers, heap and metric series are
// what they were after warm-up.
package churn
