// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extender asks services outside of the process about a scheduling decision, over HTTP or
// HTTPS, as kube-scheduler does (pkg/scheduler/extender.go, types in
// k8s.io/kube-scheduler/extender/v1).
//
//	filter      pod, nodes             -> nodes that are left, others with reasons
//	prioritize  pod, nodes             -> scores from 0 to 10
//	preempt     pod, nodes and victims -> fewer nodes, other victims
//	bind        pod, node              -> bound by the extender
//
// Each call is a POST of JSON. Whatever goes wrong with one (no connection, too slow, another
// status than 200, an answer that makes no sense) is an error that names the extender and the verb;
// what becomes of the pod then, whether the extender may be ignored, is for the caller to decide.
//
// Extenders belong to a generation of a profile: they are made and closed with it.
package extender
