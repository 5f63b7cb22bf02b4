// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"cmp"
	"context"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
)

// Result describes a decision.
type Result struct {
	// SuggestedHost is the name of the node.
	SuggestedHost string
	// EvaluatedNodes is the number of nodes on which the filters were run.
	EvaluatedNodes int
	// FeasibleNodes is the number of nodes that the pod fits.
	FeasibleNodes int
	// Partial means that the pod may fit nodes that were not evaluated: it was decided on the node
	// that it is nominated to, the profile scores a sample, or plugins were run on the best nodes
	// first.
	Partial bool
	// Total is the total of the node, the highest of those evaluated, and TiedNodes the number of
	// those that share it. The only node that fits is not scored.
	Total     int64
	TiedNodes int
	// Class is the class of the pod if it is known, which saves work when the pod is assumed.
	Class cache.Class
}

// Decision is a decision, with the other nodes that the pod fits. The zero value: the pod was not
// placed.
//
// On the fast path, these nodes are in memory that the Decider reuses. The methods panic if the
// Decider has begun another decision since, or if the snapshot has changed.
type Decision struct {
	Result
	// fit is set if the fast path placed the pod. Otherwise, scores has all nodes that the
	// pod fits, nil if it is only one.
	fit    fastpath.Fit
	scores []fwk.NodePluginScores
}

// Top returns the weighted scores, plugin by plugin, of the n nodes with the highest totals: first
// the chosen node, then the others; of nodes with equal totals the first by name. It is empty if
// the pod was not placed. The only node that fits has no scores.
//
// On the fast path, it takes a few passes over all nodes. It changes no later decision.
func (d *Decision) Top(ctx context.Context, n int) ([]fwk.NodePluginScores, error) {
	switch {
	case d.SuggestedHost == "":
		return nil, nil
	case d.fit != fastpath.Fit{}:
		return d.fit.Top(ctx, n)
	case d.scores == nil:
		return []fwk.NodePluginScores{{Name: d.SuggestedHost}}, nil
	}
	return Highest(d.scores, d.SuggestedHost, n), nil
}

// Scores returns the weighted scores, plugin by plugin, of the named nodes that the pod fits, in
// the order of the names. The only node that fits has no scores. Its cost is that of Top.
func (d *Decision) Scores(ctx context.Context, names ...string) ([]fwk.NodePluginScores, error) {
	if d.fit != (fastpath.Fit{}) {
		return d.fit.Scores(ctx, names...)
	}
	var scores []fwk.NodePluginScores
	for _, name := range names {
		if i := d.indexOf(name); i >= 0 {
			scores = append(scores, d.scores[i])
		} else if name == d.SuggestedHost {
			scores = append(scores, fwk.NodePluginScores{Name: name})
		}
	}
	return scores, nil
}

// Fits reports whether the pod fits a node. If only some of the nodes were looked at, it does not
// on the others.
func (d *Decision) Fits(node string) bool {
	switch {
	case d.SuggestedHost == "":
		return false
	case d.SuggestedHost == node:
		return true
	case d.fit != fastpath.Fit{}:
		return d.fit.Fits(node)
	}
	return d.indexOf(node) >= 0
}

// indexOf returns the position of a node in scores, or -1.
func (d *Decision) indexOf(node string) int {
	return slices.IndexFunc(d.scores, func(n fwk.NodePluginScores) bool { return n.Name == node })
}

// IsBest reports whether a node shares the highest total, so that it could have been drawn.
func (d *Decision) IsBest(node string) bool {
	switch {
	case d.SuggestedHost == "":
		return false
	case d.SuggestedHost == node:
		return true
	case d.fit != fastpath.Fit{}:
		return d.fit.IsBest(node)
	}
	i := d.indexOf(node)
	return i >= 0 && d.scores[i].TotalScore == d.Total
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
