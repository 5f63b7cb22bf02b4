// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestTheTypesOfAllInTreePluginsAreKnown(t *testing.T) {
	if diff := cmp.Diff(sets.List(inTree()), sets.List(sets.KeySet(inTreeTypes))); diff != "" {
		t.Errorf("(-registered +known)\n%s", diff)
	}
	for name, plugin := range inTreeTypes {
		somewhere := false
		for _, at := range points {
			if at.name == "multiPoint" {
				continue
			}
			if extensionPoints[at.name] == nil {
				t.Fatalf("no type for extension point %s", at.name)
			}
			somewhere = somewhere || extensionPoints[at.name](plugin)
		}
		if !somewhere {
			t.Errorf("plugin %s extends nothing", name)
		}
	}
}
