// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podfields knows which fields of pods and nodes decisions depend on. It is the only one
// that lists them.
//
//	             |  write    groups of fields as parts of keys: what one plugin reads
//	fields       |  same     whether two objects are equal in a group
//	of a pod ----|  traits   what a pod asks for besides CPU and memory, whether it stays with its node
//	or node      |  keep     copies the fields that decisions depend on, for snapshots, and drops those
//	             |           that only kubelets and users read, to save memory
//
// Which plugin reads which group is not known here: the packages profile (for hints) and fastpath
// (for decisions) have these tables.
//
// testdata/fields.txt names every field of a pod and of a node, with the functions of this package
// that read it. A test compares the file with the API types and with what the functions do, so an
// upgrade of Kubernetes that adds a field fails the test: then look for it in kube-scheduler's
// plugins. The file is about the plugins of kube-scheduler 1.37.
package podfields
