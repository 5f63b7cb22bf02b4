// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interning reduces the memory that objects take in the informers' caches.
//
// [NewTransform] returns the transform function for the informers:
//
//	object from the API server
//	      |  strip      managed fields, except in profiles and policies
//	      |  trim       bound pods: fields that only kubelets read (podfields.Drop)
//	      |  intern     bound pods and nodes: equal parts are kept once (interner.go)
//	      v
//	informer's store
//
// Pods of one ReplicaSet differ in little more than their names, and so do nodes of one pool. The
// interner keeps each distinct part (labels, containers, tolerations, ...) once, and all objects
// that have it refer to the same memory.
package interning
