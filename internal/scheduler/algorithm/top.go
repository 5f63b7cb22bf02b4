// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"cmp"
	"context"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
)

// placed is a decision that placed a pod, as far as Top needs it. The zero value: no pod was
// placed.
type placed struct {
	host string
	// If fast is true, the fast path decided. Otherwise, scores are those of all nodes that the pod
	// fits, nil if it is only one.
	fast    bool
	attempt fastpath.Attempt
	scores  []fwk.NodePluginScores
}

// Top returns the weighted scores, plugin by plugin, of the n nodes with the highest totals in the
// latest decision: first the chosen node, then the others; of nodes with equal totals the first by
// name. It is empty if the pod was not placed. The only node that fits has no scores.
//
// It must be called before the snapshot is refreshed. On the fast path, it takes a few passes over
// all nodes. It changes no later decision.
func (s *Scheduler) Top(ctx context.Context, n int) ([]fwk.NodePluginScores, error) {
	d := &s.placed
	switch {
	case d.host == "":
		return nil, nil
	case d.fast:
		fit, _ := d.attempt.Fit()
		return fit.Top(ctx, n)
	case d.scores == nil:
		return []fwk.NodePluginScores{{Name: d.host}}, nil
	}
	return Highest(d.scores, d.host, n), nil
}

// IsBest reports whether a node shares the highest total in the latest decision, so that it could
// have been drawn. It must be called before the snapshot is refreshed.
func (s *Scheduler) IsBest(node string) bool {
	d := &s.placed
	switch {
	case d.host == "":
		return false
	case d.host == node:
		return true
	case d.fast:
		fit, _ := d.attempt.Fit()
		return slices.Contains(fit.Names(), node)
	}
	total := int64(-1)
	for i := range d.scores {
		if d.scores[i].Name == d.host {
			total = d.scores[i].TotalScore
		}
	}
	return slices.ContainsFunc(d.scores, func(n fwk.NodePluginScores) bool { return n.Name == node && n.TotalScore == total })
}

// Highest returns the n nodes with the highest totals, without changing scores: the node called
// first comes first, whatever its total, and of nodes with equal totals the first by name. They do
// not refer to the memory of scores, which may be one piece for thousands of nodes.
func Highest(scores []fwk.NodePluginScores, first string, n int) []fwk.NodePluginScores {
	order := func(a, b *fwk.NodePluginScores) int {
		switch {
		case a.Name == b.Name:
			return 0
		case a.Name == first:
			return -1
		case b.Name == first:
			return 1
		}
		return cmp.Or(cmp.Compare(b.TotalScore, a.TotalScore), strings.Compare(a.Name, b.Name))
	}
	highest := make([]*fwk.NodePluginScores, 0, n+1)
	for i := range scores {
		at, _ := slices.BinarySearchFunc(highest, &scores[i], order)
		if at < n {
			highest = slices.Insert(highest, at, &scores[i])
			highest = highest[:min(n, len(highest))]
		}
	}
	top := make([]fwk.NodePluginScores, len(highest))
	for i, node := range highest {
		top[i] = *node
		top[i].Scores = slices.Clone(node.Scores)
	}
	return top
}
