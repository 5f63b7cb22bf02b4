// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	kubeversion "k8s.io/component-base/version"
)

func TestSkewOf(t *testing.T) {
	for server, want := range map[string]Skew{
		"1.33":                SkewOlder,
		"v1.33.99-eks-12345":  SkewOlder,
		"v0.0.0-master+$Form": SkewOlder,
		"v1.34.0":             SkewTested,
		"v1.34.0-rc.1":        SkewTested,
		"v1.35.9+k3s1":        SkewTested,
		"1.36+":               SkewTested,
		"v1.36.1-gke.100":     SkewTested,
		"1.37.0-alpha.1":      SkewTested,
		"1.38.0-alpha.1":      SkewNewer,
		"v2.0.0":              SkewNewer,
		"unknown":             SkewUnknown,
		"":                    SkewUnknown,
	} {
		if got := SkewOf(server); got != want {
			t.Errorf("SkewOf(%q) = %s, want %s", server, got, want)
		}
	}
}

// Every tested version but that of the plugins has a module from which `make test-skew` builds its
// kube-apiserver.
func TestEveryTestedVersionCanBeBuilt(t *testing.T) {
	var want []string
	oldest, newest := version.MustParseGeneric(OldestTested), version.MustParseGeneric(NewestTested)
	plugins := version.MustParseGeneric(kubeversion.DefaultKubeBinaryVersion)
	for minor := oldest.Minor(); minor <= newest.Minor(); minor++ {
		if minor != plugins.Minor() {
			want = append(want, fmt.Sprintf("kubernetes-%d.%d", oldest.Major(), minor))
		}
	}
	dirs, err := os.ReadDir("../../hack/controlplane")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, dir := range dirs {
		if match, _ := filepath.Match("kubernetes-*", dir.Name()); match {
			got = append(got, dir.Name())
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("modules %q, want %q", got, want)
	}
}
