// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/words"
)

// The numbers of owners and pods that are named if the output is not wide.
const (
	fewOwners = 3
	fewPods   = 3
)

// What simulations leave out.
const (
	SimulationLimits = "Not simulated: autoscalers, admission and the provisioning of volumes. Victims end at once, " +
		"and are not decided again. " + KeptByPods
	KeptByPods = "Pods keep the volumes that are bound and the devices that are allocated."
)

// Simulation prints the answer to a simulation for people.
func Simulation(w io.Writer, s *v1alpha1.Simulation, wide bool) error {
	status := &s.Status
	Line(w, decided(status))
	if status.Pods == 0 {
		Line(w, nothingDecided(s))
		return nil
	}
	if err := printOutcomes(w, s); err != nil {
		return err
	}
	printMoved(w, status, wide)
	printVictims(w, LastOutcome(status), wide)
	printUnplaced(w, LastOutcome(status), wide)
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
		Line(w, "The extenders of "+strings.Join(skipped, ", ")+" are not called.")
	}
	Line(w, SimulationLimits)
	return nil
}

// decided describes the pods that were decided.
func decided(s *v1alpha1.SimulationStatus) string {
	line := "Pods decided again: " + words.Grouped.Sprintf("%d", s.Pods)
	if s.Matching > s.Pods {
		line += words.Grouped.Sprintf(" of %d", s.Matching)
	}
	line += ", on " + words.Many(s.Nodes, "node") + "."
	if s.Displaced > 0 {
		line += " Not counted: " + words.Many(s.Displaced, "other pod") +
			" on removed nodes, of other schedulers or namespaces."
	}
	return line
}

// nothingDecided describes the pods that do not exist.
func nothingDecided(s *v1alpha1.Simulation) string {
	kind := "bound pods"
	switch s.Spec.Pods.Type {
	case v1alpha1.PodsPending:
		kind = "pending pods"
	case v1alpha1.PodsAll:
		kind = "pods"
	}
	line := "There are no " + kind
	if s.Spec.SchedulerName == "" {
		line += " of livesched's profiles"
	}
	if s.Metadata.Namespace != "" {
		line += " in namespace " + s.Metadata.Namespace
	}
	switch names := s.Spec.Pods.Names; {
	case len(names) > 0 && len(names) <= fewPods:
		line += " named " + strings.Join(names, ", ")
	case len(names) > 0:
		line += words.Grouped.Sprintf(" among the %d that were named", len(names))
	}
	if s.Spec.Pods.LabelSelector != "" {
		line += " with " + s.Spec.Pods.LabelSelector
	}
	return line +
		". Pods of DaemonSets, static pods, pods with scheduling gates and pods that are being deleted do not count."
}

// printOutcomes prints the table.
func printOutcomes(w io.Writer, s *v1alpha1.Simulation) error {
	header, outcomes := []string{"", "ACTUAL", currentColumn(s)}, OutcomesOf(&s.Status)
	if s.Status.New != nil {
		header = append(header, "NEW SPEC")
	}
	row := func(name string, value func(*v1alpha1.SimulationOutcome) string) []string {
		cells := []string{name}
		for _, outcome := range outcomes {
			cells = append(cells, value(outcome))
		}
		return cells
	}
	count := func(of func(*v1alpha1.SimulationOutcome) int32) func(*v1alpha1.SimulationOutcome) string {
		return func(o *v1alpha1.SimulationOutcome) string { return words.Grouped.Sprintf("%d", of(o)) }
	}
	rows := [][]string{row("unplaced", count(Counts["unplaced"])), row("nodes used", count(Counts["nodesUsed"]))}
	for _, resource := range ResourcesOf(outcomes) {
		for _, statistic := range Statistics {
			rows = append(rows, row(resource+" "+statistic, func(o *v1alpha1.SimulationOutcome) string {
				return fmt.Sprintf("%.1f%%", Value(resource+"."+statistic, o))
			}))
		}
	}
	rows = append(rows, row("zone skew max", count(Counts["zoneSkewMax"])))
	for _, name := range []string{"preemptions", "victims", "moved"} {
		cells := row(name, count(Counts[name]))
		cells[1] = None // nothing was decided
		rows = append(rows, cells)
	}
	return Table(w, header, rows)
}

// currentColumn returns the title of the column with the current profiles: what changes in it.
func currentColumn(s *v1alpha1.Simulation) string {
	nodes := &s.Spec.Nodes
	switch {
	case s.Status.New != nil:
		return "CURRENT SPEC"
	case len(nodes.Add)+len(nodes.Remove) > 0 || nodes.RemoveSelector != "":
		return "NEW NODES"
	case s.Spec.SchedulerName != "":
		return "NEW SCHEDULER"
	}
	return "CURRENT SPEC"
}

// printMoved names the owners of the pods that move with the new spec or the new nodes.
func printMoved(w io.Writer, s *v1alpha1.SimulationStatus, wide bool) {
	last := LastOutcome(s)
	if last.Moved == 0 {
		return
	}
	named, others := len(last.MovedByOwner), last.Moved
	if !wide {
		named = min(named, fewOwners)
	}
	var owners []string
	for _, o := range last.MovedByOwner[:named] {
		owners = append(owners, fmt.Sprintf("%s %s", ownerName(&o), words.Grouped.Sprintf("%d", o.Pods)))
		others -= o.Pods
	}
	line := words.Grouped.Sprintf("Moved: %d (", last.Moved) + strings.Join(owners, ", ")
	if others > 0 {
		line += " and " + words.Many(others, "pod") + " of others" + hint(": -o wide", named < len(last.MovedByOwner))
	}
	Line(w, line+").")
}

// hint returns a text if it is true that it helps.
func hint(text string, helps bool) string {
	if helps {
		return text
	}
	return ""
}

// printMore prints how many items of a list were left out: of count items, named were printed and
// known are in the answer.
func printMore(w io.Writer, one string, count int32, named, known int) {
	if more := count - int32(named); more > 0 {
		Line(w, "... and "+words.Many(more, "more "+one)+hint(": -o wide", named < known))
	}
}

func ownerName(o *v1alpha1.OwnerPods) string {
	if o.Name == "" {
		return "pods without a controller in " + o.Namespace
	}
	return o.Namespace + "/" + o.Name
}

// printVictims names some of the evicted pods.
func printVictims(w io.Writer, o *v1alpha1.SimulationOutcome, wide bool) {
	named := len(o.VictimPods)
	if !wide {
		named = min(named, fewPods)
	}
	for _, pod := range o.VictimPods[:named] {
		Line(w, fmt.Sprintf("Victim: %s/%s on %s, preempted by %s/%s.", pod.Namespace, pod.Name, pod.Node,
			pod.PreemptorNamespace, pod.PreemptorName))
	}
	printMore(w, "victim", o.Victims, named, len(o.VictimPods))
	if o.PreemptionsLimited {
		Line(w, "There are more preemptions: livesched stopped looking for them, because it takes too long.")
	}
}

// printUnplaced names some of the pods without a node.
func printUnplaced(w io.Writer, o *v1alpha1.SimulationOutcome, wide bool) {
	named := len(o.UnplacedPods)
	if !wide {
		named = min(named, fewPods)
	}
	for _, pod := range o.UnplacedPods[:named] {
		line := fmt.Sprintf("Unplaced: %s/%s", pod.Namespace, pod.Name)
		if pod.Message != "" {
			line += ": " + pod.Message
		}
		Line(w, line)
	}
	printMore(w, "unplaced pod", o.Unplaced, named, len(o.UnplacedPods))
}

func printSimulatedProfiles(w io.Writer, profiles []v1alpha1.SimulatedProfile) error {
	var rows [][]string
	for _, p := range profiles {
		pods := words.Grouped.Sprintf("%d", p.Pods)
		rows = append(rows, []string{p.SchedulerName, pods, p.Current, cmp.Or(p.New, None)})
	}
	return Table(w, []string{"SCHEDULER NAME", "PODS", "CURRENT", "NEW"}, rows)
}
