// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/livesched/livesched/test/world/runner"
)

var (
	seed     = flag.Uint64("seed", 1, "seed of the first world")
	seeds    = flag.Int("seeds", 0, "number of worlds")
	planFile = flag.String("plan", "", "file with the plan of the only world, as JSON")
	logTo    = flag.String("transcript", os.DevNull, "file for the transcript of the last world")
	resultTo = flag.String("result", os.DevNull, "file for the result of the last world, as JSON")
)

// TestAWorldWithoutTrouble is what every run of the tests sees: three livescheds, pods and profiles
// that come and go, and no faults.
func TestAWorldWithoutTrouble(t *testing.T) {
	result := Simulate(t, &Plan{Seed: 1, Replicas: 3, Nodes: 4, Rounds: 3, Minutes: 2,
		Actors: map[string]int{"workloads": 10, "profiles": 10, "policies": 20}})
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

// TestWorlds runs the worlds of -seed and the seeds after it, or that of -plan, as `make simulate`
// does.
func TestWorlds(t *testing.T) {
	if *seeds == 0 && *planFile == "" {
		t.Skip("make simulate runs it")
	}
	for _, plan := range plans(t) {
		report(t, plan, &Result{Err: errors.New(runner.NotOver)}) // if the process dies
		began := time.Now()
		result := Simulate(t, plan)
		took := time.Since(began).Round(time.Millisecond)
		t.Logf("seed %d: %v of simulated time in %v: %v", plan.Seed, result.Simulated, took, result.Counts)
		report(t, plan, &result)
		f, err := os.Create(*logTo)
		if err != nil {
			t.Fatal(err)
		}
		if err := result.log.writeTo(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		if result.Err != nil {
			t.Fatalf("seed %d: %v\nplan: %v", plan.Seed, result.Err, plan)
		}
	}
}

// plans returns those that the flags select.
func plans(t *testing.T) (all []*Plan) {
	if *planFile == "" {
		for i := range *seeds {
			all = append(all, NewPlan(*seed+uint64(i)))
		}
		return all
	}
	text, err := os.ReadFile(*planFile)
	if err != nil {
		t.Fatal(err)
	}
	plan := &Plan{}
	if err := json.Unmarshal(text, plan); err != nil {
		t.Fatalf("%s: %v", *planFile, err)
	}
	return []*Plan{plan}
}

// report writes the result of a world to the file of -result. It does the same without one, since
// what happens before a world has an influence on it.
func report(t *testing.T, plan *Plan, result *Result) {
	r := runner.Report{Plan: json.RawMessage(plan.String()), Counts: result.Counts, Simulated: result.Simulated}
	if result.Err != nil {
		r.Error = result.Err.Error()
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*resultTo, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
