// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

// TestAPodThatTerminatesDoesNotCountInItsGroup has a group whose pods are replaced while they
// terminate, as those of a Job that is evicted: the new pods must be placed together.
func TestAPodThatTerminatesDoesNotCountInItsGroup(t *testing.T) {
	h := listening(t)
	h.groups = podgroup.NewRegistry()
	h.queue = queue.New(queue.Config{Groups: h.groups})
	key := podgroup.Key{Source: podgroup.SchedulerPlugins, Namespace: "default", Name: "gang"}
	h.groups.SetGroup(podgroup.Group{Key: key, MinMember: 3, Topology: podgroup.Topology{Required: "rack"}})
	member := func(uid types.UID, terminates bool) *corev1.Pod {
		pod := podAt(uid, "1", "n1")
		objects.MemberOf("gang")(pod)
		if terminates {
			pod.ResourceVersion, pod.DeletionTimestamp = "2", &metav1.Time{}
		}
		return pod
	}
	expect := func(what string, want int) {
		t.Helper()
		if got, known := h.groups.Needed(key); !known || got != want {
			t.Errorf("%s: %d pods are needed, want %d", what, got, want)
		}
	}
	for _, uid := range []types.UID{"a", "b", "c"} {
		h.podAdded(member(uid, false))
	}
	expect("all run", 1)
	for _, uid := range []types.UID{"a", "b"} {
		h.podUpdated(member(uid, false), member(uid, true))
	}
	expect("two terminate", 2)
	h.podUpdated(member("b", true), member("b", true))
	expect("one that terminates changes", 2)
	h.podDeleted(member("a", true), false)
	expect("one is gone", 2)
	h.podAdded(member("d", true))
	expect("a pod that terminates is listed at the start", 2)
	bound := member("e", false)
	h.groups.SetAssumed(bound)
	expect("another is assumed", 1)
	h.podAdded(member("e", true))
	expect("it terminates when it is confirmed", 2)
	h.podUpdated(member("e", true), member("e", false))
	expect("its deletion was undone, as when etcd was restored", 1)
	elsewhere := member("e", false)
	elsewhere.Spec.NodeName = "n2"
	h.podUpdated(member("e", false), elsewhere)
	expect("it is on another node", 1)
	if _, on, _ := h.groups.Get(key); !on.Equal(sets.New("n1", "n2")) {
		t.Errorf("the group is on %v", on)
	}
}

// TestAGroupThatReplacesAnotherOne has a group that was deleted and created again while a watch was
// interrupted. The first group was complete once, and may do with fewer pods than it needs.
func TestAGroupThatReplacesAnotherOne(t *testing.T) {
	h := listening(t)
	h.groups = podgroup.NewRegistry()
	h.queue = queue.New(queue.Config{Groups: h.groups})
	groups := &groupHandlers{groups: h.groups, queue: h.queue}
	handler := handlerOfGroups(groups, podgroup.SchedulerPlugins, podgroup.FromObject, groups.changed)
	first, changed, second := objects.PodGroup("gang", 3), objects.PodGroup("gang", 3), objects.PodGroup("gang", 3)
	first.SetUID("first")
	changed.SetUID("first")
	second.SetUID("second")
	handler.OnAdd(first, true)
	pods := map[types.UID]*corev1.Pod{}
	for _, uid := range []types.UID{"a", "b", "c"} {
		pods[uid] = podAt(uid, "1", "n1")
		objects.MemberOf("gang")(pods[uid])
		h.podAdded(pods[uid])
	}
	handler.OnUpdate(first, changed)
	h.podDeleted(pods["b"], false)
	h.podDeleted(pods["c"], false)
	key := podgroup.KeyOf(pods["a"])
	next := podAt("d", "1", "")
	objects.MemberOf("gang")(next)
	handler.OnUpdate(changed, second)
	if h.groups.Excuse(key, 1, slices.Values([]*corev1.Pod{next})) {
		t.Error("the second group, which was never complete, does with two pods")
	}
	if needed, known := h.groups.Needed(key); needed != 2 || !known {
		t.Errorf("%d pods are needed besides the one with a node", needed)
	}
}

// TestAPodThatIsBoundLeavesTheQueueBeforeItsGroup has another component bind a pod of a group that
// waits for one more. The group needs one pod less then, but has one less, too: it must not be
// popped, least of all with the pod that is bound.
func TestAPodThatIsBoundLeavesTheQueueBeforeItsGroup(t *testing.T) {
	h := listening(t)
	h.groups = podgroup.NewRegistry()
	h.groups.SetServed(podgroup.SchedulerPlugins, func() bool { return true }, func() bool { return true })
	h.queue = queue.New(queue.Config{Groups: h.groups})
	h.queue.Reconfigure(eventLogger(), &queue.Settings{Profiles: map[string]*queue.ProfileSettings{"mine": {}}},
		sets.New("mine"))
	h.groups.SetGroup(podgroup.Group{
		Key: podgroup.Key{Source: podgroup.SchedulerPlugins, Namespace: "default", Name: "gang"}, MinMember: 4})
	member := func(uid types.UID, version, node string) *corev1.Pod {
		pod := podAt(uid, version, node)
		objects.MemberOf("gang")(pod)
		return pod
	}
	for _, uid := range []types.UID{"a", "b", "c"} {
		h.podAdded(member(uid, "1", ""))
	}
	h.podUpdated(member("b", "1", ""), member("b", "2", "n1"))
	_, queued := h.queue.Get("b")
	if places := h.places("a", "c"); queued || !slices.Equal(places, []queue.Place{queue.Gated, queue.Gated}) {
		t.Errorf("b is in the queue: %v, a and c are at %v", queued, places)
	}
	h.podAdded(member("d", "1", ""))
	if want := []queue.Place{queue.Active, queue.Active, queue.Active}; !slices.Equal(h.places("a", "c", "d"), want) {
		t.Errorf("with d, the group is at %v", h.places("a", "c", "d"))
	}
}
