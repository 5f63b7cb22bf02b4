// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"slices"
	"testing"

	"k8s.io/klog/v2"
)

// numPods returns how many pods each node has.
func (w *world) numPods() (pods []int) {
	w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
	nodes, err := w.snapshot.NodeInfos().List()
	w.must(err)
	for _, node := range nodes {
		pods = append(pods, len(node.GetPods()))
	}
	return pods
}

// A node with none, one or two of these tests' pods has the same total under the default plugins.

func TestFewestPodsWinAmongDrawnNodes(t *testing.T) {
	for name, scalar := range map[string]bool{"on the fast path": false, "on the scalar path": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, seed, 0)
			drawn := 0
			w.ours.cfg.IntN = func(n int) int {
				drawn++
				return drawn % n
			}
			if scalar {
				w.ours.cfg.Engine = nil
			}
			place := w.decider(draws)
			for i := range 2 * draws {
				place(podOf("basic", i))
				if pods := w.numPods(); slices.Max(pods)-slices.Min(pods) > 1 {
					t.Fatalf("after pod %d the nodes have %v pods", i, pods)
				}
			}
			if drawn == 0 || drawn > 2*draws {
				t.Errorf("%d times a node was drawn, though all were to be looked at", drawn)
			}
		})
	}
}

func TestEqualPodsSpreadOverEqualNodes(t *testing.T) {
	const nodes = 200
	w := newWorld(t, seed, 0)
	place := w.decider(nodes)
	for i := range nodes {
		place(podOf("basic", i))
	}
	used := nodes
	for _, pods := range w.numPods() {
		if pods == 0 {
			used--
		}
	}
	if used < nodes*9/10 { // about 194; if each best node were equally likely, 120
		t.Errorf("%d pods were placed on %d of %d nodes", nodes, used, nodes)
	}
}

func TestNotAllOfManyEqualNodesAreExamined(t *testing.T) {
	s := &Decider{cfg: Config{IntN: func(n int) int { return n - 1 }}}
	for pods, want := range map[int]int{1: draws, 0: 1} {
		looked := 0
		s.draw(10*draws, func(int) int {
			looked++
			return pods
		})
		if looked != want {
			t.Errorf("with %d pods on each: %d nodes were looked at, want %d", pods, looked, want)
		}
	}
}
