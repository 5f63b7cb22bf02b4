// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a real Kubernetes control plane on this machine: for tests, for
// benchmarks and for the sandbox.
//
//	binaries  etcd, kube-apiserver, kube-controller-manager, kwok (and kube-scheduler), built from source once
//	process   a child process that dies with its parent and whose death is noticed
//	Start     etcd -> kube-apiserver [-> kube-controller-manager] [-> kwok], on free loopback ports
//
// Start differs from envtest, whose file conventions it follows (KUBEBUILDER_ASSETS), in what
// happens when something goes wrong: every process belongs to the control plane and is killed with
// it, logs to a file, and is watched, so that a dead component is an error with a name (Done, Err)
// rather than a test that times out.
//
// What a scheduler meets depends on who else is there:
//
//   - Without kube-controller-manager the admission plugins that rely on its controllers are off:
//     ServiceAccount (no namespace gets its default account) and TaintNodesByCondition (nobody
//     would take the not-ready taint off a new node).
//   - With it both are on. A Deployment gets its pods, a namespace its account, a node loses its
//     taint once it is ready.
//   - With kwok every node is kept ready, a bound pod runs at once, a pod of a Job completes and a
//     deleted pod vanishes.
package controlplane
