// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package churn has two tests that change a cluster at random, for seconds in `make test` and for
// minutes in `make soak`, and check that livesched keeps its promises. The replicas run in the
// test's process (fleet), or as processes (crew). With a fleet:
//
//	world     etcd, kube-apiserver, two livescheds with leader election, in this process
//	actors    change pods, nodes, volumes, devices, profiles and policies; stop replicas and cut
//	          them off; set their wall clocks
//	faults    calls of livesched fail, are refused as too many, hang, succeed without a response,
//	          or arrive late; watches are cut
//	history   every version of every pod, from a watch that has no faults
//	settle    at times the actors pause and the faults end: errors that are left are permanent
//	checks    of the pods, the replicas' caches and queues, and the resources of the process
//
// The actors draw from one seed, which is logged. The order in which the cluster processes their
// actions varies, so a seed reproduces the same kind of run, not the same run.
//
// # What is checked
//
// During the whole run: no pod changes its node or is bound twice; livez is healthy; every logged
// error is known and explained; and on calm nodes no pod takes room, a host port or the place of an
// anti-affine pod that was taken. Calm nodes are those whose allocatable never changes and to which
// only livesched binds pods. On rough nodes, such changes happen between a decision and its
// binding, and no scheduler could notice them. The same holds for spread constraints and
// anti-affinity across nodes: deleted pods and nodes that change their zone change the constraints
// while a binding is in progress.
//
// When the cluster has settled: each pod is bound, or its condition states why not, or it is gated,
// or no profile has its scheduler name; caches and queues match the API server, on the leader and
// on the follower; no pod is in flight, waits on Permit, or is retried endlessly; every nominated
// pod is pending, and its status names the same node; and no waiting pod would fit. For the last
// check, the test runs the plugins themselves on a snapshot made from the objects in the API
// server: a pod that fits and waits missed its event. No device is allocated to two claims.
//
// At the end, with all objects deleted: goroutines, informer handlers, heap and metric series are
// as they were after warm-up.
//
// # Processes
//
// With a crew, the same actors change the cluster. These are different:
//
//	members   are killed, terminated and suspended; one may be another version of livesched
//	links     each member has a proxy, whose connections are cut, frozen, slowed down and reset
//	cluster   the API server is restarted and killed; etcd hangs
//	observer  a replica in the test's process without faults, which never leads
//
// The checks are the same, with the observer in place of the leader: it knows what caches and
// queues must hold, and which profiles decide. The members compare themselves with the API server,
// and log the result. The history has gaps where the API server was restarted. The members have no
// out-of-tree plugins, and nobody reads their errors, of which outages cause masses; but none may
// panic, have a data race, or end for another reason than a lost lease.
package churn
