// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// maxDepth is how many composite groups may be in each other, as in the API (KEP-6012).
const maxDepth = 4

// forest is the composite groups of a Registry. The mutex of the Registry guards it.
type forest struct {
	composites map[Key]*CompositeGroup
	// children has the groups that name a composite group as their parent, if there is one or not.
	children map[Key]sets.Set[Key]
	// trees has the trees that were built since the last change, by their roots.
	trees map[Key]*Tree
}

func newForest() forest {
	return forest{composites: map[Key]*CompositeGroup{}, children: map[Key]sets.Set[Key]{}, trees: map[Key]*Tree{}}
}

// setParent records that a group has another parent than before. "" is none.
func (f *forest) setParent(key Key, before, after string) {
	clear(f.trees)
	if before == after {
		return
	}
	if parent := CompositeKey(key.Namespace, before); before != "" {
		if f.children[parent].Delete(key); len(f.children[parent]) == 0 {
			delete(f.children, parent)
		}
	}
	if parent := CompositeKey(key.Namespace, after); after != "" {
		if f.children[parent] == nil {
			f.children[parent] = sets.New[Key]()
		}
		f.children[parent].Insert(key)
	}
}

// rootOf returns the outermost composite group that the one with a key belongs to. problem says why
// there is none.
func (f *forest) rootOf(key Key) (root Key, problem string) {
	for range maxDepth {
		c := f.composites[key]
		if c == nil {
			return key, fmt.Sprintf("there is no CompositePodGroup %s", key)
		}
		if c.Parent == "" {
			return key, ""
		}
		key = CompositeKey(key.Namespace, c.Parent)
	}
	return key, fmt.Sprintf("more than %d CompositePodGroups are in each other, or one is in itself", maxDepth)
}

// SetComposite records the newest version of a composite group. It returns the groups of pods that
// may be placed in other ways than before.
func (r *Registry) SetComposite(c CompositeGroup) (affected []Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	affected = r.leavesOfRootLocked(c.Key) // of the tree that it is taken from
	before := ""
	if old := r.forest.composites[c.Key]; old != nil {
		before = old.Parent
		r.requireTopologyLocked(old.Topology.Required, -1)
	}
	r.requireTopologyLocked(c.Topology.Required, 1)
	r.forest.composites[c.Key] = &c
	r.forest.setParent(c.Key, before, c.Parent)
	return r.treeChangedLocked(affected, r.leavesOfRootLocked(c.Key))
}

// DeleteComposite records that the object of a composite group is gone. It returns the groups of
// pods that were in its tree.
func (r *Registry) DeleteComposite(key Key) (affected []Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.forest.composites[key]
	if old == nil {
		return nil
	}
	affected = r.leavesOfRootLocked(key)
	r.requireTopologyLocked(old.Topology.Required, -1)
	delete(r.forest.composites, key)
	r.forest.setParent(key, old.Parent, "")
	return r.treeChangedLocked(affected, nil)
}

// treeChangedLocked returns the groups of pods in a tree before or after a change, and notes that
// their pods may be evicted in another way now.
func (r *Registry) treeChangedLocked(before, after []Key) []Key {
	leaves := sets.New(before...).Insert(after...)
	if leaves.Len() > 0 {
		r.victims.Add(1)
	}
	return leaves.UnsortedList()
}

// inTreeLocked returns a group of pods with what the composite groups that it is in mean for its
// eviction: the priority of the outermost one counts, and each may be evicted as a whole.
func (r *Registry) inTreeLocked(g Group) Group {
	parent := g.Parent
	for range maxDepth {
		c := r.forest.composites[CompositeKey(g.Namespace, parent)]
		if parent == "" || c == nil {
			break
		}
		g.Priority = c.Priority
		if c.EvictedWhole {
			g.EvictedWhole, g.EvictedWith = true, c.Key
		}
		parent = c.Parent
	}
	return g
}

// leavesOfRootLocked returns the groups of pods in the tree that a composite group is in, or would
// be in if its parents existed.
func (r *Registry) leavesOfRootLocked(key Key) (leaves []Key) {
	root, _ := r.forest.rootOf(key)
	seen := sets.New[Key]()
	var collect func(Key)
	collect = func(key Key) {
		if seen.Has(key) {
			return
		}
		seen.Insert(key)
		if key.Source != Composite {
			leaves = append(leaves, key)
			return
		}
		for child := range r.forest.children[key] {
			collect(child)
		}
	}
	collect(root)
	return leaves
}

// TreeOf returns the tree that a group of pods or a composite group is in. It is nil for a group of
// pods without a parent, and while the API server serves no CompositePodGroups: then a parent has
// no meaning. If a composite group of the tree does not exist, there is no tree, and problem says
// what is missing.
func (r *Registry) TreeOf(key Key) (tree *Tree, problem string) {
	if r == nil {
		return nil, ""
	}
	r.mu.Lock()
	served := r.served[Composite]
	start := key
	if key.Source != Composite {
		start = r.parentLocked(key)
	}
	r.mu.Unlock()
	if start == (Key{}) || served == nil || !served() {
		return nil, ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	root, problem := r.forest.rootOf(start)
	if problem != "" {
		return nil, problem
	}
	tree = r.forest.trees[root]
	if tree == nil {
		tree = r.buildLocked(root, 0)
		r.forest.trees[root] = tree
	}
	return tree, ""
}

// parentLocked returns the parent of a group of pods, the zero Key if it has none.
func (r *Registry) parentLocked(key Key) Key {
	s := r.groups[key]
	if s == nil || s.group == nil || s.group.Parent == "" {
		return Key{}
	}
	return CompositeKey(key.Namespace, s.group.Parent)
}

// Unit returns the key of what a group of pods is tried with: its tree, or itself.
func (r *Registry) Unit(key Key) Key {
	if tree, _ := r.TreeOf(key); tree != nil {
		return tree.Key
	}
	return key
}

// buildLocked returns the tree of a composite group that exists. Those that are deeper than allowed
// have no children.
func (r *Registry) buildLocked(key Key, depth int) *Tree {
	c := r.forest.composites[key]
	t := &Tree{MinGroups: c.MinGroups, Group: Group{Key: key, MinMember: 1, Topology: c.Topology,
		Priority: c.Priority, PreemptionPolicy: c.PreemptionPolicy}}
	if depth == maxDepth {
		return t
	}
	for _, child := range slices.SortedFunc(maps.Keys(r.forest.children[key]), compareKeys) {
		switch s := r.groups[child]; {
		case child.Source == Composite && r.forest.composites[child] != nil:
			t.Children = append(t.Children, r.buildLocked(child, depth+1))
		case child.Source != Composite && s != nil && s.group != nil:
			t.Children = append(t.Children, &Tree{Group: *s.group})
		}
	}
	return t
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Name, b.Name))
}

// Missing returns how many pods a group of pods lacks, without those that are ready. It may be
// negative. If the group has no object any more, it lacks more than there are.
func (r *Registry) Missing(key Key) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missingLocked(key, math.MaxInt32)
}

// missingLocked returns what a group lacks, or unknown if it has no object.
func (r *Registry) missingLocked(key Key, unknown int) int {
	if s := r.groups[key]; s != nil && s.group != nil {
		return s.missing()
	}
	return unknown
}

// LeavesOf returns the states of the groups of pods of a tree: On only if a group of the tree has a
// topology. A group without an object lacks more than the pods that are to be placed.
func (r *Registry) LeavesOf(tree *Tree, pods int) map[Key]Leaf {
	withNodes := tree.RequiresTopology()
	r.mu.Lock()
	defer r.mu.Unlock()
	leaves := map[Key]Leaf{}
	for t := range tree.Leaves() {
		leaf := Leaf{Missing: r.missingLocked(t.Key, pods+1), On: sets.New[string]()}
		if s := r.groups[t.Key]; s != nil && withNodes {
			for _, p := range s.placed {
				leaf.On.Insert(p.node)
			}
		}
		leaves[t.Key] = leaf
	}
	return leaves
}

// ExcuseAbsent lets a tree do without groups of pods that were complete at one time, and of which
// no pod is ready now: their pods may have succeeded, and will not come again. It reports whether
// anything has changed. It holds as Excuse does.
func (r *Registry) ExcuseAbsent(tree *Tree, ready func(*Tree) int) (changed bool) {
	for leaf := range tree.Leaves() {
		if ready(leaf) > 0 {
			continue
		}
		r.mu.Lock()
		if s := r.groups[leaf.Key]; s != nil && s.group != nil && s.complete && s.missing() > 0 {
			s.excused += s.missing()
			changed = true
		}
		r.mu.Unlock()
	}
	return changed
}
