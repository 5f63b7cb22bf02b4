// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/selfcheck"
	"github.com/livesched/livesched/test/objects"
)

// filled returns a cache of that many nodes in three zones with a pod on each, and its snapshot,
// with all lists made.
func filled(tb testing.TB, nodes int) (*Cache, *Snapshot) {
	tb.Helper()
	c, s := New(), NewSnapshot()
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		c.AddNode(quiet, newNode(name, fmt.Sprintf("z%d", i%3), withImages("i", "j")))
		if err := c.AddPod(quiet, newPod(fmt.Sprintf("on-%d", i), name, withAffinity)); err != nil {
			tb.Fatal(err)
		}
	}
	update(tb, c, s)
	look(tb, s)
	return c, s
}

// addAnother puts an equal pod on a node until the test ends, so that the cache keeps what it knows
// of this kind of pod when the first one is removed.
func addAnother(tb testing.TB, c *Cache, pod *corev1.Pod) {
	tb.Helper()
	another := objects.Edited(pod, onNode("n2"), func(p *corev1.Pod) { p.Name, p.UID = "another", "another" })
	if err := c.AddPod(quiet, another); err != nil {
		tb.Fatal(err)
	}
	removeInTheEnd(tb, c, another)
}

func removeInTheEnd(tb testing.TB, c *Cache, pod *corev1.Pod) {
	tb.Cleanup(func() {
		if err := c.RemovePod(quiet, pod); err != nil {
			tb.Error(err)
		}
	})
}

func update(tb testing.TB, c *Cache, s *Snapshot) {
	if err := c.UpdateSnapshot(quiet, s); err != nil {
		tb.Fatal(err)
	}
}

// look reads everything that is made lazily.
func look(tb testing.TB, s *Snapshot) {
	s.Topo(corev1.LabelTopologyZone)
	s.Topo(corev1.LabelHostname)
	s.Signatures()
	for _, list := range []func() int{
		func() int { l, _ := s.List(); return len(l) },
		func() int { l, _ := s.HavePodsWithAffinityList(); return len(l) },
		func() int { l, _ := s.HavePodsWithRequiredAntiAffinityList(); return len(l) },
	} {
		if n := list(); n > s.NumNodes() {
			tb.Errorf("%d of %d nodes", n, s.NumNodes())
		}
	}
}

func TestCost(t *testing.T) {
	selfcheck.Enable(false) // the checks allocate
	defer selfcheck.Enable(true)
	// Objects that frequent operations allocate, on clusters of any size. Each operation leaves its
	// cluster as it was.
	sizes := []int{10, 1000, 20000}
	var caches []*Cache
	var snapshots []*Snapshot
	for _, nodes := range sizes {
		c, s := filled(t, nodes)
		caches, snapshots = append(caches, c), append(snapshots, s)
	}
	for _, tt := range []struct {
		name string
		most float64
		run  func(t *testing.T, c *Cache, s *Snapshot) func()
	}{
		{"a refresh after nothing", 0, func(t *testing.T, c *Cache, s *Snapshot) func() {
			return func() { update(t, c, s) }
		}},
		{"assume, refresh, forget, refresh of a pod of a class", 1, func(t *testing.T, c *Cache, s *Snapshot) func() {
			pod := newPod("p", "n1")
			addAnother(t, c, pod)
			class := Class{ID: 1, Like: infoOf(pod)}
			class.Like.CalculateResource()
			return func() {
				err := c.AssumePodOfClass(quiet, pod, class)
				update(t, c, s)
				if err != nil || c.ForgetPod(quiet, pod) != nil {
					t.Fatal(err)
				}
				update(t, c, s)
			}
		}},
		{"assume, refresh, forget, refresh of any pod", 40, func(t *testing.T, c *Cache, s *Snapshot) func() {
			pod := newPod("p", "n1")
			addAnother(t, c, pod)
			info := infoOf(pod)
			return func() {
				err := c.AssumePod(quiet, info)
				update(t, c, s)
				if err != nil || c.ForgetPod(quiet, pod) != nil {
					t.Fatal(err)
				}
				update(t, c, s)
			}
		}},
		{"two status updates and a refresh", 2, func(t *testing.T, c *Cache, s *Snapshot) func() {
			pod := newPod("p", "n1")
			updates := []*corev1.Pod{objects.Edited(pod), objects.Edited(pod)}
			if err := c.AddPod(quiet, updates[1]); err != nil {
				t.Fatal(err)
			}
			removeInTheEnd(t, c, pod)
			return func() {
				for i := range updates {
					if err := c.UpdatePod(quiet, updates[1-i], updates[i]); err != nil {
						t.Fatal(err)
					}
				}
				update(t, c, s)
			}
		}},
		{"a pod with anti-affinity that comes and goes, with the list of such nodes made each time", 48,
			func(t *testing.T, c *Cache, s *Snapshot) func() {
				pod := newPod("p", "n1", withRequiredAntiAffinity)
				info := infoOf(pod)
				return func() {
					err := c.AssumePod(quiet, info)
					update(t, c, s)
					look(t, s)
					if err != nil || c.ForgetPod(quiet, pod) != nil {
						t.Fatal(err)
					}
					update(t, c, s)
					look(t, s)
				}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var allocated []float64
			for i := range sizes {
				update(t, caches[i], snapshots[i])
				look(t, snapshots[i])
				allocated = append(allocated, testing.AllocsPerRun(100, tt.run(t, caches[i], snapshots[i])))
			}
			t.Logf("objects allocated with %v nodes: %v", sizes, allocated)
			if slices.Max(allocated) > tt.most {
				t.Errorf("objects allocated: got %v, want at most %v", allocated, tt.most)
			}
		})
	}
}

func TestNothingIsRetained(t *testing.T) {
	// Operations that occur without end: pods in all states, nodes, labels, images, claims.
	churn := func(c *Cache, s *Snapshot, from, to int) {
		for i := from; i < to; i++ {
			pod := newPod(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i%100), withRequiredAntiAffinity,
				claiming(fmt.Sprintf("c%d", i)), labelled(fmt.Sprint(i)), listening(int32(1+i%60000)))
			if err := c.AssumePod(quiet, infoOf(pod)); err != nil {
				t.Fatal(err)
			}
			update(t, c, s)
			if i%10 == 0 {
				if err := c.ForgetPod(quiet, pod); err != nil {
					t.Fatal(err)
				}
				continue
			}
			confirmed := objects.Edited(pod, running)
			if err := c.AddPod(quiet, confirmed); err != nil {
				t.Fatal(err)
			}
			if i%50 == 1 {
				node := newNode(fmt.Sprintf("new-%d", i), fmt.Sprintf("z-%d", i),
					withImages(fmt.Sprintf("image-%d", i)))
				c.AddNode(quiet, node)
				update(t, c, s)
				look(t, s)
				if err := c.RemoveNode(quiet, node); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.RemovePod(quiet, confirmed); err != nil {
				t.Fatal(err)
			}
		}
		update(t, c, s)
		look(t, s)
	}
	heap := func() uint64 {
		var stats runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	c, s := filled(t, 100)
	// The heap may grow by 10 bytes for each pod after the first tenth.
	const growth = 440 << 10
	pods := 50_000
	if testing.Short() {
		pods = 10_000
	}
	churn(c, s, 0, pods/10) // the log and the journal have reached their size
	before := heap()
	churn(c, s, pods/10, pods)
	after := heap()
	t.Logf("the heap went from %d KiB to %d KiB", before>>10, after>>10)
	if after > before+growth {
		t.Errorf("the heap has grown from %d KiB to %d KiB over %d pods", before>>10, after>>10, pods*9/10)
	}
	if c.Size().Pods != 100 || c.Size().Nodes != 100 || s.Slots() > 102 || len(s.slots) != 100 || len(s.pvcs) != 0 ||
		len(s.priorities) > 1 || len(s.images.summaries) != 4 || len(c.order.zones) != 3 || len(s.tree.zones) != 3 {
		t.Errorf("left over: %d pods, %d nodes, %d slots, %d node names, %d claims, %d images, %d and %d zones",
			c.Size().Pods, c.Size().Nodes, s.Slots(), len(s.slots), len(s.pvcs), len(s.images.summaries),
			len(c.order.zones), len(s.tree.zones))
	}
	for key, topology := range s.topologies {
		if topology.Bound() > 102 {
			t.Errorf("topology %s has numbers for %d domains", key, topology.Bound())
		}
	}
	if x := s.Signatures(); int(x.Bound()) > 2*len(x.numbers)+spareSignatures || len(x.numbers) != 1 ||
		len(x.withTerms) > int(x.Bound()) {
		t.Errorf("there are %d signatures with numbers below %d", len(x.numbers), x.Bound())
	}
	runtime.KeepAlive(c)
}
