// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"maps"

	"github.com/livesched/livesched/internal/scheduler/fork"
)

// Counts are what a census has counted.
type Counts struct {
	Nodes map[string]int
	// Zones are the zones of the nodes, with the numbers of pods by controller.
	Zones map[string]map[string]int
}

func (c *census) counts() Counts {
	out := Counts{map[string]int{}, map[string]map[string]int{}}
	for name, n := range c.nodes {
		out.Nodes[name] = n.pods
	}
	for name, zone := range c.zones {
		out.Zones[name] = map[string]int{}
		for uid, of := range c.byUID {
			if zone < len(of.pods) && of.pods[zone] != 0 {
				out.Zones[name][string(uid)] = of.pods[zone]
			}
		}
	}
	return out
}

// CountsOf makes the decisions of a simulation with the current profiles. It returns what the
// census of the simulation has counted then, and what a new one counts in the fork, and how many
// pods were evicted.
func CountsOf(ctx context.Context, k *fork.Fork, r Request) (followed, counted Counts, evicted int, err error) {
	s, _, err := begin(k, &r)
	if err != nil {
		return followed, counted, 0, err
	}
	before := s.census.counts()
	p, err := s.decide(ctx, NewSequence(k, r.Seed), k.Profile)
	if err != nil {
		return followed, counted, 0, err
	}
	s.settle(p, 1)
	followed = s.census.counts()
	s.settle(p, -1)
	if after := s.census.counts(); !maps.Equal(before.Nodes, after.Nodes) {
		followed.Nodes["not taken back"] = 1
	}
	snapshot, err := k.Snapshot()
	if err != nil {
		return followed, counted, 0, err
	}
	fresh := newCensus(0)
	fresh.recount(snapshot)
	return followed, fresh.counts(), len(p.evicted), nil
}
