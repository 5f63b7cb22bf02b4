// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufragmentation

import (
	"math"
	"slices"
	"testing"
)

func TestFragment(t *testing.T) {
	gpus := []gpu{{free: 1000, model: "T4"}, {free: 500, model: "G2"}, {free: 0, model: "T4"}}
	for name, test := range map[string]struct {
		pod  podType
		want int64
	}{
		"one GPU has too little left":   {podType{cpu: 4000, gpus: 1, share: 600}, 500},
		"all that is left is of use":    {podType{cpu: 10000, gpus: 1, share: 500}, 0},
		"of two GPUs, one is not whole": {podType{gpus: 2, share: whole}, 1500},
		"two shares fit":                {podType{gpus: 2, share: 400}, 0},
		"the CPU is not enough":         {podType{cpu: 10001, gpus: 1, share: 100}, 1500},
		"no GPU is needed":              {podType{cpu: 1000, share: whole}, 1500},
		"another model is of no use":    {podType{gpus: 1, share: 400, models: []string{"P100", "T4"}}, 500},
		"the model has too little left": {podType{gpus: 1, share: 600, models: []string{"G2"}}, 1500},
	} {
		if got := test.pod.fragment(10000, gpus); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	if got := (&podType{gpus: 1, share: 100}).fragment(10000, nil); got != 0 {
		t.Errorf("without GPUs: %d", got)
	}
}

func TestFragmentationIsExpected(t *testing.T) {
	gpus := []gpu{{free: 1000}, {free: 500}}
	types := []podType{
		{gpus: 1, share: 600, popularity: 0.5},              // 500
		{gpus: 2, share: whole, popularity: 0.125},          // 1500
		{popularity: 0.25},                                  // 1500
		{cpu: 1, gpus: 1, share: whole, popularity: 0.0625}, // 1500
		{gpus: 1, share: 100, popularity: 0.0625},           // 0
	}
	if got, want := fragmentation(types, 0, gpus), 500*0.5+1500*(0.125+0.25+0.0625); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestScoreOfAChange(t *testing.T) {
	for _, test := range []struct {
		before, after float64
		want          int64
	}{
		{900, 900, 50},
		{1000, 0, 73},  // 1/(1+exp(-1)) = 0.731
		{0, 2000, 11},  // 1/(1+exp(2)) = 0.119
		{500, 250, 56}, // 1/(1+exp(-0.25)) = 0.562
		{8000, 0, 99},
		{0, 800000, 0},
		{800000, 0, 100},
	} {
		if got := scoreOf(test.before, test.after); got != test.want {
			t.Errorf("from %v to %v: %d, want %d", test.before, test.after, got, test.want)
		}
	}
}

func TestRequestsTakeTheFirstGPUsWithEnoughLeft(t *testing.T) {
	for name, test := range map[string]struct {
		gpus []gpu
		request
		want []int64 // free
	}{
		"a share": {[]gpu{{free: 300, capacity: 80}, {free: 700, capacity: 80}, {free: 1000, capacity: 80}},
			request{1, 40}, []int64{300, 200, 1000}},
		"a share is rounded up": {[]gpu{{free: 1000, capacity: 3}}, request{1, 1}, []int64{666}},
		"whole ones": {[]gpu{{free: 999, capacity: 80}, {free: 1000}, {free: 1000}}, request{2, 0},
			[]int64{999, 0, 0}},
		"as many as there are": {[]gpu{{free: 1000}, {free: 500, capacity: 10}}, request{math.MaxInt64, 1},
			[]int64{0, 400}},
		"what a claim gets by default": {[]gpu{{free: 1000, capacity: 10, usual: 2}}, request{1, 0}, []int64{800}},
		"a share of one that has none": {[]gpu{{free: 1000}}, request{1, 40}, []int64{0}},
		"more than any GPU has":        {[]gpu{{free: 1000, capacity: 10}}, request{1, 11}, []int64{1000}},
		"one GPU serves a request once": {[]gpu{{free: 1000, capacity: 10}, {free: 1000, capacity: 10}}, request{2, 3},
			[]int64{700, 700}},
	} {
		if fits := test.takeFrom(test.gpus); fits == (name == "more than any GPU has") {
			t.Errorf("%s: there are enough GPUs: %v", name, fits)
		}
		got := []int64{}
		for _, g := range test.gpus {
			got = append(got, g.free)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v are left, want %v", name, got, test.want)
		}
	}
}
