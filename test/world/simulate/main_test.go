// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livesched/livesched/test/world/runner"
)

// TestTheTranscriptsOfWorldsThatFailStay runs a script in place of program replay. Worlds fail once
// and not again: then their transcripts are all that is left of what happened.
func TestTheTranscriptsOfWorldsThatFailStay(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		if err := os.WriteFile(file(name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("replay", `#!/bin/sh
seed=$1
for argument; do
  case $argument in -transcript=*) transcript=${argument#*=} ;; -result=*) result=${argument#*=} ;; esac
done
echo "what seed $seed did" >"$transcript"
fails=
if [ $seed = 6 ] && ! [ -e `+file("failed")+` ]; then fails="2 replicas lead"; touch `+file("failed")+`; fi
echo '{"Plan": {"Seed": '$seed'}, "Error": "'$fails'"}' >"$result"
`)
	write("known.json", `{"Seed": 4}`)
	s := simulation{
		programs: &runner.Programs{Replay: file("replay"), Test: "world.test", Timeout: time.Minute},
		plans:    []runner.Source{{Seed: 4, Plan: file("known.json")}}, first: 5, worlds: 10, parallel: 1,
		dir: file("left"),
	}
	const violation = "6: 2 replicas lead"
	if err := s.run(t.Context(), 2); err == nil || err.Error() != violation {
		t.Errorf("%v, not %s", err, violation)
	}
	transcript, err := os.ReadFile(file("left/6.txt"))
	if err != nil || strings.TrimSpace(string(transcript)) != "what seed 6 did" {
		t.Errorf("the transcript: %q, %v", transcript, err)
	}
	left, err := filepath.Glob(file("left/*.txt"))
	if want := []string{file("left/6-smallest.txt"), file("left/6.txt")}; err != nil || !slices.Equal(left, want) {
		t.Errorf("transcripts: %v, %v", left, err)
	}
	for source, want := range map[runner.Source]string{s.plans[0]: "known", {Seed: 5}: "5"} {
		if got := source.Name(); got != want {
			t.Errorf("the name of %v: %s", source, got)
		}
	}
}
