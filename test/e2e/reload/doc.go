// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reload checks what a reload must keep true, whatever a pod is going through at that
// moment.
//
//	matrix_test.go   the specs: every moment of a pod times every change of its profile
//	moments_test.go  how a pod is brought to a moment and held there, and how it goes on
//	changes_test.go  how a profile is changed, and what is to become of its pods
//	order_test.go    a queue whose order changes under load
//	holder_test.go   the plugin that holds pods, and knows which generation it is of
//
// All specs share one livesched on one API server; each has a profile, a policy, a node and pods of
// its own. docs/reload-rules.md lists the rules with their tests.
package reload
