// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"math/rand/v2"
	"time"
)

// Plan is what a world consists of.
type Plan struct {
	Seed uint64
	// Replicas of livesched, and Nodes at the beginning.
	Replicas, Nodes int
	// Minutes of trouble, which are followed by a time without.
	Minutes int
	// Faults are out of a thousand messages: see weather.
	Faults map[string]int `json:",omitempty"`
	// Actors act every so many seconds, on average.
	Actors map[string]int `json:",omitempty"`
}

// NewPlan returns the plan of a seed.
func NewPlan(seed uint64) *Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := &Plan{Seed: seed, Replicas: 1 + r.IntN(3), Nodes: 2 + r.IntN(6), Minutes: 20,
		Faults: map[string]int{}, Actors: map[string]int{}}
	for _, fault := range faultNames {
		if r.IntN(2) == 0 {
			p.Faults[fault] = 1 + r.IntN(20)
		}
	}
	for _, actor := range actorNames {
		if r.IntN(4) > 0 {
			p.Actors[actor] = 10 << r.IntN(6)
		}
	}
	p.Actors["workloads"] = 10 << r.IntN(4)
	if p.Actors["compact"] > 0 {
		p.Actors["compact"] += 120
	}
	return p
}

// String returns the plan as JSON.
func (p *Plan) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return string(text)
}

var faultNames = []string{"lost", "lostAnswers", "hung", "busy", "late", "cut", "silent"}

// weather returns the faults of the plan.
func (p *Plan) weather() weather {
	return weather{
		lost: p.Faults["lost"], lostAnswers: p.Faults["lostAnswers"], hung: p.Faults["hung"], busy: p.Faults["busy"],
		late: p.Faults["late"], maxLate: 20 * time.Second, cut: p.Faults["cut"], silent: p.Faults["silent"],
	}
}
