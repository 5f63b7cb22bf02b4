// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
)

// The numbers of owners and pods that are named if the output is not wide.
const (
	fewOwners = 3
	fewPods   = 3
)

// printSimulation prints the answer to a simulation for people.
func printSimulation(w io.Writer, s *v1alpha1.Simulation, wide bool) error {
	status := &s.Status
	writeLine(w, decided(status))
	if err := printOutcomes(w, status); err != nil {
		return err
	}
	printMoved(w, status, wide)
	printVictims(w, lastOutcome(status), wide)
	printUnplaced(w, lastOutcome(status), wide)
	if wide {
		if err := printSimulatedProfiles(w, status.Profiles); err != nil {
			return err
		}
	}
	var skipped []string
	for _, p := range status.Profiles {
		if p.ExtendersNotCalled {
			skipped = append(skipped, p.SchedulerName)
		}
	}
	if len(skipped) > 0 {
		writeLine(w, "Extenders are not called: those of "+strings.Join(skipped, ", ")+".")
	}
	writeLine(w, simulationLimits)
	return nil
}

// decided says which pods were decided.
func decided(s *v1alpha1.SimulationStatus) string {
	line := "Pods decided again: " + grouped.Sprintf("%d", s.Pods)
	if s.Matching > s.Pods {
		line += grouped.Sprintf(" of %d", s.Matching)
	}
	line += ", on " + many(s.Nodes, "node") + "."
	if s.Displaced > 0 {
		line += " Not counted: " + many(s.Displaced, "other pod") + " on removed nodes, of other schedulers or namespaces."
	}
	return line
}

// many returns a number, with a comma after each three digits, and its noun.
func many(n int32, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return grouped.Sprintf("%d ", n) + noun
}

// printOutcomes prints the table.
func printOutcomes(w io.Writer, s *v1alpha1.SimulationStatus) error {
	header, outcomes := []string{"", "ACTUAL", "CURRENT SPEC"}, []*v1alpha1.SimulationOutcome{&s.Actual, &s.Current}
	if s.New != nil {
		header, outcomes = append(header, "NEW SPEC"), append(outcomes, s.New)
	}
	row := func(name string, value func(*v1alpha1.SimulationOutcome) string) []string {
		cells := []string{name}
		for _, outcome := range outcomes {
			cells = append(cells, value(outcome))
		}
		return cells
	}
	count := func(of func(*v1alpha1.SimulationOutcome) int32) func(*v1alpha1.SimulationOutcome) string {
		return func(o *v1alpha1.SimulationOutcome) string { return grouped.Sprintf("%d", of(o)) }
	}
	rows := [][]string{row("unplaced", count(metrics["unplaced"])), row("nodes used", count(metrics["nodesUsed"]))}
	for _, resource := range resourcesOf(outcomes) {
		mean, stddev := condition{metric: resource + ".mean"}, condition{metric: resource + ".stddev"}
		rows = append(rows,
			row(resource+" mean", func(o *v1alpha1.SimulationOutcome) string { return fmt.Sprintf("%.1f%%", mean.of(o)) }),
			row(resource+" stddev", func(o *v1alpha1.SimulationOutcome) string { return fmt.Sprintf("%.1f%%", stddev.of(o)) }))
	}
	rows = append(rows, row("zone skew max", count(metrics["zoneSkewMax"])))
	for _, name := range []string{"preemptions", "victims", "moved"} {
		cells := row(name, count(metrics[name]))
		cells[1] = none // nothing was decided
		rows = append(rows, cells)
	}
	return writeTable(w, header, rows)
}

// resourcesOf returns the resources of all outcomes, in their order.
func resourcesOf(outcomes []*v1alpha1.SimulationOutcome) (resources []string) {
	seen := map[string]bool{}
	for _, outcome := range outcomes {
		for _, u := range outcome.Utilization {
			if !seen[u.Resource] {
				seen[u.Resource] = true
				resources = append(resources, u.Resource)
			}
		}
	}
	return resources
}

// printMoved names the owners of the pods that the new spec moves, or those that move with the
// nodes.
func printMoved(w io.Writer, s *v1alpha1.SimulationStatus, wide bool) {
	last := lastOutcome(s)
	if last.Moved == 0 {
		return
	}
	var owners []string
	for i, o := range last.MovedByOwner {
		if i == fewOwners && !wide {
			owners = append(owners, "...")
			break
		}
		owners = append(owners, fmt.Sprintf("%s %s", ownerName(&o), grouped.Sprintf("%d", o.Pods)))
	}
	writeLine(w, grouped.Sprintf("Moved: %d", last.Moved)+" ("+strings.Join(owners, ", ")+").")
}

func ownerName(o *v1alpha1.OwnerPods) string {
	if o.Name == "" {
		return "pods without a controller in " + o.Namespace
	}
	return o.Namespace + "/" + o.Name
}

// printVictims names some of the evicted pods.
func printVictims(w io.Writer, o *v1alpha1.SimulationOutcome, wide bool) {
	for i, pod := range o.VictimPods {
		if i == fewPods && !wide {
			break
		}
		writeLine(w, fmt.Sprintf("Victim: %s/%s on %s, preempted by %s/%s.", pod.Namespace, pod.Name, pod.Node, pod.PreemptorNamespace, pod.PreemptorName))
	}
	if o.PreemptionsLimited {
		writeLine(w, "There are more preemptions: livesched stopped looking for them, because it takes too long.")
	}
}

// printUnplaced names some of the pods without a node.
func printUnplaced(w io.Writer, o *v1alpha1.SimulationOutcome, wide bool) {
	for i, pod := range o.UnplacedPods {
		if i == fewPods && !wide {
			break
		}
		line := fmt.Sprintf("Unplaced: %s/%s", pod.Namespace, pod.Name)
		if pod.Message != "" {
			line += ": " + pod.Message
		}
		writeLine(w, line)
	}
}

func printSimulatedProfiles(w io.Writer, profiles []v1alpha1.SimulatedProfile) error {
	var rows [][]string
	for _, p := range profiles {
		next := p.New
		if next == "" {
			next = none
		}
		rows = append(rows, []string{p.SchedulerName, grouped.Sprintf("%d", p.Pods), p.Current, next})
	}
	return writeTable(w, []string{"SCHEDULER NAME", "PODS", "CURRENT", "NEW"}, rows)
}
