// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package debugger shows on request what the scheduler believes, and where that is not what the API
// server says. It is kube-scheduler's debugger (pkg/scheduler/backend/cache/debugger), with more in
// the dump and more in the comparison.
//
//	SIGUSR2 --> Report --> dump:     profiles, waiting pods, nodes, queue, nominations      log lines
//	                   \-> Compare:  the API server's lists --Cluster--\
//	                                 cache, queue, nominator --State----+--> [Difference]   log lines
//
// It works on every replica and never holds up scheduling: cache and queue are copied under locks
// that are held for short times, and everything else happens afterwards. What it writes is bounded,
// and comes in lines short enough not to hold up others that log.
//
// kube-scheduler compares its cache with its own informers, so that it misses what the informers
// missed. Here the API server itself is asked, in pages that are reduced to a few fields each as
// they come in. As that is always a little ahead of the informers, one comparison finds differences
// where there are none: those that are found are looked for again a moment later, and only what is
// still there is told.
package debugger
