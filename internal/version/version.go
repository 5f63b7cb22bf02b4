// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version has the version of livesched, and the versions of the API server that it is
// tested with. k8s.io/component-base/version has the version of Kubernetes that it is built on.
package version

import "k8s.io/apimachinery/pkg/util/version"

// The API suites run on kube-apiserver of these minor versions and the versions between them, among
// them the version of the plugins: see `make test-skew`.
const (
	OldestTested = "1.34"
	NewestTested = "1.37"
)

// Skew is how the version of an API server compares with the versions that livesched is tested
// with.
type Skew string

// The values of Skew.
const (
	SkewTested  Skew = "tested"
	SkewOlder   Skew = "older"
	SkewNewer   Skew = "newer"
	SkewUnknown Skew = "unknown"
)

// SkewOf returns the skew of an API server by its version, such as v1.36.1-gke.100. A pre-release
// counts as the version that it precedes.
func SkewOf(server string) Skew {
	theirs, err := version.ParseGeneric(server)
	if err != nil {
		return SkewUnknown
	}
	minor := version.MajorMinor(theirs.Major(), theirs.Minor())
	switch {
	case minor.LessThan(version.MustParseGeneric(OldestTested)):
		return SkewOlder
	case minor.GreaterThan(version.MustParseGeneric(NewestTested)):
		return SkewNewer
	default:
		return SkewTested
	}
}

// Version is stamped by the linker (see the Makefile); a plain `go build` leaves it at "dev".
var Version = "dev"
