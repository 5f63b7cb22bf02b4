// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

func TestNamesOfNodesAreErased(t *testing.T) {
	names := nodeNames(sets.New("n1", "node-1.example", "10.0.0.7"))
	for message, want := range map[string]string{
		"0/116 nodes are available: 116 Insufficient cpu.": "0/116 nodes are available: 116 Insufficient cpu.",
		"not on n1.":                    "not on (a node).",
		"n1,node-1.example/n1: \"n1\"":  "(a node),(a node)/(a node): \"(a node)\"",
		"n12 and an1 and n1-x are pods": "n12 and an1 and n1-x are pods",
		"the node 10.0.0.7 refuses":     "the node (a node) refuses",
		"pod group ml/g: 1 of 2 pods fit in host=x; g-0: no n1": "pod group ml/g: 1 of 2 pods fit in one domain; " +
			"g-0: no (a node)",
		"": "",
	} {
		if got := names.erase(message); got != want {
			t.Errorf("%q: got %q, want %q", message, got, want)
		}
	}
}
