// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Plan is what a world consists of.
type Plan struct {
	Seed uint64
	// Replicas of livesched, and Nodes at the beginning.
	Replicas, Nodes int
	// Rounds are times of trouble, each followed by a time without, in which the cluster must come
	// to rest. The trouble lasts for up to Minutes.
	Rounds, Minutes int
	// Night are the hours without trouble after the rounds.
	Night int `json:",omitempty"`
	// Verify lets livesched compare each decision with that of kube-scheduler's algorithm.
	Verify bool `json:",omitempty"`
	// Faults are how many of a thousand messages suffer: see faultRates.
	Faults map[string]int `json:",omitempty"`
	// Actors act every so many seconds, on average.
	Actors map[string]int `json:",omitempty"`
}

// NewPlan returns the plan of a seed.
func NewPlan(seed uint64) *Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := &Plan{Seed: seed, Replicas: 1 + r.IntN(3), Nodes: 2 + r.IntN(6), Rounds: 6, Minutes: 5,
		Faults: map[string]int{}, Actors: map[string]int{}}
	rates := faultRates()
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		if r.IntN(4) == 0 {
			p.Faults[name] = 1 + r.IntN(rates[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(actors)) {
		if r.IntN(4) > 0 {
			p.Actors[name] = 10 << r.IntN(6)
		}
	}
	p.Actors["workloads"] = 5 << r.IntN(4)
	if r.IntN(2) == 0 {
		p.focus(r)
	}
	for _, rare := range []string{"compact", "restores", "outages", "leases"} {
		if p.Actors[rare] > 0 {
			p.Actors[rare] += 120
		}
	}
	if r.IntN(8) == 0 {
		p.Night = 1 + r.IntN(6)
	}
	if r.IntN(8) == 0 { // what only the last event of a round would show has more rounds to happen in
		p.Rounds, p.Minutes = 30, 1
	}
	p.Verify = r.IntN(4) == 0
	return p
}

// maxRate bounds how many of a thousand messages suffer from a fault.
const maxRate = 600

// focus leaves a few faults and actors of a plan, which strike and act more often. What one of them
// does is not hidden by the others then.
func (p *Plan) focus(r *rand.Rand) {
	rates := faultRates()
	p.Faults = map[string]int{}
	for names, few := slices.Sorted(maps.Keys(rates)), 1+r.IntN(3); len(p.Faults) < few; {
		name := one(r, names)
		p.Faults[name] = min(rates[name]*(2+r.IntN(7))/2, maxRate)
	}
	workloads := p.Actors["workloads"]
	p.Actors = map[string]int{"workloads": min(workloads, 10)}
	for few := 2 + r.IntN(3); len(p.Actors) < few; {
		p.Actors[one(r, actorNames)] = 3 << r.IntN(4)
	}
}

// round returns what goes wrong in a round: a part of what may in the plan, so that what one actor
// has left behind stays until the round ends, and what one fault does is not hidden by others.
func (p *Plan) round(number int) (minutes int, faults weather, active map[string]int) {
	r := rand.New(rand.NewPCG(p.Seed, 1000+uint64(number)))
	some := func(all map[string]int, of int) map[string]int {
		part := map[string]int{}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if r.IntN(of) > 0 {
				part[name] = all[name]
			}
		}
		return part
	}
	minutes = 1 + r.IntN(p.Minutes)
	if r.IntN(4) > 0 {
		faults = some(p.Faults, 2)
	}
	return minutes, faults, some(p.Actors, 3)
}

// String returns the plan as JSON.
func (p *Plan) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprint("a plan: ", err))
	}
	return string(text)
}
