// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package framework runs the plugins of one profile at their extension points.
//
// It replaces kube-scheduler's framework runtime
// (k8s.io/kubernetes/pkg/scheduler/framework/runtime) and follows its rules; the plugins themselves
// are written against k8s.io/kube-scheduler/framework and run unchanged.
//
//	schedconfig.Plugins     what a profile asks for: MultiPoint, extension points, weights
//	      |  Needed: the names to build, by way of a Registry
//	      |  Expand: names and instances -> which plugin runs where, in which order
//	      v
//	   Plugins              immutable; one list per extension point
//	      |  New
//	      v
//	  Framework             PreFilter > Filter > PostFilter > PreScore > Score >
//	                        Reserve > Permit > PreBind > Bind > PostBind
//	      |
//	      v
//	  WaitingPods, PodsInPreBind    one of each per process, shared by all frameworks
//
// A Framework belongs to one instance of a profile and holds nothing that must outlive it: pods
// that wait on Permit and pods in PreBind are kept in structures that all frameworks of the process
// share, so that they can be allowed, rejected or preempted regardless of the instance that
// scheduled them.
//
// # Panics
//
// A plugin that panics fails its pod. Every call into a plugin recovers and turns the panic into an
// error status that names the plugin and the extension point (PanicError); Parallelizer does the
// same for work that a plugin spreads over goroutines by way of its handle.
//
// # Metrics
//
// The metrics are kube-scheduler's own variables, so schedmetrics.Register must have run before New
// is called.
package framework
