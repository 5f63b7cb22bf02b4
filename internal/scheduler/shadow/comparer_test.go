// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

func TestVerdictsOfDecisionsWithoutANode(t *testing.T) {
	unfit := fmt.Errorf("wrapped: %w", &schedframework.FitError{})
	for name, test := range map[string]struct {
		node string // that was chosen
		err  error  // of the shadow
		want verdict
	}{
		"no node with either":                    {"", unfit, agreed},
		"no node in the cluster":                 {"", algorithm.ErrNoNodesAvailable, agreed},
		"a node, and none with the shadow":       {"n", unfit, activeOnlyFits},
		"the shadow fails":                       {"n", errors.New("sorry"), skipped},
		"the shadow fails, and the pod fits not": {"", errors.New("sorry"), skipped},
	} {
		d := Decided{Node: test.node}
		if got := d.verdict(&algorithm.Decision{}, test.err); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	d := Decided{}
	if got := d.verdict(&algorithm.Decision{Result: algorithm.Result{SuggestedHost: "n"}}, nil); got != shadowOnlyFits {
		t.Errorf("only the shadow finds a node: %s", got)
	}
}

func TestMismatchNamesPodNodePluginAndReason(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "shop", "web-1"
	statuses := schedframework.NewDefaultNodeToStatus()
	statuses.Set("n2", fwk.NewStatus(fwk.Unschedulable, "node(s) had a taint").WithPlugin("TaintToleration"))
	d := Decided{Pod: pod, Node: "n1", Refusals: statuses,
		Profile: &profile.Instance{Config: &resolve.Profile{Name: "shop"}}}
	got := d.mismatch(&comparison{verdict: activeOnlyFits, plugin: "NodeAffinity"}, "", "no match")
	if want := `Pod "shop/web-1" fits node "n1" with SchedulerProfile "shop", and no node with this shadow: ` +
		"plugin NodeAffinity refuses this node: no match"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	plugin, reason := d.refusal("n2")
	got = d.mismatch(&comparison{verdict: shadowOnlyFits, plugin: plugin}, "n2", reason)
	if want := `Pod "shop/web-1" fits node "n2" with this shadow, and no node with SchedulerProfile "shop": ` +
		"plugin TaintToleration refuses this node: node(s) had a taint"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := d.mismatch(&comparison{verdict: activeOnlyFits}, "", ""); strings.Contains(got, "plugin") {
		t.Errorf("a mismatch without a cause: %s", got)
	}
}
