// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a real Kubernetes control plane on this machine, for tests, benchmarks
// and the sandbox.
//
//	binaries  etcd, kube-apiserver, kube-controller-manager, kwok (and kube-scheduler), built from source once
//	process   a child process that dies with its parent, and whose death its parent notices
//	Start     etcd -> kube-apiserver [-> kube-controller-manager] [-> kwok], on free loopback ports
//
// Start follows envtest's file conventions (KUBEBUILDER_ASSETS) but handles failures differently.
// Every process belongs to the control plane and is killed with it, logs to a file, and is watched.
// So a dead component is an error with a name (Done, Err) rather than a test that times out.
//
// The behavior that a scheduler observes depends on the other components:
//
//   - Without kube-controller-manager the admission plugins that rely on its controllers are off:
//     ServiceAccount (no namespace gets its default account) and TaintNodesByCondition (no
//     controller would remove the not-ready taint of a new node).
//   - With it both are on. A Deployment gets its pods, a namespace its account, a node loses its
//     taint once it is ready.
//   - With kwok every node stays ready, a bound pod runs immediately, a pod of a Job completes, and
//     a deleted pod disappears.
package controlplane
