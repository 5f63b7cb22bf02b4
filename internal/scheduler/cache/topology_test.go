// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTopology(t *testing.T) {
	zone := corev1.LabelTopologyZone

	t.Run("nodes of one label value are of one domain", func(t *testing.T) {
		f := newFixture(t, newNode("a", "x"), newNode("b", "y"), newNode("c", "x"), newNode("d", ""))
		topology := f.snapshot.Topo(zone)
		domains := topology.Domains()
		if domains[0] != domains[2] || domains[0] == domains[1] || domains[0] < 0 || domains[1] < 0 ||
			domains[3] != -1 {
			t.Errorf("domains by slot: %v", domains)
		}
		if len(topology.ids) != 2 || topology.domains[domains[0]].nodes != 2 ||
			topology.Value(domains[1]) != "y" {
			t.Errorf("got %+v", topology)
		}
	})

	t.Run("an empty value is a domain, a missing label is none", func(t *testing.T) {
		f := newFixture(t, newNode("a", "", zoned("")), newNode("b", ""))
		if domains := f.snapshot.Topo(zone).Domains(); domains[0] < 0 || domains[1] != -1 {
			t.Errorf("domains by slot: %v", domains)
		}
	})

	t.Run("nodes come and go", func(t *testing.T) {
		f := newFixture(t, newNode("a", "x"), newNode("b", "x"))
		topology := f.snapshot.Topo(zone)
		f.must(f.RemoveNode(quiet, newNode("a", "x")))
		f.refresh()
		if topology.Domains()[0] != -1 {
			t.Errorf("after a node went: %+v", topology)
		}
		f.AddNode(quiet, newNode("c", "y"))
		f.AddNode(quiet, newNode("d", "y"))
		f.refresh()
		if domains := topology.Domains(); len(domains) != f.snapshot.Slots() || domains[0] != domains[2] ||
			domains[0] == domains[1] {
			t.Errorf("after nodes came: domains by slot %v", domains)
		}
		if f.snapshot.Topo(zone) != topology {
			t.Error("the topology was made anew")
		}
	})

	t.Run("a changed label changes the domain of its key only", func(t *testing.T) {
		a := newNode("a", "x")
		for name, change := range map[string]func(*corev1.Node){
			"to another value": zoned("y"),
			"to none":          func(n *corev1.Node) { delete(n.Labels, zone) },
		} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t, a, newNode("b", "x"))
				zones, hosts := slices.Clone(f.snapshot.Topo(zone).Domains()),
					slices.Clone(f.snapshot.Topo(corev1.LabelHostname).Domains())
				f.UpdateNode(quiet, a, editedNode(a, change))
				f.expectLog("NodeObject a")
				if now := f.snapshot.Topo(zone).Domains(); now[0] == zones[0] || now[1] != zones[1] {
					t.Errorf("the domains of zones were %v and are %v", zones, now)
				}
				if now := f.snapshot.Topo(corev1.LabelHostname).Domains(); !slices.Equal(now, hosts) {
					t.Errorf("the domains of hostnames were %v and are %v", hosts, now)
				}
			})
		}
	})

	t.Run("a domain is large until it has few nodes", func(t *testing.T) {
		node := func(i int) *corev1.Node { return newNode(fmt.Sprint("n", i), "x") }
		f := newFixture(t, node(0))
		topology := f.snapshot.Topo(zone)
		expect := func(nodes int, large bool, resized uint64) {
			t.Helper()
			f.refresh()
			domain := topology.ids["x"]
			if topology.Large(domain) != large || topology.Resized() != resized ||
				len(topology.AppendMembers(nil, domain)) != nodes {
				t.Errorf("with %d nodes: large %v, resized %d times, members %v", nodes, topology.Large(domain),
					topology.Resized(), topology.AppendMembers(nil, domain))
			}
		}
		for i := 1; i < maxSmall; i++ {
			f.AddNode(quiet, node(i))
		}
		expect(maxSmall, false, 0)
		f.AddNode(quiet, node(maxSmall))
		expect(maxSmall+1, true, 1)
		for i := range maxSmall - minLarge {
			f.must(f.RemoveNode(quiet, node(i)))
		}
		expect(minLarge+1, true, 1)
		f.must(f.RemoveNode(quiet, node(maxSmall)))
		expect(minLarge, false, 2)
	})

	t.Run("numbers of domains are reused", func(t *testing.T) {
		f := newFixture(t, newNode("first", ""))
		topology := f.snapshot.Topo(corev1.LabelHostname)
		f.must(f.RemoveNode(quiet, newNode("first", "")))
		f.refresh()
		for i := range 1000 {
			node := newNode(fmt.Sprintf("n%d", i), "")
			f.AddNode(quiet, node)
			f.refresh()
			f.must(f.RemoveNode(quiet, node))
			f.refresh()
		}
		if topology.Bound() > 1 || len(topology.ids) != 0 || f.snapshot.Slots() > 1 {
			t.Errorf("after 1000 nodes came and went: %d domain numbers, %d values, %d slots", topology.Bound(),
				len(topology.ids), f.snapshot.Slots())
		}
	})

	t.Run("unused keys are dropped", func(t *testing.T) {
		const fit, keys = 5, 20
		f := newFixture(t, newNode("a", "x", func(n *corev1.Node) {
			for i := range keys {
				n.Labels[fmt.Sprint("key", i)] = "x"
			}
		}))
		first := f.snapshot.Topo("key0")
		f.snapshot.topologyBytes = fit * first.bytes()
		for i := range 10 * keys {
			f.refresh()
			f.snapshot.Topo(zone) // each cycle reads it
			f.snapshot.Topo(fmt.Sprint("key", 1+i%(keys-1)))
		}
		if len(f.snapshot.topologies) != fit {
			t.Errorf("%d topologies are kept up, room is for %d", len(f.snapshot.topologies), fit)
		}
		if _, ok := f.snapshot.topologies[zone]; !ok {
			t.Error("the one in use was dropped")
		}
		if f.snapshot.Topo("key0") == first {
			t.Error("a topology that was dropped came back")
		}
		for i := range keys { // all of them are used in one cycle
			f.snapshot.Topo(fmt.Sprint("key", i))
		}
		if len(f.snapshot.topologies) < keys {
			t.Errorf("only %d topologies that are in use are left", len(f.snapshot.topologies))
		}
	})

	t.Run("keys that no node has share one", func(t *testing.T) {
		a := newNode("a", "x")
		f := newFixture(t, a)
		none := f.snapshot.Topo("rack")
		for i := range 1000 {
			if f.snapshot.Topo(fmt.Sprint("key", i)) != none {
				t.Fatal("a key that no node has got a topology of its own")
			}
		}
		f.AddNode(quiet, newNode("b", "x"))
		f.refresh()
		if domains := none.Domains(); !slices.Equal(domains, []int32{-1, -1}) || f.snapshot.Topo("rack") != none {
			t.Errorf("domains by slot: %v", domains)
		}
		f.UpdateNode(quiet, a, editedNode(a, func(n *corev1.Node) { n.Labels["rack"] = "1" }))
		f.refresh()
		if now := f.snapshot.Topo("rack"); now == none || now.Domains()[0] < 0 {
			t.Error("the key of a node has no topology")
		}
	})
}

func TestLabelKeysOfNodes(t *testing.T) {
	a := newNode("a", "x")
	f := newFixture(t, a)
	if epoch := f.snapshot.LabelsEpoch(); !f.snapshot.HasLabel(corev1.LabelTopologyZone) ||
		f.snapshot.HasLabel("rack") || f.snapshot.LabelsEpoch() != epoch {
		t.Fatal("the keys of the first nodes are wrong, or reading them changed the epoch")
	}
	expect := func(what string, changed bool, act func()) {
		t.Helper()
		before := f.snapshot.LabelsEpoch()
		act()
		f.refresh()
		if got := f.snapshot.LabelsEpoch() != before; got != changed {
			t.Errorf("%s: the epoch changed: %t", what, got)
		}
	}
	racked := editedNode(a, func(n *corev1.Node) { n.Labels["rack"] = "" })
	expect("a node with known keys", false, func() { f.AddNode(quiet, newNode("b", "y")) })
	expect("a node gets a key", true, func() { f.UpdateNode(quiet, a, racked) })
	expect("a node loses a key", false, func() { f.UpdateNode(quiet, racked, a) })
	expect("a node comes with a key", true, func() {
		f.AddNode(quiet, editedNode(newNode("c", "y"), func(n *corev1.Node) { n.Labels["row"] = "" }))
	})
	if !f.snapshot.HasLabel("row") || f.snapshot.HasLabel("column") {
		t.Error("the keys are wrong after nodes changed")
	}
}

func TestOrderOfNodes(t *testing.T) {
	order := func(f *fixture) []string {
		f.Helper()
		f.refresh()
		list, err := f.snapshot.NodeInfos().List()
		f.must(err)
		var names []string
		for i, info := range list {
			if f.snapshot.Info(f.snapshot.ordered().slots[i]) != info {
				t.Errorf("the lists of nodes and of slots differ at %d", i)
			}
			names = append(names, info.Node().Name)
		}
		return names
	}
	expect := func(f *fixture, want ...string) {
		f.Helper()
		if got := order(f); !slices.Equal(got, want) {
			f.Errorf("got %v, want %v", got, want)
		}
	}
	a1, a2, a3 := newNode("a1", "a"), newNode("a2", "a"), newNode("a3", "a")
	b1, c1 := newNode("b1", "b"), newNode("c1", "c")

	t.Run("zones alternate", func(t *testing.T) {
		expect(newFixture(t, a1, a2, a3, b1, c1), "a1", "b1", "c1", "a2", "a3")
	})

	t.Run("a node that comes back is the last of its zone", func(t *testing.T) {
		f := newFixture(t, a1, a2, b1)
		f.must(f.RemoveNode(quiet, a1))
		f.AddNode(quiet, a1)
		expect(f, "a2", "b1", "a1")
	})

	t.Run("a zone that was empty is the last", func(t *testing.T) {
		f := newFixture(t, a1, b1, c1)
		f.must(f.RemoveNode(quiet, a1))
		f.refresh()
		f.AddNode(quiet, a1)
		expect(f, "b1", "c1", "a1")
	})

	t.Run("a node that moves to another zone is its last", func(t *testing.T) {
		f := newFixture(t, a1, b1, a2, c1)
		f.AddNode(quiet, a3)
		f.UpdateNode(quiet, b1, editedNode(b1, zoned("a"))) // seen before a3, but later in the zone
		expect(f, "a1", "c1", "a2", "a3", "b1")
	})

	t.Run("a node that is added twice is there once", func(t *testing.T) {
		f := newFixture(t, a1, b1, a1)
		f.AddNode(quiet, editedNode(a1))
		expect(f, "a1", "b1")
	})

	t.Run("slots do not move when the order does", func(t *testing.T) {
		f := newFixture(t, a1, b1, c1)
		before := f.snapshot.Info(1)
		f.must(f.RemoveNode(quiet, a1))
		f.UpdateNode(quiet, b1, editedNode(b1, zoned("c")))
		expect(f, "c1", "b1")
		if slot, ok := f.snapshot.SlotOf("b1"); !ok || slot != 1 || f.snapshot.Info(slot) != before {
			t.Errorf("slot of b1: got %d, %v", slot, ok)
		}
		if _, ok := f.snapshot.SlotOf("a1"); ok || f.snapshot.Alive(0) || f.snapshot.Info(0) != nil {
			t.Error("a node that is gone has a slot")
		}
	})
}
