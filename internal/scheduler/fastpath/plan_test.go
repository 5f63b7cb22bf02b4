// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import "testing"

func TestAPluginRunsAtTheExtensionPointsThatItNeeds(t *testing.T) {
	for name, test := range map[string]struct {
		points pointsOf
		want   bool
	}{
		"all": {pointsOf{preFilter: true, filter: true, preScore: true, score: true},
			true},
		"scoring is off":                      {pointsOf{preFilter: true, filter: true}, true},
		"Score is off, as for bin packing":    {pointsOf{preFilter: true, filter: true, preScore: true}, true},
		"filtering is off":                    {pointsOf{preScore: true, score: true}, true},
		"Filter is off":                       {pointsOf{preFilter: true, preScore: true, score: true}, false},
		"Filter lacks the state of PreFilter": {pointsOf{filter: true, preScore: true, score: true}, false},
		"Score lacks the state of PreScore":   {pointsOf{preFilter: true, filter: true, score: true}, false},
	} {
		for _, of := range []kind{spread, affinity} {
			test.points.kind = of
			if got := test.points.usual(); got != test.want {
				t.Errorf("%s, kind %v: %v, want %v", name, of, got, test.want)
			}
		}
	}
}
