// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
)

// avoiding makes a pod keep away from pods that a selector selects, under several topology keys.
func avoiding(selector *metav1.LabelSelector, keys ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		anti := &corev1.PodAntiAffinity{}
		for _, key := range keys {
			anti.RequiredDuringSchedulingIgnoredDuringExecution = append(
				anti.RequiredDuringSchedulingIgnoredDuringExecution,
				corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector})
		}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: anti}
	}
}

func keysOf(prefix string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return keys
}

// label gives a node labels.
func (s *labelScene) label(node string, keys ...string) {
	info, err := s.snapshot.NodeInfos().Get(node)
	s.must(err)
	after := info.Node().DeepCopy()
	for _, key := range keys {
		after.Labels[key] = "x"
	}
	s.cache.UpdateNode(klog.FromContext(s.ctx), info.Node(), after)
}

func TestAPodWithManyTopologyKeysTakesTheScalarPath(t *testing.T) {
	s := newLabelScene(t)
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	zones := func(pod *corev1.Pod) {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: zone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: web},
		}
	}
	s.decide("", s.pod(zones))
	before := s.snapshot.Topo(zone)
	for i := range 10 {
		if reason := s.look(s.pod(avoiding(web, keysOf(fmt.Sprint("key-", i), 100)...))).
			reason; reason != fastpath.Topology {
			t.Fatalf("the reason is %q", reason)
		}
	}
	s.decide("", s.pod(avoiding(web, keysOf("key", 16)...)))
	if s.snapshot.Topo(zone) != before {
		t.Error("the topology that another pod uses was dropped")
	}
}

func TestTermsOfRunningPodsWhoseKeysNoNodeHasCostNothing(t *testing.T) {
	s := newLabelScene(t)
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	other := func(pod *corev1.Pod) { pod.Labels["app"] = "other" }
	s.bind("y", s.pod(other, avoiding(web, append(keysOf("rack", 1000), "also")...)))
	for range 3 {
		s.decide("", s.pod())
	}
	before := s.snapshot.Topo(zone)
	s.decide("", s.pod(avoiding(web, hostname)))
	if s.snapshot.Topo(zone) != before {
		t.Error("the topology that another pod uses was dropped")
	}

	// The terms have an effect once nodes have their keys. The paths are compared.
	s.label("y", "rack-7")
	if got := s.look(s.pod()); got.reason != fastpath.None || got.Feasible != 2 {
		t.Errorf("%d nodes fit once one has the key of a term that keeps the pod off, want 2 (%s)", got.Feasible,
			got.reason)
	}
	s.label("n", "rack-7")
	s.label("z", "another")
	if got := s.look(s.pod()); got.reason != fastpath.None || got.Feasible != 1 {
		t.Errorf("%d nodes fit once two are in the domain, want 1 (%s)", got.Feasible, got.reason)
	}
}

func TestPodsThatTooManyTopologiesConcernTakeTheScalarPath(t *testing.T) {
	s := newLabelScene(t)
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	other := func(pod *corev1.Pod) { pod.Labels["app"] = "other" }
	s.decide("", s.pod())
	zones := s.snapshot.Topo(zone)
	keys := keysOf("rack", 5000)
	s.label("y", keys...)
	s.must(s.cache.UpdateSnapshot(klog.FromContext(s.ctx), s.snapshot))
	s.decide("", s.pod(other))
	odd := s.pod(other, avoiding(web, keys...))
	s.byName["n"] = odd
	s.bind("n", odd)
	for range 3 {
		if reason := s.look(s.pod()).reason; reason != fastpath.Topology {
			t.Fatalf("the reason is %q", reason)
		}
		s.decide("", s.pod(other))
	}
	if s.snapshot.Topo(zone) != zones {
		t.Error("the topology that other pods use was dropped")
	}
	s.remove("n")
	for range 20 { // much changes until the next try
		s.decide("n", s.pod(other))
		s.must(s.cache.UpdateSnapshot(klog.FromContext(s.ctx), s.snapshot))
		s.remove("n")
	}
	s.decide("", s.pod())
}

// TestTenantsWithTopologyKeysOfTheirOwn decides about pods of tenants in turn. No decision makes
// topologies or trackers again.
func TestTenantsWithTopologyKeysOfTheirOwn(t *testing.T) {
	const tenants, keys = 34, 3
	for _, labelled := range []bool{true, false} {
		s := newLabelScene(t)
		for i, node := range []string{"y", "n", "z"} {
			s.must(s.cache.UpdateSnapshot(klog.FromContext(s.ctx), s.snapshot))
			if labelled && i < 2 {
				for tenant := range tenants {
					s.label(node, keysOf(fmt.Sprint("tenant-", tenant), keys)...)
					s.must(s.cache.UpdateSnapshot(klog.FromContext(s.ctx), s.snapshot))
				}
			}
		}
		topologies := map[string]*cache.Topology{}
		for round := range 5 {
			for tenant := range tenants {
				s.decide("", s.pod(func(pod *corev1.Pod) {
					for _, key := range keysOf(fmt.Sprint("tenant-", tenant), keys) {
						pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints,
							corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key,
								WhenUnsatisfiable: corev1.ScheduleAnyway,
								LabelSelector:     &metav1.LabelSelector{MatchLabels: pod.Labels}})
					}
				}))
				for _, key := range keysOf(fmt.Sprint("tenant-", tenant), keys) {
					if now := s.snapshot.Topo(key); round > 0 && now != topologies[key] {
						t.Fatalf("the topology of %s was made again", key)
					} else {
						topologies[key] = now
					}
				}
			}
		}
	}
}
