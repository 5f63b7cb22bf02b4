// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/livesched/livesched/test/world/runner"
)

func TestSummary(t *testing.T) {
	var s summary
	for range 2 {
		s.add(&runner.Report{Simulated: 30 * time.Minute, Counts: map[string]int{
			"bound": 3, "steps": 100,
			"fault: lost": 5, "fault: lost read": 2, "fault: lost write": 3,
			"fault: lost answer": 4, "fault: lost answer write": 4,
			"fault: late": 6, "fault: cut watch": 1, "fault: cut first list": 2,
		}})
	}
	const want = `2 worlds, 1.0 simulated hours, 2.0 a minute, 200 steps

| what | how often |
|---|--:|
| bound | 6 |
| steps | 200 |

| fault | first list | read | watch | write | all |
|---|--:|--:|--:|--:|--:|
| cut | 4 | 0 | 2 | 0 | 6 |
| late | 0 | 0 | 0 | 0 | 12 |
| lost | 0 | 4 | 0 | 6 | 10 |
| lost answer | 0 | 0 | 0 | 8 | 8 |
`
	var got strings.Builder
	if s.write(&got, 30*time.Second); got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}
