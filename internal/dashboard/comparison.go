// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/words"
)

// comparison is the outcome of a simulation: where the pods of a profile are, and where it and
// another profile would place them.
type comparison struct {
	Profile, With   string
	Headline        string
	Decided         string
	Rows            []comparedRow
	Moved           []v1alpha1.OwnerPods
	MovedOthers     int32
	Unplaced        [2]unplacedView
	ExtendersCalled bool // false if one of the profiles has extenders, which no simulation calls
	Limited         bool
	// Maps is nil if the user may not list nodes.
	Maps      *comparedMaps
	Resources []string
}

// comparedRow is a number of the two outcomes, and of the cluster.
type comparedRow struct {
	Name    string
	Now     string
	Numbers [2]string
	Differs bool
}

// unplacedView are the pods that a profile places nowhere.
type unplacedView struct {
	Profile string
	Pods    []v1alpha1.UnplacedPod // the first ones, with reasons
	More    int32
}

// comparedMaps is what the heat maps draw: a cell for each node, by pool. Each map has the room for
// each resource.
type comparedMaps struct {
	Pools []mapPool                  `json:"pools"`
	Names []string                   `json:"names"`
	Flags []int                      `json:"flags"`
	Maps  []map[string]*resourceRoom `json:"maps"`
}

// resourceRoom is the room of nodes for a resource.
type resourceRoom struct {
	Percents  []int    `json:"percents"`
	Which     []int    `json:"which"`
	Resources []string `json:"resources"`
}

// namedUnplaced and namedOwners limit what the page names.
const namedUnplaced, namedOwners = 10, 10

func comparisonOf(profile, with string, s *v1alpha1.SimulationStatus) comparison {
	c := comparison{Profile: profile, With: with, Rows: comparedRows(s), ExtendersCalled: true,
		Limited: s.Current.PreemptionsLimited || s.New.PreemptionsLimited}
	c.Decided = words.Many(s.Pods, "pod") + " of " + profile + " decided again"
	if s.Matching > s.Pods {
		c.Decided += words.Grouped.Sprintf(", of %d that match", s.Matching)
	}
	c.Decided += ", on " + words.Many(s.Nodes, "node") + "."
	c.Headline = comparedHeadline(profile, with, s)
	for _, p := range s.Profiles {
		c.ExtendersCalled = c.ExtendersCalled && !p.ExtendersNotCalled
	}
	c.Moved, c.MovedOthers = s.New.MovedByOwner, s.New.Moved
	c.Moved = c.Moved[:min(len(c.Moved), namedOwners)]
	for _, owner := range c.Moved {
		c.MovedOthers -= owner.Pods
	}
	for i, side := range []*v1alpha1.SimulationOutcome{&s.Current, s.New} {
		pods := side.UnplacedPods[:min(len(side.UnplacedPods), namedUnplaced)]
		c.Unplaced[i] = unplacedView{Profile: []string{profile, with}[i], Pods: pods,
			More: side.Unplaced - int32(len(pods))}
	}
	if len(s.Current.NodeAllocations) > 0 {
		c.Resources = resourcesOf(s.Current.NodeAllocations)
		c.Maps = comparedMapsOf(s.Current.NodeAllocations, s.New.NodeAllocations, c.Resources)
	}
	return c
}

// comparedHeadline says in a sentence what differs most.
func comparedHeadline(profile, with string, s *v1alpha1.SimulationStatus) string {
	if s.Pods == 0 {
		return "No such pod of " + profile + " can be decided again."
	}
	var texts []string
	unplaced, nodes := s.New.Unplaced-s.Current.Unplaced, s.New.NodesUsed-s.Current.NodesUsed
	switch {
	case unplaced > 0:
		texts = append(texts, "leaves "+words.Many(unplaced, "more pod")+" without a node")
	case unplaced < 0:
		texts = append(texts, "places "+words.Many(-unplaced, "more pod"))
	}
	switch {
	case nodes > 0:
		texts = append(texts, "uses "+words.Many(nodes, "more node"))
	case nodes < 0:
		texts = append(texts, "uses "+words.Many(-nodes, "node")+" fewer")
	}
	if s.New.Moved > 0 {
		texts = append(texts, "puts "+words.Many(s.New.Moved, "pod")+" on other nodes")
	}
	if len(texts) == 0 {
		return with + " places all pods where " + profile + " does."
	}
	if last := len(texts) - 1; last > 0 {
		texts = append(texts[:last], "and "+texts[last])
	}
	return "Compared with " + profile + ", " + with + " " + strings.Join(texts, ", ") + "."
}

// comparedRows returns the numbers, those first that people look for.
func comparedRows(s *v1alpha1.SimulationStatus) []comparedRow {
	var rows []comparedRow
	add := func(name string, decided bool, value func(*v1alpha1.SimulationOutcome) string) {
		row := comparedRow{Name: name, Now: "–", Numbers: [2]string{value(&s.Current), value(s.New)}}
		if !decided {
			row.Now = value(&s.Actual)
		}
		row.Differs = row.Numbers[0] != row.Numbers[1]
		rows = append(rows, row)
	}
	count := func(of func(*v1alpha1.SimulationOutcome) int32) func(*v1alpha1.SimulationOutcome) string {
		return func(o *v1alpha1.SimulationOutcome) string { return words.Grouped.Sprintf("%d", of(o)) }
	}
	add("Pods without a node", false, count(func(o *v1alpha1.SimulationOutcome) int32 { return o.Unplaced }))
	add("Nodes used", false, count(func(o *v1alpha1.SimulationOutcome) int32 { return o.NodesUsed }))
	for _, resource := range utilized(s) {
		of := func(o *v1alpha1.SimulationOutcome) (mean, deviation int32) {
			i := slices.IndexFunc(o.Utilization,
				func(u v1alpha1.ResourceUtilization) bool { return u.Resource == resource })
			if i < 0 {
				return 0, 0
			}
			return o.Utilization[i].MeanPermille, o.Utilization[i].StddevPermille
		}
		add("Requested "+resource+", mean of nodes", false, func(o *v1alpha1.SimulationOutcome) string {
			mean, _ := of(o)
			return permille(mean)
		})
		add("Requested "+resource+", standard deviation", false, func(o *v1alpha1.SimulationOutcome) string {
			_, deviation := of(o)
			return permille(deviation)
		})
	}
	add("Largest zone skew of an owner", false,
		count(func(o *v1alpha1.SimulationOutcome) int32 { return o.ZoneSkewMax }))
	add("Preemptions", true, count(func(o *v1alpha1.SimulationOutcome) int32 { return o.Preemptions }))
	add("Victims", true, count(func(o *v1alpha1.SimulationOutcome) int32 { return o.Victims }))
	return rows
}

func permille(n int32) string { return words.Grouped.Sprintf("%.1f %%", float64(n)/10) }

// utilized returns the resources of the outcomes, in the order of lists.
func utilized(s *v1alpha1.SimulationStatus) (names []string) {
	var all []corev1.ResourceName
	for _, o := range []*v1alpha1.SimulationOutcome{&s.Actual, &s.Current, s.New} {
		for i := range o.Utilization {
			if name := corev1.ResourceName(o.Utilization[i].Resource); !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	for _, name := range sorted(all) {
		names = append(names, string(name))
	}
	return names
}

// comparedMapsOf returns the heat maps of two outcomes, whose nodes are the same.
func comparedMapsOf(first, second []v1alpha1.NodeAllocation, resources []string) *comparedMaps {
	m := &comparedMaps{}
	for _, nodes := range [][]v1alpha1.NodeAllocation{first, second} {
		rooms := map[string]*resourceRoom{}
		for _, resource := range append([]string{scarcest}, resources...) {
			drawn := mapOf(roomsOf(nodes, corev1.ResourceName(resource)))
			m.Pools, m.Names, m.Flags = drawn.Pools, drawn.Names, drawn.Flags
			rooms[resource] = &resourceRoom{drawn.Percents, drawn.Which, drawn.Resources}
		}
		m.Maps = append(m.Maps, rooms)
	}
	return m
}
