// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

func nodeNames(t *testing.T, list func() ([]fwk.NodeInfo, error)) []string {
	t.Helper()
	infos, err := list()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, info := range infos {
		names = append(names, info.Node().Name)
	}
	return names
}

func TestSetsOfNodes(t *testing.T) {
	f := newFixture(t, newNode("a1", "a"), newNode("a2", "a"), newNode("b1", "b"))
	expect := func(affinity, antiAffinity []string) {
		t.Helper()
		f.refresh()
		infos := f.snapshot.NodeInfos()
		if got := nodeNames(t, infos.HavePodsWithAffinityList); !slices.Equal(got, affinity) {
			t.Errorf("nodes with affinity: got %v, want %v", got, affinity)
		}
		if got := nodeNames(t, infos.HavePodsWithRequiredAntiAffinityList); !slices.Equal(got, antiAffinity) {
			t.Errorf("nodes with required anti-affinity: got %v, want %v", got, antiAffinity)
		}
		for want, set := range map[*[]string]Bitset{
			&affinity: f.snapshot.WithAffinity(), &antiAffinity: f.snapshot.withRequiredAntiAffinity,
		} {
			var names []string
			for slot := range set.All() {
				names = append(names, f.snapshot.Info(slot).Node().Name)
			}
			if slices.Sort(names); !slices.Equal(names, slices.Sorted(slices.Values(*want))) ||
				set.Len() != len(*want) {
				t.Errorf("set of slots: got %v, want %v", names, *want)
			}
		}
	}
	expect(nil, nil)
	preferring, required := newPod("p", "a2", withAffinity), newPod("q", "b1", withRequiredAntiAffinity)
	second := newPod("r", "b1", withRequiredAntiAffinity, claiming("data"))
	for _, pod := range []*corev1.Pod{preferring, required, second} {
		f.must(f.AddPod(quiet, pod))
	}
	expect([]string{"b1", "a2"}, []string{"b1"})
	f.must(f.RemovePod(quiet, required))
	expect([]string{"b1", "a2"}, []string{"b1"})
	f.must(f.RemovePod(quiet, second))
	expect([]string{"a2"}, nil)
	f.must(f.RemoveNode(quiet, newNode("a2", "a")))
	expect(nil, nil)
	f.AddNode(quiet, newNode("a2", "a"))
	expect([]string{"a2"}, nil)
}

func TestSubsetsOfTheOrder(t *testing.T) {
	// Small sets are sorted, large ones are filtered from the ordered list: both must have the same
	// result.
	f := newFixture(t)
	for i := range 300 {
		f.AddNode(quiet, newNode(fmt.Sprintf("n%d", i), fmt.Sprintf("z%d", i/60))) // slots and order differ
	}
	f.refresh()
	order := nodeNames(t, f.snapshot.List)
	chosen := map[string]bool{}
	for i := range 150 {
		name := order[(i*37)%300]
		chosen[name] = true
		f.must(f.AddPod(quiet, newPod(fmt.Sprintf("p%d", i), name, withAffinity)))
		f.refresh()
		want := slices.DeleteFunc(slices.Clone(order), func(name string) bool { return !chosen[name] })
		if got := nodeNames(t, f.snapshot.HavePodsWithAffinityList); !slices.Equal(got, want) {
			t.Fatalf("%d of 300 nodes: got %v, want %v", i+1, got, want)
		}
	}
}

func TestClaimsInUse(t *testing.T) {
	f := newFixture(t, newNode("a", ""), newNode("b", ""))
	used := func(key string) bool {
		f.refresh()
		return f.snapshot.StorageInfos().IsPVCUsedByPods(key)
	}
	first, second := newPod("p", "a", claiming("data")), newPod("q", "b", claiming("data", "data"))
	if used("ns/data") {
		t.Error("a claim that no pod uses is in use")
	}
	f.must(f.AddPod(quiet, first))
	f.must(f.AddPod(quiet, second))
	if !used("ns/data") || used("other/data") || used("ns/other") || used("data") {
		t.Error("with two users: wrong answer")
	}
	f.must(f.RemovePod(quiet, first))
	if !used("ns/data") {
		t.Error("the claim of the second user is not in use")
	}
	f.must(f.RemoveNode(quiet, newNode("b", "")))
	if used("ns/data") {
		t.Error("the claim of a pod on a placeholder is in use")
	}
	f.AddNode(quiet, newNode("b", ""))
	if !used("ns/data") {
		t.Error("the claim is not in use after the placeholder came back")
	}
	f.must(f.RemovePod(quiet, second))
	if used("ns/data") || len(f.snapshot.pvcs) != 0 {
		t.Error("something is left of a claim that is not used")
	}
}

func TestSharedHostPort(t *testing.T) {
	f := newFixture(t, newNode("a", ""))
	old, recreated := newPod("p", "a", listening(80)), newPod("q", "a", listening(80))
	f.must(f.AddPod(quiet, old))
	f.must(f.AddPod(quiet, recreated))
	f.must(f.RemovePod(quiet, old))
	f.refresh()
	if !f.snapshot.Info(0).UsedPorts.CheckConflict("", "TCP", 80) {
		t.Error("a port that another pod still uses is free")
	}
	f.must(f.RemovePod(quiet, recreated))
	f.refresh()
	if f.snapshot.Info(0).UsedPorts.Len() != 0 {
		t.Error("a port that is not used is taken")
	}
}

func TestLists(t *testing.T) {
	t.Run("a placement leaves lists and all other nodes alone", func(t *testing.T) {
		f := newFixture(t)
		for i := range 100 {
			f.AddNode(quiet, newNode(fmt.Sprintf("n%d", i), ""))
		}
		f.must(f.AddPod(quiet, newPod("first", "n3", withAffinity)))
		f.refresh()
		list, _ := f.snapshot.List()
		withAffinityList, _ := f.snapshot.HavePodsWithAffinityList()
		var generations []int64
		for _, info := range list {
			generations = append(generations, info.GetGeneration())
		}
		f.assume(newPod("p", "n3", withAffinity)) // n3 had such a pod before
		f.refresh()
		again, _ := f.snapshot.List()
		againWithAffinity, _ := f.snapshot.HavePodsWithAffinityList()
		if &list[0] != &again[0] || &withAffinityList[0] != &againWithAffinity[0] {
			t.Error("a list was made again")
		}
		for i, info := range again {
			if moved := info.GetGeneration() != generations[i]; moved != (info.Node().Name == "n3") {
				t.Errorf("generation of %s moved: %v", info.Node().Name, moved)
			}
		}
	})

	t.Run("a list of an earlier cycle stays as it was", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""), newNode("b", ""))
		list, _ := f.snapshot.List()
		f.must(f.RemoveNode(quiet, newNode("a", "")))
		f.AddNode(quiet, newNode("c", ""))
		f.refresh()
		if _, err := f.snapshot.List(); err != nil {
			t.Fatal(err)
		}
		if list[0].Node().Name != "a" || list[1].Node().Name != "b" {
			t.Error("it has changed")
		}
	})

	t.Run("a node that is not there is an error", func(t *testing.T) {
		f := newFixture(t)
		info, err := f.snapshot.NodeInfos().Get("a")
		if info != nil || err == nil || !strings.Contains(err.Error(), "\"a\"") {
			t.Errorf("got %v, %v", info, err)
		}
	})
}

func TestTwoSnapshots(t *testing.T) {
	f := newFixture(t, newNode("a", "x", withImages("i")), newNode("b", "y"))
	f.must(f.AddPod(quiet, newPod("p", "a", claiming("data"), withAffinity)))
	f.refresh()

	other := NewSnapshot()
	for range 2 {
		f.must(f.UpdateSnapshot(quiet, other))
		if diff := diffSnapshots(f.snapshot, other); diff != "" {
			t.Fatalf("another snapshot of the cache differs:\n%s", diff)
		}
		if _, ok := other.Log().Since(other.Log().End()); !ok {
			t.Error("its log is of no use")
		}
	}
	f.must(f.AddPod(quiet, newPod("q", "b")))
	pos := other.Log().End()
	f.must(f.UpdateSnapshot(quiet, other))
	if _, ok := other.Log().Since(pos); ok {
		t.Error("a snapshot that was filled anew has no gap in its log")
	}
	f.expectLog("PodAdded b") // the fed one continues as if nothing had happened

	t.Run("a snapshot may go from one cache to another and back", func(t *testing.T) {
		elsewhere := New()
		elsewhere.AddNode(quiet, newNode("c", ""))
		f.must(elsewhere.UpdateSnapshot(quiet, f.snapshot))
		if got := nodeNames(t, f.snapshot.List); !slices.Equal(got, []string{"c"}) {
			t.Errorf("nodes: got %v", got)
		}
		f.must(f.RemoveNode(quiet, newNode("a", "x"))) // leaves a placeholder
		f.expectLog("gap")
		if got := nodeNames(t, f.snapshot.List); !slices.Equal(got, []string{"b"}) {
			t.Errorf("nodes: got %v", got)
		}
		f.AddNode(quiet, newNode("a", "x"))
		f.expectLog("NodeAdded a")
		fresh := NewSnapshot()
		f.must(f.UpdateSnapshot(quiet, fresh))
		if diff := diffSnapshots(fresh, f.snapshot); diff != "" {
			t.Error(diff)
		}
	})
}

// diffSnapshots compares everything that two snapshots show, except for slots and log.
func diffSnapshots(want, got *Snapshot) string {
	var diff strings.Builder
	compare := func(what string, want, got any) {
		if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g {
			fmt.Fprintf(&diff, "%s: want %s, got %s\n", what, w, g)
		}
	}
	names := func(s *Snapshot, set Bitset) []string {
		var names []string
		for slot := range set.All() {
			names = append(names, s.Info(slot).Node().Name)
		}
		slices.Sort(names)
		return names
	}
	listed := func(list []fwk.NodeInfo, _ error) []string {
		var names []string
		for _, info := range list {
			names = append(names, info.Node().Name)
		}
		return names
	}
	compare("order", listed(want.List()), listed(got.List()))
	compare("nodes with affinity", listed(want.HavePodsWithAffinityList()), listed(got.HavePodsWithAffinityList()))
	compare("nodes with required anti-affinity", listed(want.HavePodsWithRequiredAntiAffinityList()),
		listed(got.HavePodsWithRequiredAntiAffinityList()))
	compare("set with affinity", names(want, want.WithAffinity()), names(got, got.WithAffinity()))
	compare("set with required anti-affinity", names(want, want.withRequiredAntiAffinity),
		names(got, got.withRequiredAntiAffinity))
	compare("claims", want.pvcs, got.pvcs)
	compare("priorities", want.priorities, got.priorities)
	for name, slot := range want.slots {
		other, ok := got.slots[name]
		if !ok {
			continue // the order identifies them
		}
		if d := diffNodeInfos(want.Info(slot), got.Info(other)); d != "" {
			fmt.Fprintf(&diff, "node %s:\n%s", name, d)
		}
		compare("images of "+name, imageCounts(want.Info(slot)), imageCounts(got.Info(other)))
	}
	return diff.String()
}

func TestJournal(t *testing.T) {
	t.Run("a node with more changes than the journal holds is rebuilt", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""), newNode("b", ""))
		f.feed.limit = 10
		before := f.snapshot.Info(0)
		var pods []*corev1.Pod
		for i := range 25 {
			pod := newPod(fmt.Sprintf("p%d", i), "a", claiming(fmt.Sprintf("c%d", i%3)))
			pods = append(pods, pod)
			f.must(f.AddPod(quiet, pod))
		}
		b := newPod("on-b", "b")
		f.must(f.AddPod(quiet, b))
		f.expectLog("PodAdded b", "NodeObject a")
		f.expectPods("a", pods...)
		f.expectPods("b", b)
		if f.snapshot.Info(0) != before {
			t.Error("the NodeInfo is another object")
		}
		for _, pod := range pods {
			f.must(f.RemovePod(quiet, pod))
		}
		f.refresh()
		f.expectPods("a")
		if f.snapshot.IsPVCUsedByPods("ns/c0") {
			t.Error("a claim is still in use")
		}
	})

	t.Run("a node that is rebuilt has its new labels and images", func(t *testing.T) {
		a := newNode("a", "x", withImages("i"))
		f := newFixture(t, a, newNode("b", "y"))
		f.feed.limit = 1
		f.snapshot.Topo(corev1.LabelTopologyZone)
		f.must(f.AddPod(quiet, newPod("p", "a")))
		f.must(f.AddPod(quiet, newPod("q", "a")))
		f.UpdateNode(quiet, a, editedNode(a, zoned("y"), withImages("j")))
		f.expectLog("NodeObject a")
		topology := f.snapshot.Topo(corev1.LabelTopologyZone)
		if topology.Domains()[0] != topology.Domains()[1] {
			t.Error("the topology does not show it")
		}
		if counts := imageCounts(f.snapshot.Info(0)); counts["i"] != 0 || counts["j"] != 1 {
			t.Errorf("images: %v", counts)
		}
		if got := nodeNames(t, f.snapshot.List); !slices.Equal(got, []string{"b", "a"}) {
			t.Errorf("order: got %v", got)
		}
	})

	t.Run("a snapshot that is inconsistent with the cache is repaired, and the error returned", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		pod := newPod("p", "a")
		f.must(f.AddPod(quiet, pod))
		f.refresh()
		f.must(f.snapshot.Info(0).RemovePod(quiet, pod)) // no caller may do that
		f.must(f.UpdatePod(quiet, pod, objects.Edited(pod, running)))
		if err := f.UpdateSnapshot(quiet, f.snapshot); err == nil || !strings.Contains(err.Error(), "\"a\"") {
			t.Errorf("got %v", err)
		}
		got, err := f.GetPod(pod)
		f.must(err)
		f.must(f.UpdateSnapshot(quiet, f.snapshot))
		f.expectPods("a", got)

		f.must(f.snapshot.Info(0).RemovePod(quiet, pod))
		f.must(f.RemovePod(quiet, pod))
		if err := f.UpdateSnapshot(quiet, f.snapshot); err == nil {
			t.Error("no error for a pod that was not there to be removed")
		}
		f.expectPods("a")
	})

	t.Run("nodes that are added and deleted while no snapshot is taken do not accumulate", func(t *testing.T) {
		f := newFixture(t, newNode("a", ""))
		for i := range 10 * minTrim {
			node := newNode(fmt.Sprintf("n%d", i), "")
			f.AddNode(quiet, node)
			f.must(f.RemoveNode(quiet, node))
		}
		if n := len(f.feed.stale); n > minTrim {
			t.Errorf("%d nodes are kept", n)
		}
		f.expectLog()
	})
}
