// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// newTrees returns a Registry for trees.
func newTrees() *Registry {
	r := NewRegistry()
	for _, source := range []Source{Kubernetes, Composite} {
		r.SetServed(source, func() bool { return true }, nil)
	}
	return r
}

func leafKey(name string) Key { return Key{Source: Kubernetes, Namespace: "ml", Name: name} }

// inTree is a pod of a group, on a node.
func inTree(name, group, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	pod.Spec.NodeName = node
	return pod
}

// describe returns a tree as text: "root(1 of a b)".
func describe(t *Tree) string {
	if t == nil {
		return ""
	}
	if !t.IsComposite() {
		return t.Name
	}
	var children []string
	for _, child := range t.Children {
		children = append(children, describe(child))
	}
	return fmt.Sprintf("%s(%d of %s)", t.Name, t.MinGroups, strings.Join(children, " "))
}

func TestTheTreeOfAGroup(t *testing.T) {
	r := newTrees()
	composite := func(name, parent string, minGroups int) {
		r.SetComposite(CompositeGroup{Key: CompositeKey("ml", name), Parent: parent, MinGroups: minGroups})
	}
	group := func(name, parent string) {
		r.SetGroup(Group{Key: leafKey(name), MinMember: 1, Parent: parent})
	}
	group("alone", "")
	group("lost", "nobody")
	group("a", "root")
	composite("root", "", 2)
	composite("sub", "root", 1)
	group("b", "sub")
	r.SetComposite(CompositeGroup{Key: CompositeKey("other", "sub"), Parent: "root", MinGroups: 1})
	composite("x", "y", 1)
	composite("y", "x", 1)
	group("in-itself", "x")
	for i := range 5 {
		parent := ""
		if i > 0 {
			parent = fmt.Sprint("deep", i-1)
		}
		composite(fmt.Sprint("deep", i), parent, 1)
	}
	group("deep-enough", "deep3")
	group("too-deep", "deep4")
	const depth = "more than 4 CompositePodGroups are in each other, or one is in itself"
	check := func(want map[string][2]string) {
		t.Helper()
		for name, w := range want {
			tree, problem := r.TreeOf(leafKey(name))
			if got := [2]string{describe(tree), problem}; got != w {
				t.Errorf("%s: got %q, want %q", name, got, w)
			}
		}
	}
	check(map[string][2]string{
		"alone": {}, "unknown": {}, "lost": {"", "there is no CompositePodGroup ml/nobody"},
		"a": {"root(2 of a sub(1 of b))", ""}, "b": {"root(2 of a sub(1 of b))", ""},
		"in-itself": {"", depth}, "too-deep": {"", depth},
		"deep-enough": {"deep0(1 of deep1(1 of deep2(1 of deep3(1 of deep-enough deep4(1 of )))))", ""},
	})
	affected := r.SetComposite(CompositeGroup{Key: CompositeKey("ml", "sub"), MinGroups: 1})
	if !sets.New(affected...).Equal(sets.New(leafKey("a"), leafKey("b"))) {
		t.Errorf("a composite group that leaves its tree affects %v", affected)
	}
	check(map[string][2]string{"a": {"root(2 of a)", ""}, "b": {"sub(1 of b)", ""}})
	r.DeleteComposite(CompositeKey("ml", "root"))
	r.DeleteGroup(leafKey("b"))
	check(map[string][2]string{"a": {"", "there is no CompositePodGroup ml/root"}, "b": {}})
	r.SetServed(Composite, func() bool { return false }, nil)
	check(map[string][2]string{"lost": {}, "a": {}, "in-itself": {}})
}

func TestTheStatesOfTheGroupsOfATree(t *testing.T) {
	r := newTrees()
	r.SetComposite(CompositeGroup{Key: CompositeKey("ml", "root"), MinGroups: 1})
	r.SetGroup(Group{Key: leafKey("a"), MinMember: 3, Parent: "root"})
	r.SetGroup(Group{Key: leafKey("b"), MinMember: 1, Parent: "root"})
	r.SetAssigned(inTree("a-0", "a", "n1"))
	r.SetAssigned(inTree("b-0", "b", "n2"))
	r.SetAssigned(inTree("b-1", "b", "n3"))
	tree, _ := r.TreeOf(leafKey("a"))
	want := map[Key]Leaf{
		leafKey("a"): {Missing: 2, On: sets.New[string]()}, leafKey("b"): {Missing: -1, On: sets.New[string]()},
	}
	if diff := cmp.Diff(want, r.LeavesOf(tree, 3)); diff != "" {
		t.Errorf("without a topology: %s", diff)
	}
	r.SetGroup(Group{Key: leafKey("b"), MinMember: 1, Parent: "root", Topology: Topology{Required: "rack"}})
	tree, _ = r.TreeOf(leafKey("a"))
	want[leafKey("a")].On.Insert("n1")
	want[leafKey("b")].On.Insert("n2", "n3")
	leaves := r.LeavesOf(tree, 3)
	if diff := cmp.Diff(want, leaves); diff != "" {
		t.Errorf("with a topology: %s", diff)
	}
	if got := tree.NodesOf(leaves); !got.Equal(sets.New("n1", "n2", "n3")) {
		t.Errorf("the tree is on %v", got)
	}
}

func TestVictimsOfTrees(t *testing.T) {
	r := newTrees()
	set := func(name string, whole bool) {
		r.SetGroup(Group{Key: leafKey(name), MinMember: 1, Parent: "sub", Priority: ptr.To[int32](1),
			EvictedWhole: whole})
	}
	composite := func(name, parent string, priority int32, whole bool) {
		r.SetComposite(CompositeGroup{Key: CompositeKey("ml", name), Parent: parent, MinGroups: 1, Priority: &priority,
			EvictedWhole: whole})
	}
	// Of each group: its priority, if it is evicted as a whole, and with which composite group.
	victims := func() map[string]string {
		got := map[string]string{}
		groups, _ := r.Victims()
		for i := range groups {
			g := &groups[i]
			got[g.Name] = fmt.Sprint(*g.Priority, g.EvictedWhole, " ", g.EvictedWith.Name)
		}
		return got
	}
	version := r.VictimsVersion()
	for _, step := range []struct {
		name string
		do   func()
		want map[string]string
	}{
		{"their parent is missing", func() { set("a", true); set("b", false) },
			map[string]string{"a": "1 true ", "b": "1 false "}},
		{"the parent has a priority", func() { composite("sub", "root", 2, false) },
			map[string]string{"a": "2 true ", "b": "2 false "}},
		{"the parent is evicted as a whole", func() { composite("sub", "root", 2, true) },
			map[string]string{"a": "2 true sub", "b": "2 true sub"}},
		{"the outermost priority counts", func() { composite("root", "", 3, false) },
			map[string]string{"a": "3 true sub", "b": "3 true sub"}},
		{"the outermost one is evicted as a whole, too", func() { composite("root", "", 3, true) },
			map[string]string{"a": "3 true root", "b": "3 true root"}},
		{"only the outermost one is", func() { composite("sub", "root", 2, false) },
			map[string]string{"a": "3 true root", "b": "3 true root"}},
		{"it is gone", func() { r.DeleteComposite(CompositeKey("ml", "root")) },
			map[string]string{"a": "2 true ", "b": "2 false "}},
		{"groups leave", func() { r.DeleteGroup(leafKey("a")); r.DeleteGroup(leafKey("b")) }, map[string]string{}},
	} {
		before := version
		step.do()
		if diff := cmp.Diff(step.want, victims()); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
		if version = r.VictimsVersion(); version == before {
			t.Errorf("%s: the version has not changed", step.name)
		}
	}
}

func TestReadingACompositePodGroup(t *testing.T) {
	object := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "root"}}
	object.Spec.SchedulingPolicy.Basic = &schedulingv1alpha3.CompositeBasicSchedulingPolicy{}
	object.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{
		Single: &schedulingv1alpha3.SingleCompositeDisruptionMode{}}
	want := CompositeGroup{Key: CompositeKey("ml", "root"), MinGroups: 1}
	if diff := cmp.Diff(want, FromCompositePodGroup(object)); diff != "" {
		t.Errorf("the basic policy: %s", diff)
	}
	object.Spec = schedulingv1alpha3.CompositePodGroupSpec{
		ParentCompositePodGroupName: ptr.To("above"),
		SchedulingPolicy: schedulingv1alpha3.CompositePodGroupSchedulingPolicy{
			Gang: &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 3}},
		SchedulingConstraints: &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha3.TopologyConstraint{{Key: "rack"}}},
		DisruptionMode: &schedulingv1alpha3.CompositeDisruptionMode{
			All: &schedulingv1alpha3.AllCompositeDisruptionMode{}},
		Priority:         ptr.To[int32](7),
		PreemptionPolicy: ptr.To(schedulingv1alpha3.PreemptNever),
	}
	want = CompositeGroup{Key: want.Key, Parent: "above", MinGroups: 3, Topology: Topology{Required: "rack"},
		Priority: ptr.To[int32](7), PreemptionPolicy: ptr.To(corev1.PreemptNever), EvictedWhole: true}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	got, err := FromComposite(&unstructured.Unstructured{Object: fields})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := FromComposite(&unstructured.Unstructured{Object: map[string]any{"spec": 1}}); err == nil {
		t.Error("an object without a spec can be read")
	}
}

func FuzzParseDomain(f *testing.F) {
	f.Add("rack", "r1", "zone", "")
	f.Fuzz(func(t *testing.T, key, value, otherKey, otherValue string) {
		if strings.ContainsAny(key+value+otherKey+otherValue, "=,") {
			t.Skip("no labels have these characters")
		}
		want := Domain{{key, value}, {otherKey, otherValue}}
		if got := ParseDomain(want.String()); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
