// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

// TestChangesCountsWhatDecisionsDependOn is what a replay of recorded decisions relies on: one
// change for a pod that is assumed, and none for its confirmation.
func TestChangesCountsWhatDecisionsDependOn(t *testing.T) {
	logger, c, s := logr.Discard(), New(), NewSnapshot()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	podOn := func(name, node string) *corev1.Pod {
		p := objects.Pod("default", name, "mine", "1", "1Gi")
		p.UID, p.Spec.NodeName = types.UID(name), node
		return p
	}
	node := objects.Node("n", "8", "16Gi", nil)
	changed := node.DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	refreshed := changed.DeepCopy()
	refreshed.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	assumed := podOn("p", "n")
	confirmed := assumed.DeepCopy()
	confirmed.Labels = map[string]string{corev1.LabelTopologyZone: "z"}
	running := confirmed.DeepCopy()
	running.Status.Phase = corev1.PodRunning
	relabeled := running.DeepCopy()
	relabeled.Labels["a"] = "b"
	rezoned := relabeled.DeepCopy()
	rezoned.Labels[corev1.LabelTopologyZone] = "y"
	moved := rezoned.DeepCopy()
	moved.Spec.NodeName = "elsewhere"
	assume := func(pod *corev1.Pod) error {
		info, err := schedframework.NewPodInfo(pod)
		must(err)
		return c.AssumePod(logger, info)
	}
	for _, step := range []struct {
		what string
		do   func()
		want uint64
	}{
		{"a node is added", func() { c.AddNode(logger, node) }, 1},
		{"its labels change", func() { c.UpdateNode(logger, node, changed) }, 1},
		{"its conditions change", func() { c.UpdateNode(logger, changed, refreshed) }, 0},
		{"a pod is assumed", func() { must(assume(assumed)) }, 1},
		{"it is confirmed with labels of its node", func() { must(c.AddPod(logger, confirmed)) }, 0},
		{"its status changes", func() { must(c.UpdatePod(logger, confirmed, running)) }, 0},
		{"its labels change", func() { must(c.UpdatePod(logger, running, relabeled)) }, 1},
		{"its zone changes", func() { must(c.UpdatePod(logger, relabeled, rezoned)) }, 1},
		{"it moves", func() { must(c.UpdatePod(logger, rezoned, moved)) }, 1},
		{"it is deleted", func() { must(c.RemovePod(logger, moved)) }, 1},
		{"another is assumed", func() { must(assume(podOn("q", "n"))) }, 1},
		{"it is assumed again, in vain", func() { _ = assume(podOn("q", "n")) }, 0},
		{"it is forgotten", func() { must(c.ForgetPod(logger, podOn("q", "n"))) }, 1},
		{"a pod is added", func() { must(c.AddPod(logger, podOn("r", "n"))) }, 1},
		{"another of its name replaces it", func() {
			next := podOn("r", "n")
			next.UID = "another"
			must(c.UpdatePod(logger, podOn("r", "n"), next))
		}, 2},
		{"the node is removed", func() { must(c.RemoveNode(logger, node)) }, 1},
		{"nothing", func() {}, 0},
		{"another node is added", func() { c.AddNode(logger, objects.Node("m", "8", "16Gi", nil)) }, 1},
		{"an overlay is taken back", func() {
			o, err := c.BeginOverlay(logger, s)
			must(err)
			must(o.Place(infoOf(podOn("high", "m")), Class{}))
			must(o.Close())
		}, 0},
		{"an overlay commits a pod, and another one is added meanwhile", func() {
			o, err := c.BeginOverlay(logger, s)
			must(err)
			must(o.Place(infoOf(podOn("high", "m")), Class{}))
			must(c.AddPod(logger, podOn("s", "m")))
			must(o.Commit())
		}, 2},
		{"the committed pod is confirmed", func() { must(c.AddPod(logger, podOn("high", "m"))) }, 0},
	} {
		before := c.Changes() // also before the first refresh
		step.do()
		must(c.UpdateSnapshot(logger, s))
		if s.Changes() != c.Changes() {
			t.Errorf("%s: the snapshot has %d changes, the cache %d", step.what, s.Changes(), c.Changes())
		}
		if got := s.Changes() - before; got != step.want {
			t.Errorf("%s: %d changes, want %d", step.what, got, step.want)
		}
		f, copied := c.Fork(), NewSnapshot()
		must(f.UpdateSnapshot(logger, copied))
		if copied.Changes() != s.Changes() {
			t.Errorf("%s: a fork has %d changes, the original %d", step.what, copied.Changes(), s.Changes())
		}
	}
}
