// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// sharing returns another pod that shares the parts that an informer shares between pods of one
// owner.
func sharing(pod *corev1.Pod, uid string, edits ...func(*corev1.Pod)) *corev1.Pod {
	other := newPod(uid, pod.Spec.NodeName)
	other.Spec.Containers, other.Spec.InitContainers, other.Spec.Affinity = pod.Spec.Containers,
		pod.Spec.InitContainers, pod.Spec.Affinity
	for _, edit := range edits {
		edit(other)
	}
	return other
}

func keepingAway(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
			}}}
}

// terms returns the address of the terms in a PodInfo.
func terms(info *schedframework.PodInfo) *fwk.AffinityTerm {
	return unsafe.SliceData(info.RequiredAntiAffinityTerms)
}

func TestEqualPodsAreParsedOnce(t *testing.T) {
	first := newPod("first", "a", keepingAway)
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		shared bool
	}{
		"a pod of the same owner":        {sharing(first, "second"), true},
		"one with other labels and node": {sharing(first, "second", labelled("x"), onNode("b")), true},
		"one that runs":                  {sharing(first, "second", reported), true},
		"one that was given more": {sharing(first, "second", reported, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].Resources.Requests = requests("3", "64Mi").Requests
		}), false},
		"one of another namespace":  {sharing(first, "second", func(p *corev1.Pod) { p.Namespace = "other" }), false},
		"one with other containers": {newPod("second", "a", keepingAway), false},
		"one with another affinity": {sharing(first, "second", keepingAway), false},
		"one that has overhead": {
			sharing(first, "second", func(p *corev1.Pod) { p.Spec.Overhead = requests("1", "1Mi").Requests }), false},
		"one without any container": {sharing(first, "second", func(p *corev1.Pod) { p.Spec.Containers = nil }),
			false},
		"one that has init container": {
			sharing(first, "second", func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "i"}} }),
			false},
	} {
		t.Run(name, func(t *testing.T) {
			c := New()
			known := c.newPodInfo(quiet, first)
			got := c.newPodInfo(quiet, test.pod)
			if got.Pod != test.pod {
				t.Errorf("the PodInfo is of %s", got.Pod.Name)
			}
			if shared := terms(got) == terms(known); shared != test.shared {
				t.Errorf("shares the terms: %v, want %v", shared, test.shared)
			}
			expectSameInfo(t, got)
		})
	}
}

// expectSameInfo compares a PodInfo with the one that upstream makes of the pod.
func expectSameInfo(t *testing.T, got *schedframework.PodInfo) {
	t.Helper()
	want := infoOf(got.Pod)
	if !reflect.DeepEqual(want.RequiredAntiAffinityTerms, got.RequiredAntiAffinityTerms) {
		t.Errorf("%s: terms %v, want %v", got.Pod.Name, got.RequiredAntiAffinityTerms, want.RequiredAntiAffinityTerms)
	}
	if !sameResources(want.CalculateResource(), got.CalculateResource()) {
		t.Errorf("%s: resources %v, want %v", got.Pod.Name, got.CalculateResource().Resource,
			want.CalculateResource().Resource)
	}
}

// TestRandomEqualPodsKeepTheirOwnFields gives pods with few possible values the containers of
// others, including the other fields that determine requests.
func TestRandomEqualPodsKeepTheirOwnFields(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := New()
	var kinds []*corev1.Pod
	for range 20 {
		kinds = append(kinds, randomRequests(random))
	}
	found := 0
	var alive []*schedframework.PodInfo
	for range 20_000 {
		pod, kind := randomRequests(random), kinds[random.IntN(len(kinds))]
		pod.Spec.Containers = kind.Spec.Containers
		if c.podInfos.find(pod) != nil {
			found++
		}
		info := c.newPodInfo(quiet, pod)
		expectSameInfo(t, info)
		if t.Failed() {
			t.FailNow()
		}
		alive = append(alive, info)
	}
	if found < 1000 {
		t.Errorf("a pod alike was found %d times", found)
	}
	runtime.KeepAlive(alive)
}

func TestNoPodIsRetainedForComparison(t *testing.T) {
	c := New()
	gone := make(chan struct{})
	func() {
		pod := newPod("gone", "a", keepingAway)
		info := c.newPodInfo(quiet, pod)
		runtime.AddCleanup(info, func(gone chan struct{}) { close(gone) }, gone)
	}()
	deadline := time.After(time.Minute)
	for collected := false; !collected; {
		runtime.GC()
		select {
		case <-gone:
			collected = true
		case <-deadline:
			t.Fatal("the PodInfo of a pod that is gone is kept")
		case <-time.After(time.Millisecond):
		}
	}
	for i := range 10 * minSweep {
		c.newPodInfo(quiet, newPod(fmt.Sprint(i), "a")) // each of its own kind, and not kept
		if i%minSweep == 0 {
			runtime.GC()
		}
	}
	if n := len(c.podInfos.known); n > 4*minSweep {
		t.Errorf("%d kinds of pods are known, of which none is there", n)
	}
}
