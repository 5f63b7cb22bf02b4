// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package debugger logs the state of the scheduler on request, and how it differs from the API
// server. It is kube-scheduler's debugger (pkg/scheduler/backend/cache/debugger), with more in the
// dump and more in the comparison.
//
//	SIGUSR2 --> Report --> dump:     profiles, waiting pods, nodes, queue, nominations      log lines
//	                   \-> Compare:  the API server's lists --Cluster--\
//	                        cache, queue, nominator, devices --State----+--> [Difference]   log lines
//
// It works on every replica and never holds up scheduling: it copies cache, queue and devices under
// locks that it holds for short times, and does everything else afterwards. Its output is bounded,
// and its lines are short enough not to hold up others that log.
//
// kube-scheduler compares its cache with its own informers, so that it misses the changes that the
// informers missed. This package lists from the API server itself, in pages that it reduces to a
// few fields each. As the API server is always a little ahead of the informers, one comparison
// finds differences that are due to the delay only. So it compares again a moment later, and
// reports the differences that remain.
package debugger
