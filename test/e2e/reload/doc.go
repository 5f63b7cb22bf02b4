// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reload checks the rules of reloads for pods at every moment of their scheduling.
//
//	matrix_test.go   the specs: every moment of a pod times every change of its profile
//	moments_test.go  how to bring a pod to a moment, hold it there, and let it continue
//	changes_test.go  how to change a profile, and the expected effect on its pods
//	order_test.go    a queue whose order changes under load
//	holder_test.go   the plugin that holds pods, and knows its instance of the profile
//
// All specs share one livesched on one API server; each has a profile, a policy, a node and pods of
// its own. docs/reload-rules.md lists the rules with their tests.
package reload
