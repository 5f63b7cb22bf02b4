// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"flag"
	"os"
	"testing"
	"time"
)

var (
	seed  = flag.Uint64("seed", 1, "seed of the first world")
	seeds = flag.Int("seeds", 0, "number of worlds")
	logTo = flag.String("transcript", "", "file for the transcript of a world that fails, or of the last one")
)

// TestAWorldWithoutTrouble is what every run of the tests sees: three livescheds, pods and profiles
// that come and go, and no faults.
func TestAWorldWithoutTrouble(t *testing.T) {
	result := Simulate(t, &Plan{Seed: 1, Replicas: 3, Nodes: 4, Rounds: 1, Minutes: 5,
		Actors: map[string]int{"workloads": 10, "profiles": 30}})
	t.Log(result.Counts)
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	if n := result.Counts["bound to a missing node"]; n > 0 {
		t.Errorf("%d bindings were not checked", n)
	}
	for _, what := range []string{"bound", "actor: profiles", "actor: workloads"} {
		if result.Counts[what] < 5 {
			t.Errorf("%s: %d", what, result.Counts[what])
		}
	}
}

// TestWorlds runs the worlds of -seed and the seeds after it, as `make simulate` does.
func TestWorlds(t *testing.T) {
	if *seeds == 0 {
		t.Skip("make simulate runs it")
	}
	for i := range *seeds {
		plan := NewPlan(*seed + uint64(i))
		began := time.Now()
		result := Simulate(t, plan)
		took := time.Since(began).Round(time.Millisecond)
		t.Logf("seed %d: %v of simulated time in %v: %v", plan.Seed, result.Simulated, took, result.Counts)
		if *logTo != "" {
			f, err := os.Create(*logTo)
			if err != nil {
				t.Fatal(err)
			}
			if err := result.log.writeTo(f); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}
		if result.Err != nil {
			t.Fatalf("seed %d: %v\nplan: %v", plan.Seed, result.Err, plan)
		}
	}
}
