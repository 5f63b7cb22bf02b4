// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/words"
)

const (
	// maxGroups limits the rows of the table of nodes.
	maxGroups = 8
	// minPools is the least width of the column of pools that is not cut.
	minPools = 20
)

// NodeGroups prints which nodes refuse a pod, and why.
func NodeGroups(w io.Writer, groups []v1alpha1.NodeGroup, wide bool) error {
	if len(groups) == 0 {
		return nil
	}
	if wide {
		return printWideGroups(w, groups)
	}
	merged := mergeGroups(groups)
	shown := merged[:min(len(merged), maxGroups)]
	var rows [][]string
	for _, g := range shown {
		rows = append(rows, []string{words.Grouped.Sprintf("%d", g.nodes),
			poolsWords(g.pools, max(minPools, terminal.Of(w).Width()*3/8)), g.why})
	}
	if err := Table(w, []string{"NODES", "POOL", "WHY NOT"}, rows); err != nil {
		return err
	}
	if rest := merged[len(shown):]; len(rest) > 0 {
		nodes := int32(0)
		for _, g := range rest {
			nodes += g.nodes
		}
		writeItem(w, words.Many(len(rest), "more group")+" of nodes ("+words.Many(nodes, "node")+"): -o wide")
	}
	return nil
}

// mergedGroup is a number of nodes that refuse a pod with the same words.
type mergedGroup struct {
	nodes int32
	pools []string
	why   string
}

// mergeGroups merges groups of nodes for which the same is printed.
func mergeGroups(groups []v1alpha1.NodeGroup) []*mergedGroup {
	var merged []*mergedGroup
	at := map[string]*mergedGroup{}
	for i := range groups {
		g := &groups[i]
		why := words.WhyNot(g)
		m := at[why]
		if m == nil {
			m = &mergedGroup{why: why}
			at[why], merged = m, append(merged, m)
		}
		m.nodes += g.Nodes
		for _, pool := range g.Pools {
			if !slices.Contains(m.pools, pool) {
				m.pools = append(m.pools, pool)
			}
		}
	}
	return merged
}

// poolsWords lists as many pools as a width has room for.
func poolsWords(pools []string, width int) string {
	all := strings.Join(pools, ", ")
	if len(pools) == 0 {
		return None
	}
	if ansi.StringWidth(all) <= width {
		return all
	}
	for shown := len(pools) - 1; shown > 0; shown-- {
		text := strings.Join(pools[:shown], ", ") + words.Grouped.Sprintf(" and %d more", len(pools)-shown)
		if ansi.StringWidth(text) <= width {
			return text
		}
	}
	more := ""
	if len(pools) > 1 {
		more = words.Grouped.Sprintf(" and %d more", len(pools)-1)
	}
	return ansi.Truncate(pools[0], width-len(more), "…") + more
}

// printWideGroups prints each refusal of each group, with the names of plugins and reasons.
func printWideGroups(w io.Writer, groups []v1alpha1.NodeGroup) error {
	var rows [][]string
	hidden := true
	for i := range groups {
		g := &groups[i]
		row := []string{words.Grouped.Sprintf("%d", g.Nodes), strings.Join(g.Pools, ", "), cmp.Or(g.Example, None)}
		hidden = hidden && g.Example == ""
		for j := range g.Refusals {
			r := &g.Refusals[j]
			rows = append(rows, append(slices.Clone(row), r.Plugin, string(r.Reason), words.Refusal(r)))
			row = []string{"", "", ""} // said once
		}
		if g.Partial {
			rows = append(rows, append(row, "", "", "and other reasons on some of them"))
		}
	}
	if hidden {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 2, 3)
		}
	}
	header := []string{"NODES", "POOL", "EXAMPLE", "PLUGIN", "REASON", "WHY NOT"}
	if hidden {
		header = slices.Delete(header, 2, 3)
	}
	if err := Table(w, header, rows); err != nil {
		return err
	}
	if hidden {
		writeItem(w, NodesHidden)
	}
	return nil
}
