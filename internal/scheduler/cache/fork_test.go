// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/livesched/livesched/test/objects"
)

func (w *twin) clone() *twin {
	c := &twin{nodes: map[string]*twinNode{}, pods: maps.Clone(w.pods), lives: w.lives}
	for name, n := range w.nodes {
		other := *n
		c.nodes[name] = &other
	}
	for uid, p := range w.pods {
		other := *p
		c.pods[uid] = &other
	}
	for _, z := range w.zones {
		c.zones = append(c.zones, &twinZone{key: z.key, names: slices.Clone(z.names)})
	}
	return c
}

func TestForkAndOriginalGoTheirOwnWays(t *testing.T) {
	seed := rand.Uint64()
	for run := range uint64(6) {
		t.Run(fmt.Sprintf("random operations, seed %d.%d", seed, run), func(t *testing.T) {
			newTest := func(c *Cache, w *twin, stream uint64) *twinTest {
				return &twinTest{
					versions: map[uint64]string{}, T: t, random: rand.New(rand.NewPCG(seed, stream)), cache: c,
					snapshot: NewSnapshot(), twin: w,
					quietly: true, shown: map[int]shownNode{}, reader: newLogReader(), lagging: newLogReader(),
					domains: map[string]map[int]string{}, hits: map[string]int{},
				}
			}
			rounds := func(n int, tests ...*twinTest) {
				for range n {
					for _, tt := range tests {
						for range tt.random.IntN(12) {
							tt.step()
						}
					}
					for _, tt := range tests {
						tt.refresh()
						if t.Failed() {
							t.Fatalf("operations since the refresh before: %v", tt.ops)
						}
						tt.ops, tt.quietly = nil, true
					}
				}
			}
			original := newTest(New(), newTwin(), run)
			rounds(60, original)
			for i := range uint64(3) {
				fork := newTest(original.cache.Fork(), original.twin.clone(), 100+10*run+i)
				fork.uids = 1000 * int(i+1)
				original.refresh()
				if want, got := fork.twin.size(), fork.cache.Size(); want != got {
					t.Fatalf("size: want %+v, got %+v", want, got)
				}
				fork.quietly = false
				fork.refresh()
				if diff := diffSnapshots(original.snapshot, fork.snapshot); diff != "" {
					t.Fatalf("the fork differs:\n%s", diff)
				}
				fork.quietly = true
				rounds(20, original, fork)
			}
		})
	}
}

// TestForkIsOneMoment forks while pods move between nodes that come and go. Each pod must be in a
// fork exactly once, and pods that move together must be where they were at the same time.
func TestForkIsOneMoment(t *testing.T) {
	const nodes, pods = 300, 30
	c := New()
	for i := range nodes {
		c.AddNode(quiet, newNode(fmt.Sprintf("n%d", i), ""))
		for j := range pods {
			if err := c.AddPod(quiet, newPod(fmt.Sprintf("p%d-%d", i, j), fmt.Sprintf("n%d", i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The steps of one pod, in their order: a fork may show any of them, and none twice.
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for worker := range 2 {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			old := newPod(fmt.Sprintf("mover%d", worker), "n0")
			for moves := 0; ; moves++ {
				select {
				case <-stop:
					return
				default:
				}
				pod := objects.Edited(old, onNode(fmt.Sprintf("n%d", random.IntN(nodes))))
				if err := c.UpdatePod(quiet, old, pod); err != nil {
					t.Error(err)
				}
				old = pod
			}
		})
	}
	for range 20 {
		f := c.Fork()
		seen := map[string]int{}
		for _, n := range f.nodes {
			for _, info := range n.pods {
				seen[info.Pod.Name]++
				if info.Pod.Spec.NodeName != n.name {
					t.Errorf("pod %s of node %s is on node %s", info.Pod.Name, info.Pod.Spec.NodeName, n.name)
				}
			}
		}
		for name, times := range seen {
			if times != 1 {
				t.Errorf("pod %s is there %d times", name, times)
			}
		}
		if len(seen) < nodes*pods || len(f.pods) != len(seen) {
			t.Errorf("%d pods on nodes, %d by UID", len(seen), len(f.pods))
		}
	}
	close(stop)
	workers.Wait()
}

// BenchmarkFork copies a cluster of 5,000 nodes with 50,000 pods.
//
//	go test -run '^$' -bench Fork ./internal/scheduler/cache
func BenchmarkFork(b *testing.B) {
	c := New()
	for i := range 5000 {
		c.AddNode(quiet, newNode(fmt.Sprintf("n%d", i), fmt.Sprintf("z%d", i%3)))
		for j := range 10 {
			if err := c.AddPod(quiet, newPod(fmt.Sprintf("p%d-%d", i, j), fmt.Sprintf("n%d", i))); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("Copy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Fork()
		}
	})
	b.Run("CopyAndSnapshot", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := c.Fork().UpdateSnapshot(quiet, NewSnapshot()); err != nil {
				b.Fatal(err)
			}
		}
	})
	// What is done under the lock: first the nodes are listed, then copied in batches, then
	// compared.
	b.Run("LockedFirst", func(b *testing.B) {
		for b.Loop() {
			c.nodeSizes()
		}
	})
	b.Run("LockedLast", func(b *testing.B) {
		copied := map[*node]*forkedNode{}
		for n := range c.nodeSizes() {
			copied[n] = c.forkNodeLocked(n)
		}
		for b.Loop() {
			c.forkRest(copied)
		}
	})
}
