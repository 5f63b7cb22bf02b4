// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package differential has no code of its own, only tests: they put random clusters, profiles and
// pods before livesched and before kube-scheduler itself (k8s.io/kubernetes/pkg/scheduler), and
// want the same decisions from both.
//
//	              generator (one seed, one case)
//	   cluster, profile, pods, events |
//	        +-------------------------+--------------------------+
//	        v                                                    v
//	kube-scheduler                                         livesched
//	scheduler.New, ScheduleOne                             resolve.Objects, profile.Builder.Build,
//	its cache, queue, snapshot, framework                  cache, snapshot, queue, algorithm.Decide, PostFilter
//	        |                                                    |
//	        +---- nodes that fit, scores, refusals, message, ----+
//	             preemption (dry runs, candidates, choice, API calls)
//
// Each side has all its own parts in the shape that production gives them. What they share are the
// stores of the informers, which both only read, and which are filled by hand: no informer runs,
// nothing waits.
//
// docs/development.md describes how to run more cases, or one again. docs/compare/kube-scheduler.md
// lists the differences that are meant.
package differential
