// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	upstream "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/utils/ptr"
)

func enableGenericWorkload(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.GenericWorkload, true)
}

func inGroup(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(name)}
	}
}

// groupView is a pod group as sorted UIDs.
type groupView struct {
	All, Unscheduled, Assumed, Assigned, Scheduled []string
	AllCount, ScheduledCount                       int
}

func groupViewOf(states fwk.PodGroupStateLister, name string) (*groupView, error) {
	state, err := states.Get("ns", name)
	if err != nil {
		return nil, err
	}
	sorted := func(uids sets.Set[types.UID]) []string {
		var names []string
		for uid := range uids {
			names = append(names, string(uid))
		}
		slices.Sort(names)
		return names
	}
	view := &groupView{
		All: sorted(state.AllPods()), Assumed: sorted(state.AssumedPods()), Assigned: sorted(state.AssignedPods()),
		Unscheduled: slices.Sorted(maps.Keys(state.UnscheduledPods())),
		AllCount:    state.AllPodsCount(), ScheduledCount: state.ScheduledPodsCount(),
	}
	for _, pod := range state.ScheduledPods() {
		view.Scheduled = append(view.Scheduled, fmt.Sprintf("%s %p", pod.UID, pod))
	}
	slices.Sort(view.Scheduled)
	return view, nil
}

func TestPodGroups(t *testing.T) {
	t.Run("without the feature gate there are none", func(t *testing.T) {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.GenericWorkload, false)
		f := newFixture(t, newNode("a", ""))
		f.AddPodGroupMember(newPod("p", "", inGroup("g")))
		f.refresh()
		if _, err := f.PodGroupStates().Get("ns", "g"); err == nil {
			t.Error("the cache has a group")
		}
		if _, err := f.snapshot.PodGroupStates().Get("ns", "g"); err == nil {
			t.Error("the snapshot has a group")
		}
	})

	t.Run("a pod goes from unscheduled to assumed to assigned", func(t *testing.T) {
		enableGenericWorkload(t)
		f := newFixture(t, newNode("a", ""))
		expect := func(states fwk.PodGroupStateLister, unscheduled, assumed, assigned []string) {
			t.Helper()
			view, err := groupViewOf(states, "g")
			if err != nil {
				t.Fatal(err)
			}
			got := [][]string{view.Unscheduled, view.Assumed, view.Assigned}
			if diff := cmp.Diff([][]string{unscheduled, assumed, assigned}, got); diff != "" {
				t.Errorf("unscheduled, assumed and assigned (-want +got):\n%s", diff)
			}
		}
		p, q := newPod("p", "", inGroup("g")), newPod("q", "", inGroup("g"))
		f.AddPodGroupMember(p)
		f.AddPodGroupMember(q)
		expect(f.PodGroupStates(), []string{"p", "q"}, nil, nil)
		f.refresh()
		f.assume(edited(p, onNode("a")))
		expect(f.PodGroupStates(), []string{"q"}, []string{"p"}, nil)
		expect(f.snapshot.PodGroupStates(), []string{"p", "q"}, nil, nil)
		f.refresh()
		expect(f.snapshot.PodGroupStates(), []string{"q"}, []string{"p"}, nil)
		f.must(f.AddPod(quiet, edited(p, onNode("a"))))
		expect(f.PodGroupStates(), []string{"q"}, nil, []string{"p"})
		f.must(f.RemovePod(quiet, p))
		f.RemovePodGroupMember(q)
		f.refresh()
		if _, err := f.snapshot.PodGroupStates().Get("ns", "g"); err == nil {
			t.Error("the snapshot has a group without pods")
		}
	})

	t.Run("a pod that was deleted while it was scheduled does not come back into its group", func(t *testing.T) {
		enableGenericWorkload(t)
		f := newFixture(t, newNode("a", ""))
		pod := newPod("p", "", inGroup("g"))
		f.AddPodGroupMember(pod)
		f.RemovePodGroupMember(pod)
		f.assume(edited(pod, onNode("a")))
		if _, err := f.PodGroupStates().Get("ns", "g"); err == nil {
			t.Error("it has come back")
		}
	})

	t.Run("more changed groups than are kept one by one are all copied", func(t *testing.T) {
		enableGenericWorkload(t)
		f := newFixture(t)
		pods := make([]*corev1.Pod, maxChangedGroups+10)
		for i := range pods {
			pods[i] = newPod(fmt.Sprintf("p%d", i), "", inGroup(fmt.Sprintf("g%d", i)))
			f.AddPodGroupMember(pods[i])
		}
		f.refresh()
		if n := len(f.snapshot.groups); n != len(pods) {
			t.Errorf("%d groups in the snapshot, want %d", n, len(pods))
		}
		for _, pod := range pods {
			f.RemovePodGroupMember(pod)
		}
		if n := len(f.groups.changed); n > maxChangedGroups {
			t.Errorf("%d changed groups are kept", n)
		}
		f.refresh()
		if n := len(f.snapshot.groups); n != 0 {
			t.Errorf("%d groups are left in the snapshot", n)
		}
	})

	t.Run("groups are those of kube-scheduler's cache over random operations", func(t *testing.T) {
		enableGenericWorkload(t)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		testPodGroupsAgainstUpstream(t, rand.New(rand.NewPCG(seed, 0)))
	})
}

func testPodGroupsAgainstUpstream(t *testing.T, random *rand.Rand) {
	ours, oursSnapshot := New(), NewSnapshot()
	theirs, theirsSnapshot := upstream.New(t.Context(), nil, true), upstream.NewEmptySnapshot()
	ours.AddNode(quiet, newNode("a", ""))
	theirs.AddNode(quiet, newNode("a", ""))
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// pods by UID in what state they are.
	states := map[string][]*corev1.Pod{}
	take := func(state string) *corev1.Pod {
		if len(states[state]) == 0 {
			return nil
		}
		i := random.IntN(len(states[state]))
		pod := states[state][i]
		states[state] = slices.Delete(states[state], i, i+1)
		return pod
	}
	put := func(state string, pod *corev1.Pod) { states[state] = append(states[state], pod) }
	for step := range 2000 {
		switch random.IntN(7) {
		case 0:
			pod := newPod(fmt.Sprintf("p%d", step), "", inGroup(fmt.Sprintf("g%d", random.IntN(3))))
			ours.AddPodGroupMember(pod)
			theirs.AddPodGroupMember(pod)
			put("queued", pod)
		case 1:
			if pod := take("queued"); pod != nil {
				assumed := edited(pod, onNode("a"))
				must(ours.AssumePod(quiet, infoOf(assumed)), theirs.AssumePod(quiet, assumed))
				put("assumed", assumed)
			}
		case 2:
			if pod := take("assumed"); pod != nil {
				must(ours.ForgetPod(quiet, pod), theirs.ForgetPod(quiet, pod))
				put("queued", edited(pod, onNode("")))
			}
		case 3:
			if pod := take("assumed"); pod != nil {
				pod = edited(pod)
				must(ours.AddPod(quiet, pod), theirs.AddPod(quiet, pod))
				put("assigned", pod)
			}
		case 4:
			if pod := take("queued"); pod != nil {
				ours.RemovePodGroupMember(pod)
				theirs.RemovePodGroupMember(pod)
			}
		case 5:
			if pod := take([]string{"assumed", "assigned"}[random.IntN(2)]); pod != nil {
				must(ours.RemovePod(quiet, pod), theirs.RemovePod(quiet, pod))
			}
		default:
			if pod := take("queued"); pod != nil {
				updated := edited(pod, running)
				ours.UpdatePodGroupMember(quiet, pod, updated)
				theirs.UpdatePodGroupMember(quiet, pod, updated)
				put("queued", updated)
			}
			if pod := take("assumed"); pod != nil { // the API server has not heard of the node
				waiting := edited(pod, onNode(""))
				ours.UpdatePodGroupMember(quiet, waiting, waiting)
				theirs.UpdatePodGroupMember(quiet, waiting, waiting)
				put("assumed", pod)
			}
		}
		if random.IntN(3) == 0 {
			must(ours.UpdateSnapshot(quiet, oursSnapshot), theirs.UpdateSnapshot(quiet, theirsSnapshot))
		}
		for i := range 3 {
			name := fmt.Sprintf("g%d", i)
			for what, listers := range map[string][2]fwk.PodGroupStateLister{
				"cache": {theirs.PodGroupStates(), ours.PodGroupStates()}, "snapshot": {theirsSnapshot.PodGroupStates(), oursSnapshot.PodGroupStates()},
			} {
				want, errWant := groupViewOf(listers[0], name)
				got, errGot := groupViewOf(listers[1], name)
				if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(errWant) != fmt.Sprint(errGot) {
					t.Fatalf("step %d, group %s in the %s (-theirs +ours), errors %v, %v:\n%s", step, name, what, errWant, errGot, diff)
				}
			}
		}
	}
}
