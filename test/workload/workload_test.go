// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestPodsAreNamedOnceAndAskForWhatANodeHas(t *testing.T) {
	room := Node(0).Status.Allocatable
	for _, kind := range Kinds {
		pods := Pods{Kind: kind, Nodes: 7, SchedulerName: "some"}
		if err := pods.Validate(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		names := map[string]bool{}
		for i := range 1000 {
			pod := pods.Pod(i)
			names[pod.Name] = true
			if pod.Spec.SchedulerName != "some" {
				t.Fatalf("%s asks for scheduler %q", pod.Name, pod.Spec.SchedulerName)
			}
			for name, asked := range pod.Spec.Containers[0].Resources.Requests {
				if has := room[name]; asked.Sign() <= 0 || asked.Cmp(has) > 0 {
					t.Fatalf("%s asks for %s of %s", pod.Name, asked.String(), name)
				}
			}
		}
		if len(names) != 1000 {
			t.Errorf("%s: 1000 pods have %d names", kind, len(names))
		}
	}
}

func TestUniquePodsHaveNoEqual(t *testing.T) {
	type amounts struct{ cpu, memory int64 }
	seen := map[amounts]bool{}
	for i := range 20_000 {
		r := Pods{Kind: Unique}.Pod(i).Spec.Containers[0].Resources.Requests
		seen[amounts{r.Cpu().MilliValue(), r.Memory().Value()}] = true
	}
	if len(seen) != 20_000 {
		t.Errorf("20000 pods have %d different requests", len(seen))
	}
}

func TestSeriesTakeTurns(t *testing.T) {
	for series, want := range map[int]int{0: DefaultSeries, 3: 3} {
		apps := map[string]bool{}
		for i := range 100 {
			pod := Pods{Kind: Spread, Series: series}.Pod(i)
			apps[pod.Labels["app"]] = true
			selected, other := pod.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
				Pods{Kind: Spread, Series: series}.Pod(i+1)
			if !labels.SelectorFromSet(selected).Matches(labels.Set(pod.Labels)) {
				t.Errorf("pod %d does not select itself", i)
			}
			if labels.SelectorFromSet(selected).Matches(labels.Set(other.Labels)) {
				t.Errorf("pod %d selects the pod after it", i)
			}
		}
		if len(apps) != want {
			t.Errorf("Series %d: %d apps, want %d", series, len(apps), want)
		}
	}
}

func TestMixedPodsAreOfFourKindsInTurn(t *testing.T) {
	got := map[string]int{}
	for i := range 40 {
		got[Pods{Kind: Mixed}.Pod(i).Labels["kind"]]++
	}
	if want := map[string]int{Basic: 10, Spread: 10, Anti: 10, Affinity: 10}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheServiceSelectsOwnedPodsOnly(t *testing.T) {
	selector := labels.SelectorFromSet(Service().Spec.Selector)
	for _, kind := range Kinds {
		pod := Pods{Kind: kind, Nodes: 1}.Pod(0)
		if got, want := selector.Matches(labels.Set(pod.Labels)), kind == Owned; got != want {
			t.Errorf("%s: selected %v, want %v", kind, got, want)
		}
	}
}

func TestAdmittedPodsHaveWhatTheAPIServerAdds(t *testing.T) {
	a, b := Admit(Pods{Kind: Basic}.Pod(1)), Admit(Pods{Kind: Basic}.Pod(2))
	if a.UID == "" || a.UID == b.UID {
		t.Errorf("UIDs %q and %q", a.UID, b.UID)
	}
	if a.Spec.Volumes[0].Name == b.Spec.Volumes[0].Name {
		t.Error("two pods have a token volume of one name")
	}
	if a.Spec.SchedulerName != corev1.DefaultSchedulerName || len(a.Spec.Tolerations) != 2 {
		t.Errorf("scheduler %q, tolerations %v", a.Spec.SchedulerName, a.Spec.Tolerations)
	}
}

func TestNodesAreInZonesInTurn(t *testing.T) {
	zones := map[string]int{}
	for i := range 3 * Zones {
		node := Node(i)
		zones[node.Labels[corev1.LabelTopologyZone]]++
		if node.Labels[corev1.LabelHostname] != node.Name || node.Name != NodeName(i) {
			t.Errorf("node %d is %s, host %s", i, node.Name, node.Labels[corev1.LabelHostname])
		}
	}
	for name, want := range map[string]int{NodeName(0): 0, NodeName(100_001): 100_001 % Zones} {
		if got, ok := ZoneIndex(name); !ok || got != want {
			t.Errorf("ZoneIndex(%s) is %d, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "node-1", "node-00001x", "other-00001"} {
		if _, ok := ZoneIndex(name); ok {
			t.Errorf("ZoneIndex(%q) takes it for a node of ours", name)
		}
	}
	if len(zones) != Zones || zones[ZoneOf(1)] != 3 {
		t.Errorf("zones %v", zones)
	}
}

func TestWrongKindsAreRefused(t *testing.T) {
	for _, pods := range []Pods{{}, {Kind: "huge"}, {Kind: Daemon}} {
		if pods.Validate() == nil {
			t.Errorf("%+v is valid", pods)
		}
	}
}

func TestClaimsAreThoseOfTheirPods(t *testing.T) {
	for i := range 7 {
		pods := Pods{Kind: ClaimKinds[i%len(ClaimKinds)]}
		pod := pods.Pod(i)
		claim, volume := pods.Claim(i)
		if got := pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName; got != claim.Name ||
			claim.Namespace != pod.Namespace {
			t.Errorf("pod %d has claim %s, there is %s", i, got, claim.Name)
		}
		if claim.Spec.VolumeName != volume.Name || volume.Spec.ClaimRef.UID != claim.UID ||
			volume.Spec.ClaimRef.Name != claim.Name {
			t.Errorf("claim %d is not bound to its volume", i)
		}
		if !labels.SelectorFromSet(Service().Spec.Selector).Matches(labels.Set(pod.Labels)) {
			t.Errorf("pod %d is not owned", i)
		}
	}
}
