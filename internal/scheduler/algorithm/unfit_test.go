// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/rows"
	"github.com/livesched/livesched/internal/workload"
)

// another returns a pod with a name of its own.
func (a *alike) another(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	a.made++
	pod.Name = fmt.Sprintf("pod-%d", a.made)
	pod.UID = types.UID(pod.Name)
	return pod
}

// refusal is the error about a pod that fits nowhere, with what PreFilter has left.
type refusal struct {
	*schedframework.FitError
	err   error
	state *schedframework.CycleState
}

// refused schedules a pod like this one, which fits nowhere.
func (a *alike) refused(like *corev1.Pod) refusal {
	a.t.Helper()
	a.must(a.cache.UpdateSnapshot(klog.FromContext(a.ctx), a.snapshot))
	state := schedframework.NewCycleState()
	pod := a.another(like)
	_, err := a.ours.Schedule(a.ctx, a.profile, state, pod)
	var fitError *schedframework.FitError
	if !errors.As(err, &fitError) || fitError.Pod != pod {
		a.t.Fatalf("got %v, want an error that says why the pod fits nowhere", err)
	}
	return refusal{fitError, err, state}
}

// bigPod returns a pod that asks for more than a node has.
func bigPod() *corev1.Pod {
	pod := podOf("basic", 0)
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = workload.Node(0).Status.Allocatable[corev1.ResourceCPU]
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = workload.Node(0).Status.Allocatable[corev1.ResourceMemory]
	pod.Spec.Overhead = pod.Spec.Containers[0].Resources.Requests
	return pod
}

func TestThePodsOfAClassThatFitsNowhereAreToldAtOnceUntilSomethingChanges(t *testing.T) {
	w := newAlike(t, 2)
	first, second := w.refused(bigPod()), w.refused(bigPod())
	if first.Diagnosis.NodeToStatus != second.Diagnosis.NodeToStatus {
		t.Error("the nodes were asked about again")
	}
	first.Diagnosis.PostFilterMsg, second.Diagnosis.PostFilterMsg = "preemption: in vain", "preemption: in vain"
	if got, want := second.err.Error(), first.err.Error(); got != want || second.FitError.Error() != want || second.NumAllNodes != 2 {
		t.Errorf("the first pod was told %q, the second %q", want, got)
	}
	if _, err := second.state.Read("PreFilterNodeResourcesFit"); err != nil {
		t.Errorf("preemption would miss what PreFilter leaves: %v", err)
	}
	first.Diagnosis.UnschedulablePlugins.Insert("First")
	second.Diagnosis.UnschedulablePlugins.Insert("Second")
	if third := w.refused(bigPod()); third.Diagnosis.UnschedulablePlugins.HasAny("First", "Second") {
		t.Error("pods share the names of the plugins that refused them")
	}
	w.place(w.another(podOf("basic", 1)), workload.NodeName(0), cache.Class{})
	if changed := w.refused(bigPod()); changed.Diagnosis.NodeToStatus == first.Diagnosis.NodeToStatus {
		t.Error("the nodes were not asked about after one has changed")
	}
}

func TestPodsThatFitNowhereAreToldWhatNamespacesMakeOfIt(t *testing.T) {
	w := newAlike(t, 2)
	tier := func(labels map[string]string) {
		w.setNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "friends", Labels: labels}})
	}
	resident := func(namespace, app string, node int) {
		pod := w.another(podOf("basic", 0))
		pod.Namespace, pod.Labels = namespace, map[string]string{"app": app}
		w.place(pod, workload.NodeName(node), cache.Class{})
	}
	term := func(app string, namespaces *metav1.LabelSelector) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, NamespaceSelector: namespaces, TopologyKey: hostname,
		}
	}
	// The pod wants to be where a friend of the front is, but not where a foe is.
	pod := podOf("basic", 0)
	pod.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			term("friend", &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}),
		}},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term("foe", nil)}},
	}
	tier(nil)
	resident("friends", "friend", 0)
	resident(pod.Namespace, "foe", 0)
	expect := func(want string) {
		t.Helper()
		for range 2 {
			if got := w.refused(pod).err.Error(); got != want {
				t.Errorf("the pod is told %q, want %q", got, want)
			}
		}
	}
	expect("0/2 nodes are available: 2 node(s) didn't match pod affinity rules.")
	tier(map[string]string{"tier": "front"})
	expect("0/2 nodes are available: 1 node(s) didn't match pod affinity rules, 1 node(s) didn't match pod anti-affinity rules.")
}

func TestWhatNominatedPodsHaveToDoWithARefusalIsNotKept(t *testing.T) {
	w := newAlike(t, 2)
	w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
	pod := w.another(bigPod())
	if _, reason := w.ours.decideFast(w.ctx, w.profile, schedframework.NewCycleState(), pod); reason != rows.NoFit {
		t.Fatalf("got %q, want %q", reason, rows.NoFit)
	}
	// In between a pod is promised a node.
	w.handle.nominated[workload.NodeName(0)] = []*corev1.Pod{w.another(bigPod())}
	_, err := w.ours.newCycle(w.profile, schedframework.NewCycleState(), pod).schedule(w.ctx)
	w.ours.keepUnfit(w.profile, pod, err)
	if w.ours.fast.rows.Unfit(pod) != nil {
		t.Error("what was said with regard to the nominated pod is kept")
	}
}

func TestNodesWithRoomThatIsReservedAreLeftOut(t *testing.T) {
	w := newAlike(t, 2)
	for _, free := range []int{2, 1, 0} {
		pod := w.another(podOf("basic", 0))
		reason := w.decide(fmt.Sprintf("%d nodes are free", free), w.profile, pod)
		if want := map[bool]rows.Reason{true: rows.None, false: rows.NoFit}[free > 0]; reason != want {
			t.Fatalf("%d nodes are free: %q", free, reason)
		}
		w.handle.nominated[workload.NodeName(free-1)] = []*corev1.Pod{w.another(fullPod())}
	}
}

func TestPodsThatNameTheirNodeReckonWithWhoIsNominatedToIt(t *testing.T) {
	w := newAlike(t, 2)
	w.handle.nominated[workload.NodeName(0)] = []*corev1.Pod{w.another(fullPod())}
	expect := func(kind string, node int, want rows.Reason) {
		t.Helper()
		pod := w.another(podOf(kind, 0))
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &corev1.Affinity{}
		}
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{workload.NodeName(node)}},
			}}},
		}}
		if reason := w.decide(kind, w.profile, pod); reason != want {
			t.Errorf("%s on node %d: %q, want %q", kind, node, reason, want)
		}
	}
	expect("basic", 0, rows.NoFit)
	expect("basic", 1, rows.None)
	expect("anti", 1, rows.Nominated)
}

// fullPod returns a pod that takes a node for itself.
func fullPod() *corev1.Pod {
	pod := bigPod()
	pod.Spec.Overhead = nil
	return pod
}
