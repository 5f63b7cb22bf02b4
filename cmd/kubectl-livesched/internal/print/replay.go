// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/replay/report"
	"github.com/livesched/livesched/internal/words"
)

// fewDifferences is the number of differences that are listed if the output is not wide.
const fewDifferences = 20

// Replay prints the result of a replay for people.
func Replay(w io.Writer, snapshot *capture.Snapshot, unusable map[string]error, result *report.Report,
	wide bool) error {
	header := &snapshot.Header
	what := "Snapshot"
	if header.Redacted {
		what = "Redacted snapshot"
	}
	Line(w, fmt.Sprintf("%s of %s by livesched %s (Kubernetes %s): %s, %s, %d of them pending.", what,
		header.Time.UTC().Format("2006-01-02 15:04:05 MST"),
		header.Livesched, header.Kubernetes, words.Many(len(snapshot.Nodes), "node"),
		words.Many(len(snapshot.Pods)+len(snapshot.Pending), "pod"), len(snapshot.Pending)))
	var profiles []string
	for _, p := range header.Profiles {
		profiles = append(profiles, p.Name+"@"+p.Revision)
	}
	if len(profiles) > 0 {
		slices.Sort(profiles)
		Line(w, "Profiles: "+strings.Join(profiles, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(unusable)) {
		Line(w, fmt.Sprintf("The profile %s cannot be used: %v", name, unusable[name]))
	}
	rows := [][]string{
		{"same", words.Grouped.Sprintf("%d", result.Same), None},
		{"different", words.Grouped.Sprintf("%d", len(result.Different)), None},
	}
	for _, reason := range report.Reasons {
		if count := result.Left[reason]; count > 0 {
			rows = append(rows, []string{"not made again", words.Grouped.Sprintf("%d", count), reason.Describe()})
		}
	}
	if err := Table(w, []string{"DECISIONS", "COUNT", "REASON"}, rows); err != nil {
		return err
	}
	return printDifferences(w, result.Different, wide)
}

func printDifferences(w io.Writer, differences []report.Difference, wide bool) error {
	if len(differences) == 0 {
		return nil
	}
	var rows [][]string
	for i := range differences {
		if i == fewDifferences && !wide {
			break
		}
		d := &differences[i]
		rows = append(rows, []string{fmt.Sprint(d.Decision.Number), d.Namespace + "/" + d.Pod, d.Then, d.Now})
	}
	if err := Table(w, []string{"NUMBER", "POD", "RECORDED", "NOW"}, rows); err != nil {
		return err
	}
	if more := len(differences) - len(rows); more > 0 {
		Line(w, fmt.Sprintf("And %d more: use -o wide.", more))
	}
	return nil
}
