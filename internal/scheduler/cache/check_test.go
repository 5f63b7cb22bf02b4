// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import "testing"

func TestTheSelfCheckFindsDamage(t *testing.T) {
	for name, damage := range map[string]func(c *Cache, s *Snapshot){
		"requests":         func(_ *Cache, s *Snapshot) { s.infos[0].Requested.MilliCPU++ },
		"a pod less":       func(_ *Cache, s *Snapshot) { s.infos[0].Pods = nil },
		"a set of nodes":   func(_ *Cache, s *Snapshot) { s.withAffinity.set(0, false) },
		"a node less":      func(_ *Cache, s *Snapshot) { delete(s.slots, "n") },
		"an old node":      func(c *Cache, _ *Snapshot) { c.nodes["n"].obj = newNode("n", "a") },
		"assumed pods":     func(c *Cache, _ *Snapshot) { c.assumed++ },
		"a pod elsewhere":  func(c *Cache, _ *Snapshot) { c.nodes["n"].pods = nil },
		"an empty unknown": func(c *Cache, _ *Snapshot) { c.nodes["gone"] = &node{name: "gone", slot: noSlot} },
	} {
		f := newFixture(t, newNode("n", "a"))
		if err := f.Cache.AddPod(quiet, newPod("p", "n", withAffinity)); err != nil {
			t.Fatal(err)
		}
		f.refresh()
		if err := f.Cache.checkLocked(f.snapshot); err != nil {
			t.Fatal(err)
		}
		damage(f.Cache, f.snapshot)
		if f.Cache.checkLocked(f.snapshot) == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
