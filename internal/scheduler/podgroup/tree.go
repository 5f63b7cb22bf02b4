// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Tree is a composite group with all that belongs to it, or a group of pods that belongs to one.
// All pods of a tree are tried together. It does not change.
type Tree struct {
	// Group is the group of pods. Of a composite group it has what all of its pods have in common:
	// Key, Topology, Priority and Problem.
	Group
	// MinGroups is the number of children of a composite group that must be placed together. It is
	// 0 for a group of pods.
	MinGroups int
	// Children are in the order of their kinds and names.
	Children []*Tree
}

// IsComposite reports whether this is a composite group, not a group of pods.
func (t *Tree) IsComposite() bool { return t.MinGroups > 0 }

// Leaves returns the groups of pods.
func (t *Tree) Leaves() iter.Seq[*Tree] {
	return func(yield func(*Tree) bool) { t.eachLeaf(yield) }
}

func (t *Tree) eachLeaf(yield func(*Tree) bool) bool {
	if !t.IsComposite() {
		return yield(t)
	}
	for _, child := range t.Children {
		if !child.eachLeaf(yield) {
			return false
		}
	}
	return true
}

// Enough reports whether enough groups are complete. lacks returns how many pods a group of pods
// lacks, less than 1 if it is complete.
func (t *Tree) Enough(lacks func(*Tree) int) bool {
	if !t.IsComposite() {
		return lacks(t) <= 0
	}
	complete := 0
	for _, child := range t.Children {
		if child.Enough(lacks) {
			complete++
		}
	}
	return complete >= t.MinGroups
}

// Ready returns the groups of pods that are complete, and that belong only to composite groups of
// which enough groups are. lacks is as for Enough. incomplete is a composite group of which too few
// groups are complete, nil if there is none on the way to a complete one.
func (t *Tree) Ready(lacks func(*Tree) int) (ready sets.Set[Key], incomplete *Tree) {
	ready = sets.New[Key]()
	var collect func(*Tree)
	collect = func(t *Tree) {
		switch {
		case !t.Enough(lacks):
			if t.IsComposite() && incomplete == nil {
				incomplete = t
			}
		case !t.IsComposite():
			ready.Insert(t.Key)
		default:
			for _, child := range t.Children {
				collect(child)
			}
		}
	}
	collect(t)
	return ready, incomplete
}

// Leaf is the state of a group of pods of a tree.
type Leaf struct {
	// Missing is how many pods it lacks, less than 1 if it is complete.
	Missing int
	// On are the nodes of its pods that have one.
	On sets.Set[string]
}

// NodesOf returns the nodes of the pods of a tree that have one.
func (t *Tree) NodesOf(leaves map[Key]Leaf) sets.Set[string] {
	nodes := sets.New[string]()
	for leaf := range t.Leaves() {
		nodes = nodes.Union(leaves[leaf.Key].On)
	}
	return nodes
}

// RequiresTopology reports whether the pods of a group of the tree have to be near to each other.
func (t *Tree) RequiresTopology() bool {
	return t.Topology.Required != "" || slices.ContainsFunc(t.Children, (*Tree).RequiresTopology)
}
