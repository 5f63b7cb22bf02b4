// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/test/objects"
)

// overlay opens an overlay, does random things with it while the cluster changes, and commits it or
// rolls it back.
func (tt *twinTest) overlay() {
	cluster := tt.twin
	o, err := tt.cache.BeginOverlay(quiet, tt.snapshot)
	tt.must(err)
	tt.trying, tt.quietly, tt.twin = true, false, cluster.clone()
	tt.checkSnapshot()
	for range 1 + tt.random.IntN(3) {
		placed, hides := tt.try(o)
		tt.checkSnapshot()

		shown := tt.twin
		tt.twin = cluster
		for range tt.random.IntN(4) {
			tt.step()
		}
		if len(placed) > 0 && tt.random.IntN(4) == 0 {
			tt.stepBindElsewhere(placed[tt.random.IntN(len(placed))])
		}
		tt.must(tt.cache.UpdateSnapshot(quiet, tt.snapshot))
		tt.twin = shown
		tt.checkSnapshot()
		if known := cluster.has(placed); known && !hides {
			tt.did("commit pods that are known")
			if err := o.Commit(); !errors.Is(err, ErrKnownPod) {
				tt.Errorf("committing a pod that is known: got %v", err)
			}
			tt.hits["not committed"]++
			tt.checkSnapshot()
		} else if !hides && tt.random.IntN(2) == 0 {
			tt.did("commit %d pods", len(placed))
			tt.must(o.Commit())
			for _, pod := range placed {
				cluster.pods[pod.UID] = &twinPod{pod: pod, assumed: true}
			}
			tt.hits["committed"] += len(placed)
			break
		}
		tt.did("roll back")
		tt.must(o.Rollback())
		tt.hits["rolled back"]++
		tt.twin.takeBack()
		tt.checkSnapshot()
	}
	tt.must(o.Close())
	tt.trying, tt.quietly, tt.twin = false, false, cluster
}

// has reports whether one of the pods is known, wherever it is.
func (w *twin) has(pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return w.pods[pod.UID] != nil })
}

// takeBack takes the placed pods off, and shows the hidden ones again.
func (w *twin) takeBack() {
	maps.DeleteFunc(w.pods, func(_ types.UID, p *twinPod) bool { return p.placed })
	for _, p := range w.pods {
		p.hidden = false
	}
}

// stepBindElsewhere reports a pod that is placed as bound by another component, on this node or on
// another one.
func (tt *twinTest) stepBindElsewhere(placed *corev1.Pod) {
	if tt.podOf(placed.UID) != nil {
		return
	}
	bound := objects.Edited(placed, running, onNode(tt.pick(placed.Spec.NodeName, tt.nodeName())))
	tt.did("another component binds %s to %s", bound.Name, bound.Spec.NodeName)
	tt.must(tt.cache.AddPod(quiet, bound))
	tt.twin.pods[bound.UID] = &twinPod{pod: bound}
	tt.quietly = false
}

// try places and hides pods. hides reports whether one was hidden.
func (tt *twinTest) try(o *Overlay) (placed []*corev1.Pod, hides bool) {
	isShown := func(p *twinPod) bool { return !p.hidden && tt.twin.nodes[p.pod.Spec.NodeName] != nil }
	for range 1 + tt.random.IntN(8) {
		if p := tt.anyPod(isShown); p != nil && tt.random.IntN(2) == 0 {
			tt.did("hide %s", p.pod.Name)
			tt.must(o.Hide(p.pod))
			tt.must(o.Hide(p.pod)) // it is on no node
			p.hidden, hides = true, true
			tt.hits["hidden"]++
			continue
		}
		if pod := tt.freshPod(); tt.place(o, pod) {
			tt.twin.pods[pod.UID] = &twinPod{pod: pod, assumed: true, placed: true}
			placed = append(placed, pod)
		}
	}
	if p := tt.anyPod(func(p *twinPod) bool { return isShown(p) && !p.placed }); p != nil && tt.random.IntN(3) == 0 {
		tt.hits["placed again"]++
		pod := objects.Edited(p.pod, onNode(tt.pick(p.pod.Spec.NodeName, tt.nodeName())))
		if pod.Spec.NodeName == p.pod.Spec.NodeName {
			tt.did("place %s again", pod.Name)
			if err := o.Place(infoOf(pod), Class{}); !errors.Is(err, ErrKnownPod) {
				tt.Errorf("placing a pod where it is: got %v", err)
			}
		} else if tt.place(o, pod) {
			tt.twin.pods[pod.UID+" elsewhere"] = &twinPod{pod: pod, assumed: true, placed: true}
			placed = append(placed, pod)
		}
	}
	return placed, hides
}

// place places a pod unless its node is unknown.
func (tt *twinTest) place(o *Overlay, pod *corev1.Pod) bool {
	if tt.twin.nodes[pod.Spec.NodeName] == nil {
		if err := o.Place(infoOf(pod), Class{}); !errors.Is(err, ErrUnknownNode) {
			tt.Errorf("placing a pod on no node: got %v", err)
		}
		return false
	}
	tt.did("place %s on %s", pod.Name, pod.Spec.NodeName)
	if tt.random.IntN(2) == 0 {
		tt.must(o.Place(infoOf(pod), Class{}))
	} else {
		tt.must(o.Place(infoOf(pod), Class{ID: 1, Like: infoOf(pod)}))
	}
	return true
}

// TestOnlyTheSnapshotShowsAnOverlay forks and reads the cache while there is an overlay.
func TestOnlyTheSnapshotShowsAnOverlay(t *testing.T) {
	f := newFixture(t, newNode("n", ""))
	victim := newPod("victim", "n")
	f.must(f.AddPod(quiet, victim))
	f.assume(newPod("binding", "n"))
	names := func(s *Snapshot) (pods []string) {
		t.Helper()
		nodes, err := s.NodeInfos().List()
		f.must(err)
		for _, n := range nodes {
			for _, p := range n.GetPods() {
				pods = append(pods, p.GetPod().Name)
			}
		}
		slices.Sort(pods)
		return pods
	}
	o, err := f.BeginOverlay(quiet, f.snapshot)
	f.must(err)
	before := f.Changes()
	f.must(o.Hide(victim))
	f.must(o.Place(infoOf(newPod("member", "n")), Class{}))
	if got := names(f.snapshot); !slices.Equal(got, []string{"binding", "member"}) || f.snapshot.Changes() != before ||
		f.snapshot.Placed() != 1 {
		t.Errorf("the overlay has %v, %d changes more, %d pods placed", got, f.snapshot.Changes()-before,
			f.snapshot.Placed())
	}
	fork, copied := f.Fork(), NewSnapshot()
	f.must(fork.UpdateSnapshot(quiet, copied))
	if got := names(copied); !slices.Equal(got, []string{"binding", "victim"}) || copied.Changes() != before {
		t.Errorf("a fork has %v, and %d changes instead of %d", got, copied.Changes(), before)
	}
	if size := f.Size(); size.Pods != 2 || size.AssumedPods != 1 {
		t.Errorf("the cache has the size %+v", size)
	}
	f.must(o.Close())
	if got := names(f.snapshot); !slices.Equal(got, []string{"binding", "victim"}) || f.snapshot.Changes() != before ||
		f.Changes() != before {
		t.Errorf("after the overlay there are %v, and %d changes instead of %d", got, f.snapshot.Changes(), before)
	}
}

// TestCommitOfAnOverlayAssumesAllOrNone commits a pod that another scheduler has bound meanwhile.
func TestCommitOfAnOverlayAssumesAllOrNone(t *testing.T) {
	f := newFixture(t, newNode("n", ""), newNode("m", ""))
	a, b := newPod("a", "n"), newPod("b", "n")
	o, err := f.BeginOverlay(quiet, f.snapshot)
	f.must(err)
	f.must(o.Place(infoOf(a), Class{}))
	f.must(o.Place(infoOf(b), Class{}))
	f.must(f.AddPod(quiet, objects.Edited(b, onNode("m"))))
	if err := o.Commit(); !errors.Is(err, ErrKnownPod) {
		t.Errorf("the commit: got %v", err)
	}
	if assumed := f.AssumedPods(); len(assumed) > 0 {
		t.Errorf("assumed pods: %v", assumed)
	}
	f.must(o.Rollback())
	f.must(o.Place(infoOf(a), Class{}))
	f.must(o.Commit())
	f.must(o.Close())
	if assumed := f.AssumedPods(); !assumed.Has("a") || len(assumed) != 1 || f.snapshot.Changes()+2 != f.Changes() {
		t.Errorf("assumed pods: %v; %d changes are shown of %d", assumed, f.snapshot.Changes(), f.Changes())
	}
	f.refresh()
	f.expectPods("n", a)
	if f.snapshot.Changes() != f.Changes() {
		t.Errorf("%d changes are shown of %d", f.snapshot.Changes(), f.Changes())
	}
}

// TestAPodIsNotPlacedWhereItIs has an attempt at a pod that another component has bound since it
// left the queue, to the node that the attempt finds, too. Taking back the attempt must not leave
// its object of the pod on the node in place of the one in the cache.
func TestAPodIsNotPlacedWhereItIs(t *testing.T) {
	f := newFixture(t, newNode("n", ""))
	bound, other := newPod("bound", "n"), newPod("other", "n")
	f.must(f.AddPod(quiet, bound))
	o, err := f.BeginOverlay(quiet, f.snapshot)
	f.must(err)
	f.must(o.Place(infoOf(other), Class{}))
	err = o.Place(infoOf(objects.Edited(bound)), Class{})
	if !errors.Is(err, ErrKnownPod) || f.snapshot.Placed() != 1 {
		t.Errorf("placing it: got %v, and %d pods are placed", err, f.snapshot.Placed())
	}
	f.must(o.Close())
	f.refresh()
	f.expectPods("n", bound)
}
