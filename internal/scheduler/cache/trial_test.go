// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

// TestAForkDoesNotShowATrial forks in the middle of a trial: the copy has the cluster as it is
// without the trial.
func TestAForkDoesNotShowATrial(t *testing.T) {
	logger, c, s := logr.Discard(), New(), NewSnapshot()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	names := func(c *Cache) (pods []string) {
		copied := NewSnapshot()
		must(c.UpdateSnapshot(logger, copied))
		nodes, err := copied.NodeInfos().List()
		must(err)
		for _, n := range nodes {
			for _, p := range n.GetPods() {
				pods = append(pods, p.GetPod().Name)
			}
		}
		slices.Sort(pods)
		return pods
	}
	podOn := func(name, node string) *corev1.Pod {
		p := objects.Pod("default", name, "mine", "1", "1Gi")
		p.UID, p.Spec.NodeName = types.UID(name), node
		return p
	}
	try := func(name, node string) {
		t.Helper()
		info, err := schedframework.NewPodInfo(podOn(name, node))
		must(err)
		must(c.AssumePod(logger, info))
	}
	c.AddNode(logger, objects.Node("n", "8", "16Gi", nil))
	must(c.AddPod(logger, podOn("victim", "n")))
	try("binding", "n")
	must(c.UpdateSnapshot(logger, s))
	before := s.Changes()

	c.BeginTrial()
	c.Hide(podOn("victim", "n"))
	try("member", "n")
	try("confirmed", "n")
	try("alone", "gone") // its node was deleted
	if got := names(c); !slices.Equal(got, []string{"binding", "confirmed", "member"}) {
		t.Errorf("the trial has %v", got)
	}
	f := c.Fork()
	if got := names(f); !slices.Equal(got, []string{"binding", "victim"}) {
		t.Errorf("the fork has %v", got)
	}
	if size := f.Size(); size.Pods != 2 || size.AssumedPods != 1 || f.changes != before || f.nodes["gone"] != nil {
		t.Errorf("the fork has the size %+v, and %d changes instead of %d", size, f.changes, before)
	}

	must(c.AddPod(logger, podOn("confirmed", "n")))
	if f := c.Fork(); f.changes != before+1 || !slices.Equal(names(f), []string{"binding", "confirmed", "victim"}) {
		t.Errorf("after a pod of the trial was confirmed: %v, %d changes instead of %d", names(f), f.changes, before+1)
	}
}
