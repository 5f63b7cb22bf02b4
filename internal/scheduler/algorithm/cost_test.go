// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"fmt"
	"testing"

	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// TestADecisionLooksAtFewNodes counts the nodes that a decision about a pod of a class that is known looks at. With 20
// classes in turn, 20 nodes have changed since the last pod like it: the twins and groups look at these, at most, and at
// one node of each group.
func TestADecisionLooksAtFewNodes(t *testing.T) {
	const classes, most = 20, 100
	for _, kind := range []string{"basic", "owned", "spread", "anti", "affinity", "mixed"} {
		for _, nodes := range []int{400, 2000} {
			t.Run(fmt.Sprintf("%s/%d", kind, nodes), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(quiet(t))
				base := newOracle(ctx, t, setup{percentage: 100, parallelism: 2, change: unspied})
				t.Cleanup(func() {
					cancel()
					frameworkruntime.WaitForShutdown(base.framework)
				})
				benchObjects(base)
				w := newWorldOn(t, base, 1, 0)
				place := w.decider(nodes)
				for i := range 10 * classes {
					place(benchPod(kind, i))
					// The first pod of a class may find nothing to keep off, the second does and takes a pass over all nodes, with the
					// third its groups are made.
					if looked := w.ours.fast.rows.Looked(); i >= 3*classes && looked > most {
						t.Fatalf("the decision about pod %d looked at %d nodes, want %d at most", i, looked, most)
					}
				}
			})
		}
	}
}
