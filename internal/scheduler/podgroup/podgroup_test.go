// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var train = Key{Namespace: "ml", Name: "train"}

func podOf(uid types.UID, group string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: train.Namespace, Name: string(uid), UID: uid}}
	if group != "" {
		pod.Labels = map[string]string{Label: group}
	}
	return pod
}

func TestReadingAnObject(t *testing.T) {
	for name, test := range map[string]struct {
		spec, status map[string]any
		want         Group
	}{
		"everything": {
			map[string]any{"minMember": int64(3), "scheduleTimeoutSeconds": int64(60)},
			map[string]any{"succeeded": int64(2), "phase": "Running"},
			Group{MinMember: 3, Succeeded: 2, Begun: true, Timeout: time.Minute},
		},
		"a run that has ended": {map[string]any{"minMember": int64(3)}, map[string]any{"succeeded": int64(3)},
			Group{MinMember: 3, Begun: true}},
		"nothing": {nil, nil, Group{MinMember: 1}},
		"no sense": {map[string]any{"minMember": int64(-1), "scheduleTimeoutSeconds": int64(-5)},
			map[string]any{"succeeded": int64(-1)}, Group{MinMember: 1}},
		"other types": {map[string]any{"minMember": "three"}, nil, Group{}},
	} {
		u := &unstructured.Unstructured{
			Object: map[string]any{"metadata": map[string]any{"namespace": "ml", "name": "train"}}}
		if test.spec != nil {
			u.Object["spec"] = test.spec
		}
		if test.status != nil {
			u.Object["status"] = test.status
		}
		got, err := FromObject(u)
		if test.want.MinMember == 0 {
			if err == nil {
				t.Errorf("%s: it was read as %+v", name, got)
			}
			continue
		}
		test.want.Key = train
		if err != nil || !cmp.Equal(got, test.want) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, test.want)
		}
	}
}

func TestTheModeOfDisruption(t *testing.T) {
	for mode, want := range map[string]Group{
		"":         {MinMember: 1},
		"Pod":      {MinMember: 1},
		"PodGroup": {MinMember: 1, EvictedWhole: true},
		"podgroup": {MinMember: 1,
			Problem: `annotation livesched.io/disruption-mode: "podgroup" is neither Pod nor PodGroup`},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"namespace": "ml", "name": "train", "annotations": map[string]any{AnnotationDisruptionMode: mode},
		}}}
		want.Key = train
		if got, err := FromObject(u); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q: got %+v, %v, want %+v", mode, got, err, want)
		}
	}
}

func TestReadingAPodGroupOfKubernetes(t *testing.T) {
	gang := schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 3}}
	basic := schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
	near := &schedulingv1beta1.PodGroupSchedulingConstraints{
		Topology: []schedulingv1beta1.TopologyConstraint{{Key: "rack"}}}
	for name, test := range map[string]struct {
		spec schedulingv1beta1.PodGroupSpec
		want Group
	}{
		"a gang": {schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gang}, Group{MinMember: 3}},
		"a gang in a rack": {schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gang, SchedulingConstraints: near},
			Group{MinMember: 3, Topology: Topology{Required: "rack"}}},
		"a priority, and evicted whole": {
			schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gang, Priority: ptr.To[int32](7),
				DisruptionMode:   &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}},
				PreemptionPolicy: ptr.To(schedulingv1beta1.PreemptNever)},
			Group{MinMember: 3, Priority: ptr.To[int32](7), EvictedWhole: true,
				PreemptionPolicy: ptr.To(corev1.PreemptNever)},
		},
		"evicted one by one": {
			schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gang,
				DisruptionMode: &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}},
			Group{MinMember: 3},
		},
		"no gang": {schedulingv1beta1.PodGroupSpec{SchedulingPolicy: basic},
			Group{MinMember: 1, OneByOne: true}},
		"no gang, but a rack": {schedulingv1beta1.PodGroupSpec{SchedulingPolicy: basic, SchedulingConstraints: near},
			Group{MinMember: 1, Topology: Topology{Required: "rack"}}},
		"constraints of nought": {schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gang,
			SchedulingConstraints: &schedulingv1beta1.PodGroupSchedulingConstraints{}}, Group{MinMember: 3}},
	} {
		test.want.Key = Key{Source: Kubernetes, Namespace: train.Namespace, Name: train.Name}
		got := FromPodGroup(&schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: train.Namespace,
			Name: train.Name}, Spec: test.spec})
		if !cmp.Equal(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

func TestReadingTheVersionsOfKubernetesPodGroups(t *testing.T) {
	const later, condition = `{"all":{}}, "workloadRef": {"workloadName": "w"}`, "PodGroupInitiallyScheduled"
	for version, test := range map[string]struct{ mode, condition string }{
		"v1":       {later, condition},
		"v1beta1":  {later, condition},
		"v1alpha2": {`"PodGroup"`, "PodGroupScheduled"},
	} {
		var object unstructured.Unstructured
		if err := json.Unmarshal(fmt.Appendf(nil, `{
			"apiVersion": "scheduling.k8s.io/%s", "kind": "PodGroup", "metadata": {"namespace": "ml", "name": "train"},
			"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}, "priority": 7, "disruptionMode": %s},
			"status": {"conditions": [{"type": "%s", "status": "True"}]}
		}`, version, test.mode, test.condition), &object); err != nil {
			t.Fatal(err)
		}
		before := object.DeepCopy()
		got, err := FromKubernetes(&object)
		want := Group{Key: Key{Source: Kubernetes, Namespace: "ml", Name: "train"},
			APIVersion: "scheduling.k8s.io/" + version, MinMember: 3, Begun: true, Priority: ptr.To[int32](7),
			EvictedWhole: true}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, (-want +got):\n%s", version, err, diff)
		}
		if diff := cmp.Diff(before, &object); diff != "" {
			t.Errorf("%s has changed the object of the informer: %s", version, diff)
		}
	}
	for version, mode := range map[string]any{"v1beta1": map[string]any{}, "v1alpha2": "Some"} {
		unknown := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduling.k8s.io/" + version,
			"spec": map[string]any{"disruptionMode": mode}}}
		if _, err := FromKubernetes(unknown); err == nil {
			t.Errorf("%s: the disruption mode %v is read", version, mode)
		}
	}
}

func TestTheGroupOfAPod(t *testing.T) {
	both := podOf("a", "train")
	both.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("serve")}
	native := podOf("b", "")
	native.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("train")}
	for pod, want := range map[*corev1.Pod]Key{
		podOf("c", ""):      {},
		podOf("d", "train"): train,
		native:              {Source: Kubernetes, Namespace: "ml", Name: "train"},
		both:                {Source: Kubernetes, Namespace: "ml", Name: "serve"},
	} {
		if got := KeyOf(pod); got != want {
			t.Errorf("pod %s belongs to %+v, want %+v", pod.Name, got, want)
		}
	}
}

// TestGetOfALargeGroup has a group of many pods with nodes, to which pods come one after the other.
func TestGetOfALargeGroup(t *testing.T) {
	r := NewRegistry()
	const pods = 1000
	for i := range pods {
		name := fmt.Sprint("pod-", i)
		r.SetAssigned(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: train.Namespace, Name: name, UID: types.UID(name),
				Labels: map[string]string{Label: train.Name}},
			Spec: corev1.PodSpec{NodeName: "node of " + name},
		})
	}
	for required, want := range map[string]int{"rack": pods, "": 0} {
		r.SetGroup(Group{Key: train, MinMember: 1, Topology: Topology{Required: required}})
		if _, nodes, known := r.Get(train); !known || nodes.Len() != want {
			t.Errorf("required topology %q: got %d nodes, want %d", required, nodes.Len(), want)
		}
	}
	r.SetGroup(Group{Key: train, MinMember: 1})
	if allocs := testing.AllocsPerRun(10, func() { r.Get(train) }); allocs > 0 {
		t.Errorf("without a topology, a call makes %v allocations", allocs)
	}
}

func TestEachSourceAppliesByItself(t *testing.T) {
	r := NewRegistry()
	native := Key{Source: Kubernetes, Namespace: train.Namespace, Name: train.Name}
	served := false
	r.SetServed(Kubernetes, func() bool { return served }, nil)
	if r.Applies(native) || r.Applies(train) {
		t.Error("a group applies that is not served")
	}
	served = true
	if !r.Applies(native) || r.Applies(train) {
		t.Error("not only the groups of Kubernetes apply")
	}
	r.SetGroup(Group{Key: native, MinMember: 2})
	if _, known := r.Needed(train); known {
		t.Error("one source knows the groups of the other")
	}
	if r.OneByOne(native) || r.OneByOne(train) {
		t.Error("pods are scheduled one by one without being told to")
	}
	r.SetGroup(Group{Key: native, MinMember: 1, OneByOne: true})
	if !r.OneByOne(native) {
		t.Error("pods are not scheduled one by one")
	}
}

func TestWhichChangesOfAGroupMatter(t *testing.T) {
	r := NewRegistry()
	for _, step := range []struct {
		when  string
		group Group
		want  bool
	}{
		{"it is new", Group{MinMember: 4}, true},
		{"it is the same", Group{MinMember: 4}, false},
		{"it needs more pods", Group{MinMember: 5}, false},
		{"it needs fewer pods", Group{MinMember: 3}, true},
		{"its pods are tried one by one", Group{MinMember: 3, OneByOne: true}, true},
		{"it has a topology", Group{MinMember: 3, Topology: Topology{Required: "rack"}}, true},
		{"it has a priority", Group{MinMember: 3, Topology: Topology{Required: "rack"}, Priority: ptr.To[int32](5)},
			true},
		{"it cannot be used", Group{MinMember: 3, Problem: "wrong"}, true},
	} {
		step.group.Key = train
		if got := r.SetGroup(step.group); got != step.want {
			t.Errorf("%s: got %v", step.when, got)
		}
	}
	r.SetAssigned(podOf("a", "train"))
	r.DeleteGroup(train)
	if !r.SetGroup(Group{Key: train, MinMember: 3, Problem: "wrong"}) {
		t.Error("a group that is created again does not matter")
	}
}

func TestWhatAGroupNeeds(t *testing.T) {
	r := NewRegistry()
	expect := func(when string, needed int, known bool) {
		t.Helper()
		if n, k := r.Needed(train); n != needed || k != known {
			t.Errorf("%s: %d are needed, %v, want %d, %v", when, n, k, needed, known)
		}
	}
	expect("there is no group", 0, false)
	r.SetAssigned(podOf("a", "train"))
	expect("there is a pod", 0, false)
	r.SetGroup(Group{Key: train, MinMember: 4})
	expect("one of four", 3, true)
	r.SetAssigned(podOf("b", "other"))
	r.SetAssigned(podOf("c", ""))
	expect("pods of no concern", 3, true)
	r.SetAssumed(podOf("b", "train"))
	expect("two of four", 2, true)
	r.Undo(podOf("b", "train"))
	expect("one was not bound", 3, true)
	r.SetAssumed(podOf("b", "train"))
	if key := r.SetAssigned(podOf("b", "train")); key != (Key{}) {
		t.Errorf("a pod that was assumed is news for %v", key)
	}
	r.Undo(podOf("b", "train"))
	expect("one was bound nevertheless", 2, true)
	r.SetGroup(Group{Key: train, MinMember: 4, Succeeded: 1})
	expect("one has succeeded", 1, true)
	r.SetGroup(Group{Key: train, MinMember: 2, Succeeded: 1})
	expect("it has more than it needs", 1, true)
	r.Forget(podOf("a", "train"))
	r.Forget(podOf("b", "train"))
	r.SetGroup(Group{Key: train, MinMember: 4})
	expect("all are gone", 4, true)
	r.DeleteGroup(train)
	expect("the group is gone", 0, false)
}

// TestAPodThatChangesItsGroup has pods whose label changes between the calls about them: none
// counts in two groups, or in one that it has left.
func TestAPodThatChangesItsGroup(t *testing.T) {
	for name, last := range map[string]func(r *Registry, now *corev1.Pod){
		"it is gone":                func(r *Registry, now *corev1.Pod) { r.Forget(now) },
		"it was not bound":          func(r *Registry, now *corev1.Pod) { r.Undo(now) },
		"its binding is confirmed":  func(r *Registry, now *corev1.Pod) { r.SetAssigned(now) },
		"it is placed another time": func(r *Registry, now *corev1.Pod) { r.SetAssumed(now) },
	} {
		r := NewRegistry()
		r.SetGroup(Group{Key: train, MinMember: 4})
		r.SetAssumed(podOf("a", "train"))
		last(r, podOf("a", "serve"))
		if needed, _ := r.Needed(train); needed != 4 {
			t.Errorf("%s: %d pods are needed", name, needed)
		}
	}
	r := NewRegistry()
	r.SetGroup(Group{Key: train, MinMember: 4})
	r.SetAssumed(podOf("a", "train"))
	r.SetAssigned(podOf("a", ""))
	if needed, _ := r.Needed(train); needed != 4 {
		t.Errorf("it has left: %d pods are needed", needed)
	}
}

// TestPodsThatWillNotComeAgain has a group that was complete, and lacks pods since.
func TestPodsThatWillNotComeAgain(t *testing.T) {
	job := func(uid, owner types.UID) *corev1.Pod {
		pod := podOf(uid, "train")
		if owner != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{UID: owner, Controller: ptr.To(true)}}
		}
		return pod
	}
	running := func(r *Registry, uids ...types.UID) {
		for _, uid := range uids {
			r.SetAssigned(job(uid, "job"))
		}
	}
	assumed := func(r *Registry, uids ...types.UID) {
		for _, uid := range uids {
			r.SetAssumed(job(uid, "job"))
		}
	}
	undone := func(r *Registry, uids ...types.UID) {
		for _, uid := range uids {
			r.Undo(job(uid, "job"))
		}
	}
	gone := func(r *Registry, uids ...types.UID) {
		for _, uid := range uids {
			r.Forget(job(uid, "job"))
		}
	}
	for name, test := range map[string]struct {
		before func(r *Registry)
		ready  []*corev1.Pod
		want   int // pods that are needed then
	}{
		"it was never complete": {func(r *Registry) { running(r, "a", "b") },
			[]*corev1.Pod{job("x", "job")}, 2},
		"one has succeeded, one is again": {func(r *Registry) { running(r, "a", "b", "c", "d"); gone(r, "a", "b") },
			[]*corev1.Pod{job("x", "job")}, 1},
		"all but one have succeeded": {
			func(r *Registry) { running(r, "a", "b", "c", "d"); gone(r, "a", "b", "c", "d") },
			[]*corev1.Pod{job("x", "job")}, 1},
		"two are there": {func(r *Registry) { running(r, "a", "b", "c", "d"); gone(r, "a", "b", "c") },
			[]*corev1.Pod{job("x", "job"), job("y", "job")}, 2},
		"another run": {func(r *Registry) { running(r, "a", "b", "c", "d"); gone(r, "a", "b", "c", "d") },
			[]*corev1.Pod{job("x", "next job")}, 4},
		"a pod without an owner": {func(r *Registry) { running(r, "a", "b", "c", "d"); gone(r, "a", "b") },
			[]*corev1.Pod{job("x", "")}, 2},
		"after a restart": {
			func(r *Registry) { r.DeleteGroup(train); r.SetGroup(Group{Key: train, MinMember: 4, Begun: true}) },
			[]*corev1.Pod{job("x", "job")}, 1,
		},
		"the object is new": {
			func(r *Registry) {
				running(r, "a", "b", "c", "d")
				gone(r, "a", "b")
				r.DeleteGroup(train)
				r.SetGroup(Group{Key: train, MinMember: 4})
			}, []*corev1.Pod{job("x", "job")}, 2,
		},
		"the minimum was raised": {
			func(r *Registry) { running(r, "a", "b", "c", "d"); r.SetGroup(Group{Key: train, MinMember: 6}) },
			[]*corev1.Pod{job("x", "job")}, 2,
		},
		"not all were bound, all were taken back": {
			func(r *Registry) { assumed(r, "a", "b", "c", "d"); gone(r, "a"); undone(r, "b", "c", "d") },
			[]*corev1.Pod{job("b", "job"), job("c", "job")}, 4,
		},
		"one was not bound": {
			func(r *Registry) {
				assumed(r, "a", "b", "c", "d")
				running(r, "a", "b", "c")
				undone(r, "d")
				gone(r, "c")
			},
			[]*corev1.Pod{job("d", "job")}, 2,
		},
		"one more than needed was not bound": {
			func(r *Registry) {
				assumed(r, "a", "b", "c", "d", "e")
				undone(r, "e")
				running(r, "a", "b", "c", "d")
				gone(r, "a", "b")
			}, []*corev1.Pod{job("e", "job")}, 1,
		},
		"one more was not bound later": {
			func(r *Registry) {
				running(r, "a", "b", "c", "d")
				assumed(r, "e")
				undone(r, "e")
				gone(r, "a", "b")
			}, []*corev1.Pod{job("e", "job")}, 1,
		},
		"some ended before the last was confirmed": {
			func(r *Registry) {
				assumed(r, "a", "b", "c", "d")
				running(r, "a", "b")
				gone(r, "a", "b")
				running(r, "c", "d")
			}, []*corev1.Pod{job("x", "job")}, 1,
		},
		"nobody is there": {func(r *Registry) { running(r, "a", "b", "c", "d"); gone(r, "a", "b") }, nil, 2},
	} {
		r := NewRegistry()
		r.SetGroup(Group{Key: train, MinMember: 4})
		test.before(r)
		before, _ := r.Needed(train)
		excused := r.Excuse(train, len(test.ready), slices.Values(test.ready))
		if needed, _ := r.Needed(train); needed != test.want || excused != (needed < before) {
			t.Errorf("%s: %d pods are needed, want %d; excused: %v", name, needed, test.want, excused)
		}
	}

	r := NewRegistry()
	r.SetGroup(Group{Key: train, MinMember: 4})
	running(r, "a", "b", "c", "d")
	gone(r, "a", "b")
	r.Excuse(train, 1, slices.Values([]*corev1.Pod{job("x", "job")}))
	running(r, "x")
	gone(r, "x", "c")
	if needed, _ := r.Needed(train); needed != 2 {
		t.Errorf("two more are gone: %d are needed, want 2 with the one that is excused", needed)
	}
	gone(r, "d")
	if needed, _ := r.Needed(train); needed != 4 {
		t.Errorf("all are gone: %d are needed, want all", needed)
	}
}

func TestNoRegistryKnowsNoGroups(t *testing.T) {
	var none *Registry
	none.SetAssumed(podOf("a", "train"))
	none.SetAssigned(podOf("a", "train"))
	none.Undo(podOf("a", "train"))
	none.Forget(podOf("a", "train"))
	if _, _, known := none.Get(train); known || none.Applies(train) {
		t.Error("it knows a group")
	}
}

// TestTheRegistryForgets makes random calls, and takes all of them back.
func TestTheRegistryForgets(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		r := NewRegistry()
		var pods []*corev1.Pod
		for i := range 100 {
			pods = append(pods, podOf(types.UID(rune('a'+i)), []string{"", "train", "serve"}[random.IntN(3)]))
		}
		for range 400 {
			pod := pods[random.IntN(len(pods))]
			switch random.IntN(7) {
			case 5:
				relabelled := podOf(pod.UID, []string{"", "train", "serve"}[random.IntN(3)])
				pods[slices.Index(pods, pod)] = relabelled
			case 6:
				r.Excuse(train, random.IntN(3), slices.Values([]*corev1.Pod{pod}))
			case 0:
				r.SetAssumed(pod)
			case 1:
				r.SetAssigned(pod)
			case 2:
				r.Undo(pod)
			case 3:
				r.Forget(pod)
			case 4:
				r.SetGroup(Group{Key: Key{Namespace: "ml", Name: []string{"train", "empty"}[random.IntN(2)]},
					MinMember: 1 + random.IntN(40),
					Topology:  Topology{Required: []string{"", "rack", "zone"}[random.IntN(3)]}})
			}
			placed := 0
			for key, s := range r.groups {
				placed += len(s.placed)
				unconfirmed := 0
				for uid, p := range s.placed {
					unconfirmed += only(p.from, assumed)
					if r.counted[uid] != key {
						t.Fatalf("seed %d: pod %s counts in %v and in %v", seed, uid, key, r.counted[uid])
					}
				}
				if unconfirmed != s.unconfirmed {
					t.Fatalf("seed %d: %d pods of %v are unconfirmed, counted %d", seed, unconfirmed, key,
						s.unconfirmed)
				}
			}
			if placed != len(r.counted) {
				t.Fatalf("seed %d: %d pods are placed in groups, and %d count", seed, placed, len(r.counted))
			}
		}
		for _, pod := range pods {
			r.Forget(pod)
		}
		for _, name := range []string{"train", "serve", "empty"} {
			r.DeleteGroup(Key{Namespace: "ml", Name: name})
		}
		if len(r.groups)+len(r.required) != 0 {
			t.Fatalf("seed %d: it still has %v and %v", seed, r.groups, r.required)
		}
	}
}

func TestRequiredTopologyChanged(t *testing.T) {
	r := NewRegistry()
	key := Key{Namespace: "ns", Name: "g"}
	a, b, none := map[string]string{"rack": "a"}, map[string]string{"rack": "b"}, map[string]string{"zone": "z"}
	expect := func(before, after map[string]string, want bool, why string) {
		t.Helper()
		if got := r.RequiredTopologyChanged(key, before, after); got != want {
			t.Errorf("%s: got %v", why, got)
		}
		if got := r.AnyRequiredTopologyChanged(before, after); got != want {
			t.Errorf("%s: got %v for any group", why, got)
		}
	}
	expect(a, b, false, "nothing is known about the group")

	r.SetGroup(Group{Key: key, MinMember: 2, Topology: Topology{Required: "rack", Preferred: []string{"zone"}}})
	expect(a, a, false, "the same value")
	expect(a, b, true, "another value")
	expect(a, none, true, "the label was removed")
	expect(none, map[string]string{"rack": ""}, true, "the label was added")
	expect(nil, none, false, "a preferred label keeps no group from a node")

	r.SetGroup(Group{Key: key, MinMember: 2})
	expect(a, b, false, "the group requires no label any more")

	r.SetGroup(Group{Key: key, MinMember: 2, Topology: Topology{Required: "rack"}})
	r.DeleteGroup(key)
	expect(a, b, false, "the group is gone")
}

// Only what changes Victims changes the version.
func TestTheVersionOfVictims(t *testing.T) {
	native := Key{Source: Kubernetes, Namespace: "ml", Name: "g"}
	custom := Key{Namespace: "ml", Name: "g"}
	var none *Registry
	if none.VictimsVersion() != 0 {
		t.Error("without a registry there is a version")
	}
	r := NewRegistry()
	for _, step := range []struct {
		name    string
		do      func()
		changes bool
		victims int
	}{
		{"a group of scheduler-plugins", func() { r.SetGroup(Group{Key: custom, MinMember: 1}) }, false, 0},
		{"its status", func() { r.SetGroup(Group{Key: custom, MinMember: 1, Succeeded: 1}) }, false, 0},
		{"it is evicted whole", func() { r.SetGroup(Group{Key: custom, MinMember: 1, EvictedWhole: true}) }, true, 1},
		{"its minimum", func() { r.SetGroup(Group{Key: custom, MinMember: 2, EvictedWhole: true}) }, false, 1},
		{"a group of Kubernetes", func() { r.SetGroup(Group{Key: native, MinMember: 1}) }, true, 2},
		{"its priority", func() { r.SetGroup(Group{Key: native, MinMember: 1, Priority: ptr.To[int32](1)}) }, true, 2},
		{"its policy", func() {
			r.SetGroup(Group{Key: native, MinMember: 1, Priority: ptr.To[int32](1),
				PreemptionPolicy: ptr.To(corev1.PreemptNever)})
		}, true, 2},
		{"it is gone", func() { r.DeleteGroup(native) }, true, 1},
		{"it is gone again", func() { r.DeleteGroup(native) }, false, 1},
		{"no whole group is left", func() { r.SetGroup(Group{Key: custom, MinMember: 1}) }, true, 0},
	} {
		before := r.VictimsVersion()
		step.do()
		groups, version := r.Victims()
		if version != r.VictimsVersion() || (version != before) != step.changes || len(groups) != step.victims {
			t.Errorf("%s: version %d after %d, groups %v", step.name, version, before, groups)
		}
	}
}
