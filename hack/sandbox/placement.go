// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// barsShown limits the number of nodes in a picture of a placement.
const barsShown = 72

// placement is the distribution of a workload's pods over nodes and zones.
type placement struct {
	pods    int
	perNode map[string]int // nodes with at least one pod
	perZone map[string]int // all zones
}

// newPlacement counts bound pods by node and zone. zoneOf has the zone of every node.
func newPlacement(pods []corev1.Pod, zoneOf map[string]string) placement {
	p := placement{perNode: map[string]int{}, perZone: map[string]int{}}
	for _, zone := range zoneOf {
		p.perZone[zone] = 0
	}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			continue
		}
		p.pods++
		p.perNode[pod.Spec.NodeName]++
		p.perZone[zoneOf[pod.Spec.NodeName]]++
	}
	return p
}

// zoneSkew returns the difference in pods between the fullest and the emptiest zone.
func (p placement) zoneSkew() int {
	zones := slices.Collect(maps.Values(p.perZone))
	return slices.Max(zones) - slices.Min(zones)
}

// fullest returns the node with the most pods; of several, the first by name.
func (p placement) fullest() string {
	return slices.MinFunc(slices.Sorted(maps.Keys(p.perNode)), func(a, b string) int {
		return cmp.Compare(p.perNode[b], p.perNode[a])
	})
}

func (p placement) String() string {
	return fmt.Sprintf("%d pods on %s (%s)", p.pods, plural(len(p.perNode), "node"), counts(p.perZone))
}

// picture returns one bar for each node with pods, the fullest node first.
func (p placement) picture() string {
	heights := slices.SortedFunc(maps.Values(p.perNode), func(a, b int) int { return cmp.Compare(b, a) })
	bars := []rune("▁▂▃▄▅▆▇█")
	full := len(bars) // number of pods of a full bar
	if len(heights) > 0 {
		full = max(full, heights[0])
	}
	var b strings.Builder
	for i, height := range heights {
		if i == barsShown {
			b.WriteString("…")
			break
		}
		b.WriteRune(bars[(height*len(bars)-1)/full])
	}
	if len(heights) > 0 {
		fmt.Fprintf(&b, "  (a bar per node: %s)", podsPerNode(slices.Min(heights), heights[0]))
	}
	return b.String()
}

func podsPerNode(least, most int) string {
	if least == most {
		return plural(most, "pod")
	}
	return fmt.Sprintf("%d to %d pods", least, most)
}

// placementOf reads the placement of a workload's pods and prints it.
func (s *sandbox) placementOf(ctx context.Context, w workload) (placement, error) {
	pods, err := s.pods(ctx, w)
	if err != nil {
		return placement{}, err
	}
	var nodes corev1.NodeList
	if err := s.client.List(ctx, &nodes); err != nil {
		return placement{}, err
	}
	zoneOf := make(map[string]string, len(nodes.Items))
	for _, node := range nodes.Items {
		zoneOf[node.Name] = node.Labels[corev1.LabelTopologyZone]
	}
	p := newPlacement(pods, zoneOf)
	s.out.printf("%-8s schedulerName: %-8s %s\n", w.name, w.schedulerName, p)
	s.out.printf("  %s\n", p.picture())
	return p, nil
}
