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
	seeds = flag.Int("seeds", 1, "number of worlds")
	logTo = flag.String("transcript", "", "file for the transcript of a world that fails, or of the last one")
)

func TestWorlds(t *testing.T) {
	for i := range *seeds {
		plan := NewPlan(*seed + uint64(i))
		began := time.Now()
		result := Simulate(t, plan)
		t.Logf("seed %d: %v of simulated time in %v: %v", plan.Seed, result.Simulated, time.Since(began).Round(time.Millisecond), result.Counts)
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
