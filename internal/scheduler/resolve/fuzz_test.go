// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// FuzzResolve resolves objects with any content, then again with the running profiles as last good.
func FuzzResolve(f *testing.F) {
	seeds, err := filepath.Glob(filepath.Join("testdata", "*", "*.in.yaml"))
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, seed := range seeds {
		text, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var lastGood resolve.LastGood
		for _, text := range [][]byte{first, second} {
			in, err := parseObjects(text)
			if err != nil || twins(in) {
				return
			}
			in.LastGood, in.Registered = lastGood, registered()
			resolution := resolve.Objects(in)
			checkInvariants(t, in, resolution)
			slices.Reverse(in.Profiles)
			slices.Reverse(in.Policies)
			if diff := cmp.Diff(resolution, resolve.Objects(in), exportedOnly); diff != "" {
				t.Fatalf("another order of the objects resolves otherwise:\n%s", diff)
			}
			lastGood = resolution.LastGood(running(resolution))
		}
	})
}

// twins reports whether two objects have one name, which the API server does not allow.
func twins(in resolve.Input) bool {
	profiles, policies := sets.New[string](), sets.New[string]()
	for i := range in.Profiles {
		profiles.Insert(in.Profiles[i].Name)
	}
	for i := range in.Policies {
		policies.Insert(in.Policies[i].Name)
	}
	return len(profiles) != len(in.Profiles) || len(policies) != len(in.Policies)
}

// FuzzArgs gives a plugin any arguments: kube-scheduler accepts the accepted ones, too, and decodes
// them to the same values.
func FuzzArgs(f *testing.F) {
	for _, name := range sets.List(sets.KeySet(argsSamples)) {
		for _, args := range argsSamples[name] {
			f.Add(name, args)
		}
	}
	f.Fuzz(func(t *testing.T, plugin, args string) {
		config := v1alpha1.PluginConfig{Name: plugin}
		if args != "" {
			config.Args.Raw = []byte(args)
		}
		spec := v1alpha1.SchedulerProfileSpec{SchedulerName: "fuzzed", PluginConfig: []v1alpha1.PluginConfig{config}}
		got, result := resolveOne(spec)
		if !result.Accepted {
			return
		}
		want, err := loadUpstream(&spec)
		if err != nil {
			t.Fatalf("kube-scheduler refuses what was accepted: %v", err)
		}
		if diff := cmp.Diff(want, got.Config, equateEmpty); diff != "" {
			t.Fatalf("(-kube-scheduler +livesched)\n%s", diff)
		}
	})
}
