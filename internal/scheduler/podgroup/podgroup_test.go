// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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
			map[string]any{"minMember": int64(3), "scheduleTimeoutSeconds": int64(60)}, map[string]any{"succeeded": int64(2), "phase": "Running"},
			Group{MinMember: 3, Succeeded: 2, Timeout: time.Minute},
		},
		"nothing":     {nil, nil, Group{MinMember: 1}},
		"no sense":    {map[string]any{"minMember": int64(-1), "scheduleTimeoutSeconds": int64(-5)}, map[string]any{"succeeded": int64(-1)}, Group{MinMember: 1}},
		"other types": {map[string]any{"minMember": "three"}, nil, Group{}},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "ml", "name": "train"}}}
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

func TestNoRegistryKnowsNoGroups(t *testing.T) {
	var none *Registry
	none.SetAssumed(podOf("a", "train"))
	none.SetAssigned(podOf("a", "train"))
	none.Undo(podOf("a", "train"))
	none.Forget(podOf("a", "train"))
	if _, _, known := none.Get(train); known || none.Applies() {
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
			switch random.IntN(5) {
			case 0:
				r.SetAssumed(pod)
			case 1:
				r.SetAssigned(pod)
			case 2:
				r.Undo(pod)
			case 3:
				r.Forget(pod)
			case 4:
				r.SetGroup(Group{Key: Key{Namespace: "ml", Name: []string{"train", "empty"}[random.IntN(2)]}, MinMember: 1})
			}
		}
		for _, pod := range pods {
			r.Forget(pod)
		}
		for _, name := range []string{"train", "serve", "empty"} {
			r.DeleteGroup(Key{Namespace: "ml", Name: name})
		}
		if len(r.groups) != 0 {
			t.Fatalf("seed %d: it still has %v", seed, r.groups)
		}
	}
}
