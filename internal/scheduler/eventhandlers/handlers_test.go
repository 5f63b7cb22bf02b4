// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

func TestHandlerOf(t *testing.T) {
	type event struct {
		what  string
		pod   string
		stale bool
	}
	var got []event
	handler := handlerOf(
		func(pod *corev1.Pod) { got = append(got, event{"added", pod.Name, false}) },
		func(_, pod *corev1.Pod) { got = append(got, event{"updated", pod.Name, false}) },
		func(pod *corev1.Pod, stale bool) { got = append(got, event{"deleted", pod.Name, stale}) })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
	node := &corev1.Node{}

	handler.OnAdd(pod, true)
	handler.OnUpdate(pod, pod)
	handler.OnDelete(pod)
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "default/pod", Obj: pod})
	// Objects that an informer must not deliver are logged, and nothing else.
	handler.OnAdd(node, false)
	handler.OnUpdate(pod, node)
	handler.OnUpdate(node, pod)
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "node", Obj: node})
	handler.OnDelete(nil)

	want := []event{{"added", "pod", false}, {"updated", "pod", false}, {"deleted", "pod", false},
		{"deleted", "pod", true}}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got[i], want[i])
		}
	}
}

func listening(t *testing.T) *handlers {
	t.Helper()
	schedmetrics.Register()
	s := &handlers{cache: cache.New(), queue: queue.New(queue.Config{}), waiting: framework.NewWaitingPods(),
		preBinding: framework.NewPodsInPreBind()}
	s.queue.Reconfigure(logr.Discard(), &queue.Settings{Profiles: map[string]*queue.ProfileSettings{"mine": {}}},
		sets.New("mine"))
	return s
}

func (h *handlers) places(uids ...types.UID) []queue.Place {
	var places []queue.Place
	for _, uid := range uids {
		state, _ := h.queue.Get(uid)
		places = append(places, state.Place)
	}
	return places
}

func podAt(uid types.UID, version, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: uid, ResourceVersion: version},
		Spec:       corev1.PodSpec{SchedulerName: "mine", NodeName: node},
	}
}

// assumedCopy returns a popped pod with its node, as the scheduling cycle makes it.
func assumedCopy(popped *schedframework.QueuedPodInfo, node string) *schedframework.QueuedPodInfo {
	assumed := popped.DeepCopy()
	assumed.Pod.Spec.NodeName = node
	return assumed
}

// assume pops the pod and assumes it on the node.
func (h *handlers) assume(t *testing.T, pod *corev1.Pod, node string) *corev1.Pod {
	t.Helper()
	h.podAdded(pod)
	popped := h.queue.Pop(logr.Discard()).Pod
	assumed := assumedCopy(popped, node)
	if err := h.cache.AssumePod(logr.Discard(), assumed.PodInfo); err != nil {
		t.Fatal(err)
	}
	return assumed.Pod
}

func TestPodEvents(t *testing.T) {
	nowhere := queue.Place(0)

	t.Run("a pending pod is queued, an assigned one is counted on its node", func(t *testing.T) {
		s := listening(t)
		s.podAdded(podAt("a", "1", ""))
		s.podAdded(podAt("b", "1", "n1"))
		if p := s.places("a", "b"); p[0] != queue.Active || p[1] != nowhere || s.cache.Size().Pods != 1 {
			t.Errorf("in the queue: %v, in the cache: %d", p, s.cache.Size().Pods)
		}
	})

	t.Run("a queued pod that another client bound leaves the queue", func(t *testing.T) {
		s := listening(t)
		s.podAdded(podAt("a", "1", ""))
		s.podUpdated(podAt("a", "1", ""), podAt("a", "2", "n1"))
		if p := s.places("a"); p[0] != nowhere || s.cache.Size().Pods != 1 {
			t.Errorf("in the queue: %v, in the cache: %d", p, s.cache.Size().Pods)
		}
	})

	t.Run("an update with the version that is known does not queue an assumed or bound pod again", func(t *testing.T) {
		s := listening(t)
		pod := podAt("a", "1", "")
		s.assume(t, pod, "n1")
		s.queue.Done("a")
		s.podUpdated(pod, pod)
		s.podUpdated(pod, podAt("a", "2", ""))
		if p := s.places("a"); p[0] != nowhere {
			t.Errorf("in the queue: %v", p)
		}
	})

	t.Run("an assumed pod that is being deleted frees its room immediately", func(t *testing.T) {
		s := listening(t)
		pod := podAt("a", "1", "")
		s.assume(t, pod, "n1")
		deleting := podAt("a", "2", "")
		deleting.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		s.podUpdated(pod, deleting)
		if n := s.cache.Size().Pods; n != 0 {
			t.Errorf("%d pods are counted", n)
		}
		s.podDeleted(deleting, false) // nothing is left to release
	})

	t.Run("even if its profile was deleted", func(t *testing.T) {
		s := listening(t)
		pod := podAt("a", "1", "")
		s.assume(t, pod, "n1")
		s.queue.Done("a")
		s.queue.Reconfigure(logr.Discard(), &queue.Settings{}, sets.New("mine"))
		s.podDeleted(pod, false)
		if n := s.cache.Size().Pods; n != 0 {
			t.Errorf("%d pods are counted", n)
		}
	})

	t.Run("the update of an assumed pod counts if the pod is rejected later", func(t *testing.T) {
		s := listening(t)
		hint := queue.HintMap{{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}: {{Plugin: "Rejector"}}}
		s.queue.Reconfigure(logr.Discard(),
			&queue.Settings{Profiles: map[string]*queue.ProfileSettings{"mine": {Hints: hint}}}, nil)
		pod, newer := podAt("a", "1", ""), podAt("a", "2", "")
		newer.Labels = map[string]string{"now": "yes"}
		s.podAdded(pod)
		popped := s.queue.Pop(logr.Discard()).Pod
		assumed := assumedCopy(popped, "n1")
		if err := s.cache.AssumePod(logr.Discard(), assumed.PodInfo); err != nil {
			t.Fatal(err)
		}
		s.podUpdated(pod, newer)
		if err := s.cache.ForgetPod(logr.Discard(), assumed.Pod); err != nil {
			t.Fatal(err)
		}
		assumed.UnschedulablePlugins = sets.New("Rejector")
		if _, err := s.queue.Requeue(logr.Discard(), assumed, nil); err != nil {
			t.Fatal(err)
		}
		if p := s.places("a"); p[0] != queue.Active {
			t.Errorf("it is %v", p)
		}
	})

	for name, stale := range map[string]bool{"a pod that waits on Permit is rejected when it is deleted": false,
		"also when the informer missed that": true} {
		t.Run(name, func(t *testing.T) {
			s := listening(t)
			pod := podAt("a", "1", "")
			assumed := s.assume(t, pod, "n1")
			s.waiting.Add(assumed, map[string]time.Duration{"gate": time.Hour})
			s.podDeleted(pod, stale)
			if s.waiting.Reject("a") {
				t.Error("it still waited")
			}
			if n := s.cache.Size().Pods; n != 1 {
				t.Errorf("%d pods are counted: its binding cycle gives its room back", n)
			}
		})
	}

	t.Run("a pod of a group is cancelled at the barrier when it is deleted, and others in PreBind are not",
		func(t *testing.T) {
			s := listening(t)
			member, single := podAt("a", "1", ""), podAt("b", "1", "")
			objects.MemberOf("g")(member)
			for _, pod := range []*corev1.Pod{member, single} {
				s.assume(t, pod, "n1")
				ctx, cancel := context.WithCancelCause(t.Context())
				s.preBinding.Add(pod.UID, cancel)
				s.podDeleted(pod, false)
				if err := context.Cause(ctx); (err != nil) != (pod == member) || err != nil &&
					err.Error() != "the pod was deleted" {
					t.Errorf("the context of %s ended with %v", pod.UID, err)
				}
			}
			if n := s.cache.Size().Pods; n != 0 {
				t.Errorf("%d pods are counted: its plugins may not return", n)
			}
		})

	t.Run("a stale object does not keep a pod counted that was bound since", func(t *testing.T) {
		s := listening(t)
		s.podAdded(podAt("a", "2", "n1"))
		s.podDeleted(podAt("a", "1", ""), true)
		if n := s.cache.Size().Pods; n != 0 {
			t.Errorf("%d pods are counted", n)
		}
	})

	t.Run("a bound pod that is pending again, as after a restore of etcd, is queued", func(t *testing.T) {
		s := listening(t)
		s.podAdded(podAt("a", "2", "n1"))
		s.podUpdated(podAt("a", "2", "n1"), podAt("a", "3", ""))
		if p := s.places("a"); p[0] != queue.Active || s.cache.Size().Pods != 0 {
			t.Errorf("in the queue: %v, in the cache: %d", p, s.cache.Size().Pods)
		}
	})

	t.Run("a pod that is created again with its name is another pod", func(t *testing.T) {
		s := listening(t)
		s.podAdded(podAt("a", "1", "n1"))
		s.podUpdated(podAt("a", "1", "n1"), podAt("b", "2", ""))
		if p := s.places("a", "b"); p[0] != nowhere || p[1] != queue.Active || s.cache.Size().Pods != 0 {
			t.Errorf("in the queue: %v, in the cache: %d", p, s.cache.Size().Pods)
		}
	})
}

// helpsIfItHadANode is the hint of upstream's plugins for a pod that ends.
func helpsIfItHadANode(_ klog.Logger, _ *corev1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	if pod := oldObj.(*corev1.Pod); pod.Spec.NodeName == "" && pod.Status.NominatedNodeName == "" {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// TestAPodThatRunsAgainWakesThoseThatWaitForItsEnd has a pod whose deletion is undone, as when etcd
// is restored from a backup. A pod that is nominated for its node must preempt again, though no
// plugin waits for that.
func TestAPodThatRunsAgainWakesThoseThatWaitForItsEnd(t *testing.T) {
	s := listening(t)
	runs, ends := podAt("runs", "2", "n1"), podAt("runs", "3", "n1")
	ends.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	s.podAdded(runs)
	hints := queue.HintMap{schedframework.EventAssignedPodDelete: {{Plugin: "Other"}}}
	s.queue.Reconfigure(logr.Discard(),
		&queue.Settings{Profiles: map[string]*queue.ProfileSettings{"mine": {Hints: hints}}}, nil)
	for uid, node := range map[types.UID]string{"nominated": "n1", "elsewhere": "n2", "waits": ""} {
		pod := podAt(uid, "1", "")
		pod.Name, pod.Status.NominatedNodeName = string(uid), node
		s.podAdded(pod)
		popped := s.queue.Pop(logr.Discard()).Pod
		popped.UnschedulablePlugins = sets.New("Rejector")
		if _, err := s.queue.Requeue(logr.Discard(), popped, nil); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, nominated queue.Place) {
		t.Helper()
		want := []queue.Place{nominated, queue.Unschedulable, queue.Unschedulable}
		if got := s.places("nominated", "elsewhere", "waits"); !slices.Equal(got, want) {
			t.Errorf("%s: pods are %v, want %v", when, got, want)
		}
	}
	s.podUpdated(runs, ends)
	expect("it ends", queue.Unschedulable)
	s.podUpdated(ends, runs)
	expect("it runs again", queue.Active)
	popped := s.queue.Pop(logr.Discard()).Pod
	popped.UnschedulablePlugins = sets.New("Rejector")
	if _, err := s.queue.Requeue(logr.Discard(), popped, nil); err != nil {
		t.Fatal(err)
	}
	s.podUpdated(runs, podAt("runs", "4", "n3"))
	expect("it runs on another node", queue.Active)
}

func TestEndsOfNominations(t *testing.T) {
	nominatedOn := func(node, version string) *corev1.Pod {
		pod, five := podAt("nominated", version, ""), int32(5)
		pod.Name, pod.Spec.Priority, pod.Status.NominatedNodeName = "nominated", &five, node
		return pod
	}
	bound := nominatedOn("n1", "2")
	bound.Spec.NodeName = "n2"
	asNominated := nominatedOn("n1", "2")
	asNominated.Spec.NodeName = "n1"
	others := nominatedOn("n1", "1")
	others.Spec.SchedulerName = "somebody-else"
	// remember nominates the pod for the node n1, which its status does not name yet.
	remember := func(s *handlers) {
		info, err := schedframework.NewPodInfo(nominatedOn("", "1"))
		if err != nil {
			t.Fatal(err)
		}
		s.queue.Nominator().AddNominatedPod(logr.Discard(), info,
			&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"})
	}
	unwritten := nominatedOn("", "1")
	for name, c := range map[string]struct {
		happens func(s *handlers)
		wakes   bool
	}{
		"a nominated pod is deleted": {
			func(s *handlers) { s.podDeleted(nominatedOn("n1", "1"), false) }, true},
		"it is nominated for another node": {
			func(s *handlers) { s.podUpdated(nominatedOn("n1", "1"), nominatedOn("n2", "2")) }, true},
		"it is no longer nominated": {
			func(s *handlers) { s.podUpdated(nominatedOn("n1", "1"), nominatedOn("", "2")) }, true},
		"it is bound to another node": {
			func(s *handlers) { s.podUpdated(nominatedOn("n1", "1"), bound) }, true},
		"it is bound to the node": {
			func(s *handlers) { s.podUpdated(nominatedOn("n1", "1"), asNominated) }, false},
		"it is nominated now": {
			func(s *handlers) { s.podUpdated(nominatedOn("", "1"), nominatedOn("n1", "2")) }, false},
		"another field of it changes": {
			func(s *handlers) { s.podUpdated(nominatedOn("n1", "1"), nominatedOn("n1", "2")) }, false},
		"a pod that was not nominated is deleted": {
			func(s *handlers) { s.podDeleted(nominatedOn("", "1"), false) }, false},
		"a pod whose status does not name its node yet is deleted": {
			func(s *handlers) { remember(s); s.podDeleted(unwritten, false) }, true},
		"it is bound to another node than that": {
			func(s *handlers) { remember(s); s.podUpdated(unwritten, bound) }, true},
		"it is bound to that node": {
			func(s *handlers) { remember(s); s.podUpdated(unwritten, asNominated) }, false},
		"its status names another node than that": {
			func(s *handlers) { remember(s); s.podUpdated(unwritten, nominatedOn("n2", "2")) }, true},
		"its status names that node now": {
			func(s *handlers) { remember(s); s.podUpdated(unwritten, nominatedOn("n1", "2")) }, false},
		"a nominated pod of another scheduler is deleted": {func(s *handlers) { s.podDeleted(others, false) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := listening(t)
			hint := queue.HintMap{schedframework.EventAssignedPodDelete: {{Plugin: "Rejector", Fn: helpsIfItHadANode}}}
			s.queue.Reconfigure(logr.Discard(),
				&queue.Settings{Profiles: map[string]*queue.ProfileSettings{"mine": {Hints: hint}}}, nil)
			for uid, priority := range map[types.UID]int32{"low": 0, "equal": 5, "high": 10} {
				pod := podAt(uid, "1", "")
				pod.Name, pod.Spec.Priority = string(uid), &priority
				s.podAdded(pod)
				popped := s.queue.Pop(logr.Discard()).Pod
				popped.UnschedulablePlugins = sets.New("Rejector")
				if _, err := s.queue.Requeue(logr.Discard(), popped, nil); err != nil {
					t.Fatal(err)
				}
			}
			c.happens(s)
			p := s.places("low", "equal", "high")
			if woken := p[0] != queue.Unschedulable; woken != c.wakes || (p[1] != queue.Unschedulable) != c.wakes ||
				p[2] != queue.Unschedulable {
				t.Errorf("pods of lower, equal and higher priority are %v", p)
			}
		})
	}
}
