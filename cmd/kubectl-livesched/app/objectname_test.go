// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/livesched/livesched/internal/history"
)

func TestParseObjectName(t *testing.T) {
	for args, want := range map[string]objectName{
		"binpack":                                    {"", "binpack"},
		"profile/binpack":                            {history.KindProfile, "binpack"},
		"profile binpack":                            {history.KindProfile, "binpack"},
		"sprof binpack":                              {history.KindProfile, "binpack"},
		"SchedulerProfile/profile":                   {history.KindProfile, "profile"},
		"schedulerprofile.livesched.io/a":            {history.KindProfile, "a"},
		"schedulingpolicies.v1alpha1.livesched.io b": {history.KindPolicy, "b"},
		"spol/b": {history.KindPolicy, "b"},
	} {
		if got, err := parseObjectName(strings.Fields(args)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", args, got, err)
		}
	}
	for args, want := range map[string]string{
		"":            "specify a profile or policy: NAME, profile/NAME or policy/NAME",
		"policy":      "specify the name of the policy: policy/NAME",
		"sprof/":      "specify the name of the sprof: sprof/NAME",
		"pod/a":       `unknown kind "pod": must be profile (sprof) or policy (spol)`,
		"a b":         `unknown kind "a"`,
		"a b c":       "specify one profile or policy, not a b c",
		"profile a/b": "specify one profile or policy, not profile a/b",
	} {
		if _, err := parseObjectName(strings.Fields(args)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestProfilesNamed(t *testing.T) {
	got, err := profilesNamed([]string{"a", "profile/b", "sprof/c", "schedulerprofile.livesched.io/d"})
	if want := []string{"a", "b", "c", "d"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := profilesNamed([]string{"a", "policy/b"}); err == nil ||
		!strings.HasPrefix(err.Error(), `"policy/b": must name a profile`) {
		t.Error(err)
	}
}
