// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// treeModel has the composite groups of a groupWorld, by their names. Groups and composite groups
// name parents that may not exist, and composite groups may be in themselves.
type treeModel struct {
	composites map[string]podgroup.CompositeGroup
}

// compositeNames are more than maxDepth: some trees are too deep.
var compositeNames = []string{"c0", "c1", "c2", "c3", "c4"}

// newTreeWorld returns a groupWorld whose groups are in trees.
func newTreeWorld(t *testing.T, seed uint64) *groupWorld {
	w := newGroupWorld(t, seed)
	w.serveTrees()
	for range 5 { // most groups find their parent
		w.changeTree()
	}
	return w
}

func (w *groupWorld) serveTrees() {
	w.trees = &treeModel{map[string]podgroup.CompositeGroup{}}
	for _, source := range []podgroup.Source{podgroup.Kubernetes, podgroup.Composite} {
		w.groups.SetServed(source, func() bool { return true }, nil)
	}
}

// parent returns the name of a parent, "" for none.
func (w *groupWorld) parent() string {
	if w.IntN(3) == 0 {
		return ""
	}
	return compositeNames[w.IntN(len(compositeNames))]
}

// changeTree sets or deletes a composite group.
func (w *groupWorld) changeTree() {
	key := podgroup.CompositeKey(newPod("").Namespace, compositeNames[w.IntN(len(compositeNames))])
	if w.IntN(4) == 0 {
		delete(w.trees.composites, key.Name)
		w.TreeChanged(logger, w.groups.DeleteComposite(key))
		return
	}
	c := podgroup.CompositeGroup{Key: key, Parent: w.parent(), MinGroups: 1 + w.IntN(2)}
	w.trees.composites[key.Name] = c
	w.TreeChanged(logger, w.groups.SetComposite(c))
}

// completeLocked reports whether a group that has enough pods may be tried: all composite groups
// around it exist and have enough groups, counting pods in flight as ready.
func (w *groupWorld) completeLocked(key podgroup.Key, flying map[podgroup.Key]int) bool {
	if w.trees == nil {
		return true
	}
	group, _, _ := w.groups.Get(key)
	depth := 0
	for name := group.Parent; name != ""; name = w.trees.composites[name].Parent {
		c, exists := w.trees.composites[name]
		if depth++; depth > 4 || !exists || !w.enoughGroupsLocked(c, 0, flying) {
			return false
		}
	}
	return true
}

// enoughGroupsLocked reports whether a composite group has enough groups.
func (w *groupWorld) enoughGroupsLocked(c podgroup.CompositeGroup, depth int, flying map[podgroup.Key]int) bool {
	if depth == 4 {
		return false
	}
	complete := 0
	for _, child := range w.trees.composites {
		if child.Parent == c.Name && w.enoughGroupsLocked(child, depth+1, flying) {
			complete++
		}
	}
	for i := range 3 {
		key := w.keyOf(fmt.Sprintf("g%d", i))
		group, _, known := w.groups.Get(key)
		if !known || group.Parent != c.Name {
			continue
		}
		ready := flying[key]
		if m := w.members[memberKey{key, "default"}]; m != nil {
			ready += m.ready
		}
		if w.groups.Missing(key) <= ready {
			complete++
		}
	}
	return complete >= c.MinGroups
}

// checkTree checks the pods of a tree that were popped: those of all groups that may be tried, and
// only those.
func (w *groupWorld) checkTree(popped *PoppedGroup) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	flying := map[podgroup.Key]int{}
	for _, info := range w.flying {
		flying[podgroup.KeyOf(info.Pod)]++
	}
	w.Expect(popped.Needed).To(Equal(1))
	for key, pods := range flying {
		tree, problem := w.groups.TreeOf(key)
		w.Expect(problem).To(BeEmpty())
		w.Expect(tree).To(BeIdenticalTo(popped.Tree), "%s is in another tree", key)
		w.Expect(w.groups.Missing(key)).To(BeNumerically("<=", pods), "%s lacks pods", key)
		w.Expect(w.completeLocked(key, flying)).To(BeTrue(), "a composite group around %s lacks groups", key)
		if m := w.members[memberKey{key, "default"}]; m != nil {
			w.Expect(m.ready).To(BeZero(), "pods of %s are left behind", key)
		}
	}
}

// TestAnObjectOfAGroupIsDeletedDuringPop deletes it when Pop asks for the nth time whether such
// groups are served. All pods of the group, or of its tree, are popped together, or none of them.
func TestAnObjectOfAGroupIsDeletedDuringPop(t *testing.T) {
	namespace := newPod("").Namespace
	root := podgroup.CompositeKey(namespace, "root")
	group := func(name string) podgroup.Key {
		return podgroup.Key{Source: podgroup.Kubernetes, Namespace: namespace, Name: name}
	}
	for name, test := range map[string]struct {
		asks    podgroup.Source
		parent  string
		deletes func(*podgroup.Registry)
	}{
		"a PodGroup": {podgroup.Kubernetes, "", func(r *podgroup.Registry) { r.DeleteGroup(group("g")) }},
		"the PodGroup of the first pod in a tree": {podgroup.Composite, "root",
			func(r *podgroup.Registry) { r.DeleteGroup(group("g")) }},
		"another PodGroup of a tree": {podgroup.Composite, "root",
			func(r *podgroup.Registry) { r.DeleteGroup(group("h")) }},
		"a CompositePodGroup": {podgroup.Composite, "root", func(r *podgroup.Registry) { r.DeleteComposite(root) }},
	} {
		for nth := 1; nth <= 8; nth++ {
			t.Run(fmt.Sprintf("%s, %d", name, nth), func(t *testing.T) {
				f, groups := withGroups(t)
				popping, asked := false, 0
				for _, source := range []podgroup.Source{podgroup.Kubernetes, podgroup.Composite} {
					groups.SetServed(source, func() bool {
						if popping && source == test.asks {
							if asked++; asked == nth {
								test.deletes(groups)
							}
						}
						return true
					}, nil)
				}
				groups.SetComposite(podgroup.CompositeGroup{Key: root, MinGroups: 2})
				want := []string{"g1", "g2"}
				groups.SetGroup(podgroup.Group{Key: group("g"), MinMember: 2, Parent: test.parent})
				if test.parent != "" {
					want = append(want, "h1", "h2")
					groups.SetGroup(podgroup.Group{Key: group("h"), MinMember: 2, Parent: test.parent})
				}
				for i, name := range want {
					f.Add(logger, newPod(name, priority(int32(10-i)), func(pod *corev1.Pod) {
						pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new(name[:1])}
					}))
				}
				f.Add(logger, newPod("alone"))
				f.Expect(f.Counts().Gated).To(BeZero())
				popping = true
				popped, names := f.popGroup()
				if popped.Group == nil {
					f.Expect(names).To(Equal([]string{"alone"}))
					f.Expect(f.Counts().Gated).To(Equal(len(want)))
					return
				}
				f.Expect(names).To(ConsistOf(want))
				f.Expect(popped.Group.Tree != nil).To(Equal(test.parent != ""), "in a tree")
				f.Expect(popped.Group.Needed).To(Equal(map[string]int{"": 2, "root": 1}[test.parent]))
			})
		}
	}
}

func TestAGroupOfATreeWaitsForTheOthers(t *testing.T) {
	w := newGroupWorld(t, 1)
	w.serveTrees()
	namespace := newPod("").Namespace
	root := podgroup.CompositeGroup{Key: podgroup.CompositeKey(namespace, "root"), MinGroups: 2}
	for _, name := range []string{"a", "b"} {
		w.groups.SetGroup(podgroup.Group{Key: w.keyOf(name), MinMember: 1, Parent: "root"})
		w.GroupChanged(logger, w.keyOf(name))
	}
	waits := func(pod string) string {
		wait, ok := w.Wait(newPod(pod).UID)
		w.Expect(ok).To(BeTrue())
		return wait.Group.TreeAwaits
	}
	w.Add(logger, newPod("a-0", w.inGroup("a")))
	w.Expect(waits("a-0")).To(Equal("there is no CompositePodGroup " + root.String()))
	w.TreeChanged(logger, w.groups.SetComposite(root))
	w.Expect(waits("a-0")).To(Equal(
		"fewer than 2 groups of the composite pod group " + root.String() + " are ready to be scheduled"))
	w.Add(logger, newPod("b-0", w.inGroup("b")))
	popped := w.Pop(logger)
	names := []string{popped.Pod.Pod.Name}
	for _, other := range popped.Group.Others {
		names = append(names, other.Pod.Name)
	}
	w.Expect(names).To(ConsistOf("a-0", "b-0"))
	w.Close()
}
