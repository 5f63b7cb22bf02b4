// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package suggest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/internal/suggest"
)

var (
	plugins = []string{"DefaultBinder", "ImageLocality", "NodeAffinity", "NodeLabel", "NodeName", "NodePorts",
		"NodeResourcesFit", "NodeResourcesLimits", "TaintToleration"}
	resources = []string{"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"}
)

func TestNearestNames(t *testing.T) {
	for name, tt := range map[string]struct {
		word       string
		candidates []string
		want       []string
	}{
		"a letter is missing": {"NodeResourceFit", plugins,
			[]string{"NodeResourcesFit", "NodeResourcesLimits"}},
		"two letters are swapped":       {"memroy", resources, []string{"memory"}},
		"another case":                  {"nodeports", plugins, []string{"NodePorts"}},
		"a plural":                      {"cpus", resources, []string{"cpu"}},
		"a dash too many":               {"bin-pack", []string{"default", "binpack", "spread"}, []string{"binpack"}},
		"a resource without its prefix": {"gpu", []string{"memory", "nvidia.com/gpu"}, []string{"nvidia.com/gpu"}},
		"equally similar names": {"pool-c", []string{"pool-b", "pool-a", "pool-b"},
			[]string{"pool-a", "pool-b"}},
		"nothing is similar":               {"NoSuchPlugin", resources, nil},
		"no candidates":                    {"x", nil, nil},
		"no word":                          {"", []string{"", "a"}, nil},
		"a word that is longer than names": {strings.Repeat("a", 254), []string{strings.Repeat("a", 253)}, nil},
		"a limit":                          {"a1", []string{"a2", "a3", "a4", "a1"}, []string{"a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			limit := 3
			if name == "a limit" {
				limit = 1
			}
			before := slices.Clone(tt.candidates)
			if diff := cmp.Diff(tt.want, suggest.Nearest(tt.word, tt.candidates, limit)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, tt.candidates); diff != "" {
				t.Errorf("the candidates are changed: %s", diff)
			}
		})
	}
}

func TestDidYouMean(t *testing.T) {
	for word, want := range map[string]string{
		"memroy":  ": did you mean memory?",
		"NodeRes": ": did you mean NodePorts, NodeName or NodeLabel?",
		"zzz":     "",
	} {
		if got := suggest.DidYouMean(word, append(plugins, resources...)); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
}

func FuzzNearest(f *testing.F) {
	f.Add("NodeResourceFit", strings.Join(plugins, " "), 3)
	f.Add("gpu", "a/b/ / gpu/ nvidia.com/gpu \xff", 0)
	f.Fuzz(func(t *testing.T, word, text string, limit int) {
		candidates := strings.Split(text, " ")
		nearest := suggest.Nearest(word, candidates, limit)
		if len(nearest) > max(0, limit) {
			t.Errorf("got %d names, the limit is %d", len(nearest), limit)
		}
		for i, name := range nearest {
			if !slices.Contains(candidates, name) || slices.Contains(nearest[:i], name) {
				t.Errorf("%q is no candidate, or is there twice: %q", name, nearest)
			}
		}
		if exact := slices.Contains(candidates, word); exact && word != "" && len(word) <= 253 && limit > 0 &&
			len(nearest) == 0 {
			t.Errorf("%q is a candidate, and nothing is suggested", word)
		}
	})
}

func TestOneOf(t *testing.T) {
	for want, names := range map[string][]string{"a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := suggest.OneOf(names); got != want {
			t.Errorf("%q: got %q", names, got)
		}
	}
}
