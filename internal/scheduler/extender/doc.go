// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extender calls scheduler extenders over HTTP or HTTPS, as kube-scheduler does
// (pkg/scheduler/extender.go, types in k8s.io/kube-scheduler/extender/v1).
//
//	filter      pod, nodes             -> nodes that are left, others with reasons
//	prioritize  pod, nodes             -> scores from 0 to 10
//	preempt     pod, nodes and victims -> fewer nodes, other victims
//	bind        pod, node              -> bound by the extender
//
// Each call is a POST of JSON. Every failure (no connection, a timeout, a status other than 200, an
// invalid response) is an error that names the extender and the verb. The caller decides what the
// error means for the pod, and whether the extender may be ignored.
//
// An extender is not trusted, because every user who may write policies can choose it:
//
//	decode.go   answers are read as a stream, and name only what was asked about
//	errors.go   errors, which reach Events of pods, repeat nothing that the extender sent
//	budget.go   the calls of a scheduling cycle share a time budget
//	breaker.go  a circuit breaker stops calls that fail in a row
//	probes.go   calls in the background try whether such an extender works again
//
// Extenders belong to an instance of a profile: they are created and closed with it. They are made
// from resolved configuration, so this package imports resolve, which imports nothing that runs.
package extender
