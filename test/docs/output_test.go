// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import "testing"

func TestOutputIsCompared(t *testing.T) {
	for _, test := range []struct {
		name, page, printed string
		want                bool
	}{
		{"is the same", "a\nb", "a\nb\n", true},
		{"lacks a line", "a", "a\nb", false},
		{"has another line", "a\nb", "a", false},
		{"leaves lines out", "...\nb\n...", "a\nb\nc", true},
		{"leaves the middle out", "a\n...\nc", "a\nb\nc", true},
		{"leaves out the wrong lines", "a\n...\nd\n...", "a\nb\nc", false},
		{"cuts a line", "a ...\nb", "a 1 2\nb", true},
		{"has another time and width", "train  1/1  Running  0  2s", "train   1/1   Running   0   1m10s", true},
		{"has another pod and node", "infer-5d9c7f8b6d-x7k2p on gpu-1", "infer-6c8d9f7b5c-abcde on gpu-4", true},
		{"has another address", "https://127.0.0.1:44309 10.244.0.33", "https://127.0.0.1:1 10.244.1.2", true},
		{"has another number", "8 nodes", "9 nodes", false},
		{"has another revision", "gpu@f95d6tp2bb", "gpu@f95d6tp2bc", false},
	} {
		if got := Shows(test.page, test.printed); got != test.want {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
}
