// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version is which livesched this is, and which versions of the API server it is tested
// with. (The version of Kubernetes that it is built on is
// k8s.io/component-base/version's.)
package version

// Version is stamped by the linker (see the Makefile); a plain `go build` leaves it at "dev".
var Version = "dev"
