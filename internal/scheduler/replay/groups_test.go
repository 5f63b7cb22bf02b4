// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/gang"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/replay/report"
	"github.com/livesched/livesched/internal/scheduler/simulate"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// rack is the key of a label of nodes.
const rack = "example.com/rack"

// worldGang places the pods of a group in a world, as the scheduling loop does.
type worldGang struct {
	*world
	pods []*corev1.Pod
	// assumed and decisions are about the pods.
	assumed   []*corev1.Pod
	decisions []decisionlog.Number
}

var _ gang.Decider = &worldGang{}

// Decide implements gang.Decider.
func (g *worldGang) Decide(_ context.Context, i int, within podgroup.Domain) gang.Outcome {
	g.assumed[i], g.decisions[i] = g.decideWithin(within, g.pods[i], decisionlog.Binding)
	if g.assumed[i] == nil {
		return gang.Outcome{Status: fwk.NewStatus(fwk.Unschedulable)}
	}
	return gang.Outcome{Node: g.assumed[i].Spec.NodeName, Pod: infoOf(g, g.assumed[i])}
}

// Unreserve implements gang.Decider.
func (g *worldGang) Unreserve(_ context.Context, i int) {
	g.log.Finish(g.decisions[i], decisionlog.Unschedulable)
	g.assumed[i] = nil
}

// attempt begins an attempt at a group.
func (w *world) attempt(topology podgroup.Topology, needed int, pods ...*corev1.Pod) (*gang.Attempt, *worldGang) {
	w.Helper()
	g := &worldGang{world: w, pods: pods, assumed: make([]*corev1.Pod, len(pods)),
		decisions: make([]decisionlog.Number, len(pods))}
	overlay, err := w.Cache.BeginOverlay(logr.Discard(), w.Snapshot)
	w.must(err)
	a := &gang.Attempt{
		Group: podgroup.Group{Topology: topology}, Needed: needed, On: sets.New[string](), Profile: w.Profile,
		Overlay: overlay, Decider: g,
		Memory: &gang.Memory{},
	}
	for _, pod := range pods {
		a.Members = append(a.Members, infoOf(w, pod))
	}
	return a, g
}

// placeGroup decides a group. It returns the attempt, after which the pods that fit are assumed if
// they are enough.
func (w *world) placeGroup(topology podgroup.Topology, needed int, pods ...*corev1.Pod) *worldGang {
	w.Helper()
	a, g := w.attempt(topology, needed, pods...)
	if a.Place(w.Context()) {
		w.must(a.Overlay.Commit())
	}
	w.must(a.Overlay.Close())
	for i, pod := range pods {
		if g.assumed[i] != nil {
			w.assumed = append(w.assumed, g.assumed[i])
		} else {
			w.pending = append(w.pending, pod)
		}
	}
	return g
}

// randomGroup decides a random group of pods.
func (w *world) randomGroup() {
	w.Helper()
	pods := make([]*corev1.Pod, 2+w.random.IntN(4))
	for i := range pods {
		pods[i] = w.newPod()
		w.put(pods[i])
	}
	w.placeGroup(pick(w.random, podgroup.Topology{}, podgroup.Topology{Required: rack},
		podgroup.Topology{Preferred: []string{rack}},
		podgroup.Topology{Required: corev1.LabelTopologyZone, Preferred: []string{rack}}), 1+w.random.IntN(len(pods)),
		pods...)
}

// inRacks is a world with two racks of two nodes, and pods that use a port of their node.
func inRacks(t *testing.T, pods int) (*world, []*corev1.Pod) {
	t.Helper()
	w := newWorld(t, 1, sidebyside.FastPath, nil)
	for i := range 4 {
		w.addNode(func(node *corev1.Node) { node.Labels[rack] = []string{"rack-1", "rack-2"}[i/2] })
	}
	group := make([]*corev1.Pod, pods)
	for i := range group {
		group[i] = w.plainPod()
		group[i].Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, Protocol: corev1.ProtocolTCP}}
	}
	return w, group
}

// inOneRack is what the groups of these tests require.
var inOneRack = podgroup.Topology{Required: rack}

// expectReport fails the test if a replay has another result.
func (w *world) expectReport(snapshot *capture.Snapshot, same, different int, left map[report.Reason]int) {
	w.Helper()
	result := w.replay(snapshot)
	if result.Same != same || len(result.Different) != different || !maps.Equal(result.Left, left) {
		w.Errorf("got %+v, want %d the same, %d different, %v", result, same, different, left)
	}
}

func TestAGroupIsDecidedAgainInItsDomain(t *testing.T) {
	w, pods := inRacks(t, 2)
	if w.placeGroup(inOneRack, 2, pods...); len(w.assumed) != 2 {
		t.Fatalf("%d pods fit", len(w.assumed))
	}
	for _, redacted := range []bool{false, true} {
		w.expectReport(w.snapshot(redacted), 2, 0, nil)

		older := w.snapshot(redacted)
		older.Decisions[0].Domain = nil
		w.expectReport(older, 1, 0, map[report.Reason]int{report.InDomain: 1})

		everywhere := w.snapshot(redacted)
		everywhere.Decisions[0].Domain, everywhere.Decisions[0].InDomain = nil, false
		w.expectReport(everywhere, 1, 1, nil)

		elsewhere := w.snapshot(redacted)
		elsewhere.Decisions[1].Domain[0].Value = "nowhere"
		w.expectReport(elsewhere, 1, 1, nil)
	}
}

// TestAGroupThatDidNotFitIsDecidedAgain tries a group of 3 pods in two racks, in each of which 2 of
// them fit. The third one was decided with these two on their nodes.
func TestAGroupThatDidNotFitIsDecidedAgain(t *testing.T) {
	w, pods := inRacks(t, 3)
	if w.placeGroup(inOneRack, 3, pods...); len(w.assumed) != 0 || w.all != 6 {
		t.Fatalf("%d pods fit, after %d decisions", len(w.assumed), w.all)
	}
	w.placeGroup(inOneRack, 2, pods[0], pods[2]) // where they were before, or in the other rack
	for _, redacted := range []bool{false, true} {
		w.expectReport(w.snapshot(redacted), 8, 0, nil)
	}
	w.confirm(w.assumed[1])
	w.expectReport(w.snapshot(false), 8, 0, nil)

	w.must(w.objects.Remove(pods[1]))
	w.expectReport(w.snapshot(false), 4, 0, map[report.Reason]int{report.PodGone: 2, report.Changed: 2})
}

// TestATreeIsDecidedAgain tries a tree of three groups on four nodes, each of which takes one pod.
// Group b needs five, and is taken back: its pods after the first one were decided with pods on
// nodes that are not known, unless it is the first group, whose attempt stands by itself.
func TestATreeIsDecidedAgain(t *testing.T) {
	for order, want := range map[string]struct{ same, changed int }{"abc": {3, 3}, "acb": {3, 2}, "bac": {7, 0}} {
		w, pods := inRacks(t, 7)
		of := map[rune][]*corev1.Pod{'a': pods[:1], 'b': pods[1:6], 'c': pods[6:]}
		tree := &podgroup.Tree{Group: podgroup.Group{Key: podgroup.CompositeKey("default", "root")}, MinGroups: 2}
		leaves := map[podgroup.Key]podgroup.Leaf{}
		for _, name := range order {
			key := podgroup.Key{Source: podgroup.Kubernetes, Namespace: "default", Name: string(name)}
			tree.Children = append(tree.Children, &podgroup.Tree{Group: podgroup.Group{Key: key}})
			leaves[key] = podgroup.Leaf{Missing: len(of[name])}
			for _, pod := range of[name] {
				pod.Namespace = "default"
				objects.InGroup(string(name))(pod)
			}
		}
		a, g := w.attempt(podgroup.Topology{}, 1, pods...)
		a.Tree, a.Leaves, a.Group = tree, leaves, tree.Group
		if !a.Place(t.Context()) || g.assumed[0] == nil || g.assumed[6] == nil || g.assumed[1] != nil {
			t.Fatalf("%s: placed the wrong groups", order)
		}
		w.must(a.Overlay.Commit())
		w.must(a.Overlay.Close())
		w.assumed = append(w.assumed, g.assumed[0], g.assumed[6])
		w.pending = append(w.pending, of['b']...)
		left := map[report.Reason]int{}
		if want.changed > 0 {
			left[report.Changed] = want.changed
		}
		w.expectReport(w.snapshot(false), want.same, 0, left)
	}
}

// TestASnapshotMayBeTakenWhileAGroupIsPlaced takes one when two of three pods have a node, which
// only the attempt knows.
func TestASnapshotMayBeTakenWhileAGroupIsPlaced(t *testing.T) {
	w, pods := inRacks(t, 3)
	a, g := w.attempt(inOneRack, 2, pods[0], pods[1])
	if !a.Place(t.Context()) {
		t.Fatal("two pods do not fit")
	}
	domain := w.log.Last(1)[0].Domain
	if third, _ := w.decideWithin(domain, pods[2], decisionlog.Binding); third != nil {
		t.Fatalf("a third pod fits in %s", domain)
	}
	w.pending = append(w.pending, pods...)
	w.expectReport(w.snapshot(false), 0, 0, nil)
	a.TakeBack(t.Context())
	for _, number := range g.decisions {
		w.log.Finish(number, decisionlog.Unschedulable)
	}
	for _, redacted := range []bool{false, true} {
		w.expectReport(w.snapshot(redacted), 3, 0, nil)
	}
}

// TestAGroupIsNotDecidedAgainAfterAnotherChange adds a node before a group is taken back.
func TestAGroupIsNotDecidedAgainAfterAnotherChange(t *testing.T) {
	w, pods := inRacks(t, 2)
	a, _ := w.attempt(podgroup.Topology{}, 2, pods...)
	if !a.Place(w.Context()) {
		t.Fatal("the pods do not fit")
	}
	w.addNode()
	a.TakeBack(w.Context())
	w.expectReport(w.snapshot(false), 0, 0, map[report.Reason]int{report.Changed: 2})
}

// TestThePodGroupsOfASnapshotAreKnown takes a snapshot with three pending pods of a group, of which
// two fit in a rack.
func TestThePodGroupsOfASnapshotAreKnown(t *testing.T) {
	inGroup := map[podgroup.Source]func(*corev1.Pod){podgroup.SchedulerPlugins: objects.MemberOf("g"),
		podgroup.Kubernetes: objects.InGroup("g")}
	for source, join := range inGroup {
		w, pods := inRacks(t, 5)
		for i, pod := range pods {
			if pod.Namespace = "default"; i < 4 {
				join(pod)
			}
		}
		pods[3].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		snapshot := w.snapshot(false)
		snapshot.Pending = pods
		addGroup(snapshot, source)

		state := w.state(snapshot)
		g := state.Group(pods[0])
		if g == nil || g.Key != podgroup.KeyOf(pods[0]) || g.Needed != 3 || !slices.Equal(g.Pods, pods[:3]) ||
			state.Group(pods[4]) != nil {
			t.Fatalf("source %d: got %+v", source, g)
		}
		k, err := state.Fork(t.Context())
		w.must(err)
		defer k.Close()
		x, err := explain.Explain(t.Context(), k, explain.Pending{Pod: pods[0], Group: g, SuggestFor: time.Minute})
		if err != nil || x.Pending.PodGroup == nil || x.Pending.PodGroup.Fit != 2 || x.Pending.PodGroup.Needed != 3 {
			t.Errorf("source %d: got %+v, %v", source, x, err)
		}
		if got := w.unplaced(snapshot); got != 3 {
			t.Errorf("source %d: %d pods got no node, want the pods of the group", source, got)
		}
		snapshot.Header.ResourceVersions = nil // PodGroups are not served
		if got := w.unplaced(snapshot); got != 0 || w.state(snapshot).Group(pods[0]) != nil {
			t.Errorf("source %d: %d pods without a group got no node", source, got)
		}
	}
}

// TestTheTreesOfASnapshotAreKnown takes a snapshot with a tree of two groups of three pods. Two fit
// in a rack, and four in both.
func TestTheTreesOfASnapshotAreKnown(t *testing.T) {
	w, pods := inRacks(t, 6)
	for i, pod := range pods {
		pod.Namespace = "default"
		objects.InGroup([]string{"a", "b"}[i/3])(pod)
	}
	snapshot := w.snapshot(false)
	snapshot.Pending = pods
	root := objects.CompositePodGroup("root", 2, "")
	snapshot.Objects = append(snapshot.Objects, root)
	for _, name := range []string{"a", "b"} {
		group := objects.KubernetesPodGroup(name, 2, rack)
		group.Spec.ParentCompositePodGroupName = &root.Name
		snapshot.Objects = append(snapshot.Objects, group)
	}
	served := func(kinds ...schema.GroupVersionKind) {
		snapshot.Header.ResourceVersions = map[string]string{}
		for _, kind := range kinds {
			snapshot.Header.ResourceVersions[capture.VersionKey(kind)] = "7"
		}
	}
	served(podgroup.KubernetesAPIs[0].Kind(), podgroup.CompositeKind)
	state := w.state(snapshot)
	g := state.Group(pods[4])
	if g == nil || g.Tree == nil || g.Key != podgroup.CompositeKey("default", "root") || len(g.Pods) != 6 {
		t.Fatalf("got %+v", g)
	}
	k, err := state.Fork(t.Context())
	w.must(err)
	defer k.Close()
	x, err := explain.Explain(t.Context(), k, explain.Pending{Pod: pods[4], Group: g, SuggestFor: time.Minute})
	if err != nil || x.Pending.PodGroup == nil || x.Pending.PodGroup.Fit != 2 || x.Pending.PodGroup.Name != "b" {
		t.Errorf("got %+v, %v", x, err)
	}
	if got := w.unplaced(snapshot); got != 2 { // the third pod of each group
		t.Errorf("%d pods got no node", got)
	}
	root.Spec.SchedulingConstraints = objects.CompositePodGroup("", 0, rack).Spec.SchedulingConstraints
	if got := w.unplaced(snapshot); got != 6 {
		t.Errorf("%d pods got no node, want all of the tree, which has to be in one rack", got)
	}
	served(podgroup.KubernetesAPIs[0].Kind())
	if g := w.state(snapshot).Group(pods[4]); g == nil || g.Tree != nil || len(g.Pods) != 3 {
		t.Errorf("without CompositePodGroups: got %+v", g)
	}
}

// TestPodsOfAGroupOnNodesCount is about a group that needs 3 pods, one of which has a node.
func TestPodsOfAGroupOnNodesCount(t *testing.T) {
	w, pods := inRacks(t, 2)
	for _, pod := range pods {
		objects.MemberOf("g")(pod)
		pod.Namespace = "default"
	}
	snapshot := w.snapshot(false)
	pods[0].Spec.NodeName = "node-4"
	snapshot.Pods, snapshot.Pending = pods[:1], pods[1:]
	addGroup(snapshot, podgroup.SchedulerPlugins)
	if g := w.state(snapshot).Group(pods[1]); g == nil || g.Needed != 2 || !g.On.Equal(sets.New("node-4")) {
		t.Errorf("got %+v", g)
	}
}

// addGroup adds a group of 3 pods that need nodes in one rack.
func addGroup(snapshot *capture.Snapshot, source podgroup.Source) {
	switch source {
	case podgroup.SchedulerPlugins:
		group := &podgroup.Object{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}}
		group.Annotations, group.Spec.MinMember = map[string]string{podgroup.AnnotationRequired: rack}, 3
		snapshot.PodGroups = []*podgroup.Object{group}
		snapshot.Header.ResourceVersions["PodGroup.scheduling.x-k8s.io"] = "1"
	case podgroup.Kubernetes:
		snapshot.Objects = append(snapshot.Objects, objects.KubernetesPodGroup("g", 3, rack))
		snapshot.Header.ResourceVersions["PodGroup.scheduling.k8s.io"] = "1"
	}
}

// unplaced returns how many pods get no node in a simulation of the pending pods without gates.
func (w *world) unplaced(snapshot *capture.Snapshot) int32 {
	w.Helper()
	k, err := w.state(snapshot).Fork(w.Context())
	w.must(err)
	defer k.Close()
	status, err := simulate.Run(w.Context(), k, simulate.Request{
		Pods:    simulate.Selection{Type: v1alpha1.PodsPending, Limit: simulate.MaxPods, Labels: labels.Everything()},
		Pending: snapshot.Pending,
	})
	w.must(err)
	return status.Current.Unplaced
}
