// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

func TestAPluginIsRefusedWhereItCannotRun(t *testing.T) {
	for _, test := range []struct{ plugin, point, want string }{
		{"NodeName", "score", `spec: plugin "NodeName" does not extend score; it extends filter`},
		{"ImageLocality", "filter", `spec: plugin "ImageLocality" does not extend filter; it extends score`},
		{"ImageLocality", "score", ""},
		{"ImageLocality", "multiPoint", ""},
		{"Coscheduling", "score", ""}, // unknown until it is built
		{"NodeName", "queueSort", ""}, // another check is more precise
	} {
		var found problems
		checkExtends(test.plugin, test.point, field.NewPath("spec"), &found)
		if got := found.message(); got != test.want {
			t.Errorf("%s at %s: %q, want %q", test.plugin, test.point, got, test.want)
		}
	}
}
