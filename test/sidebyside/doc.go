// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sidebyside runs livesched and kube-scheduler in the test's process, without an API
// server, on the same objects:
//
//	        Objects                stores of informers that never run
//	       /       \
//	Livesched    KubeScheduler     caches and queues, which the test fills
//	       \       /
//	       Decision                Decide(pod), up to the point where the pod would be assumed
//
// The test makes the calls that event handlers and the scheduling loop would make: it puts an
// object into Objects, and nodes and pods into both caches. Everything else is real: kube-scheduler
// runs its own scheduler.New and ScheduleOne. livesched is built by profile.Builder from a
// SchedulerProfile, and decides with the algorithm package.
//
// A test first registers kube-scheduler's metrics (schedmetrics.Register): both schedulers use
// them.
package sidebyside
