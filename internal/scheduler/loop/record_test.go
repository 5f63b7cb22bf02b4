// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/objects"
)

const podUID = "3c5f0e1a-92b7-4d6c-8a41-f0e9d8c7b6a5"

func TestDecisionsAreRecorded(t *testing.T) {
	metrics.Register()
	for name, test := range map[string]struct {
		point string // where a plugin fails
		cpu   string
		want  decisionlog.Decision
	}{
		"a pod that is assumed": {"", "1",
			decisionlog.Decision{Node: "n", Feasible: 1, Evaluated: 1, Tied: 1, Result: decisionlog.Binding}},
		"a pod that fits nowhere": {"", "100", decisionlog.Decision{Result: decisionlog.Unschedulable}},
		"a decision that fails":   {"Filter", "1", decisionlog.Decision{Result: decisionlog.Failed}},
		"a pod that Reserve does not let": {"Reserve", "1",
			decisionlog.Decision{Node: "n", Feasible: 1, Evaluated: 1, Tied: 1, Result: decisionlog.BindFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
				defer cancel()
				c := newCycle(ctx, t, &slow{point: test.point})
				c.loop.Decisions = decisionlog.New(10)
				c.pod.Attempts = 3
				c.pod.Pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(test.cpu)
				c.pod.Pod.UID = podUID
				c.placeInTime(ctx)
				got, _ := c.loop.Decisions.OfPod(c.pod.Pod.UID)
				if test.want.Node != "" && got.Top == nil {
					t.Error("the first decision was not sampled")
				}
				want := test.want
				pod := c.pod.Pod
				want.Namespace, want.Name = pod.Namespace, pod.Name
				want.Number, want.Pod, want.Time, want.Attempt, want.Nodes = 1, podUID, c.start, 3, 1
				want.Profile, want.Revision = c.profile.Config.Name, c.profile.Config.Revision
				want.Changes = c.loop.Snapshot.Changes()
				got.Top = nil
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the record (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestRecordingAllocatesNothing is about a decision that is not sampled.
func TestRecordingAllocatesNothing(t *testing.T) {
	ctx := klog.NewContext(t.Context(), logr.Discard())
	c := newCycle(ctx, t, &slow{})
	c.loop.Decisions = decisionlog.New(10)
	c.pod.Pod.UID = podUID
	decision := algorithm.Decision{Result: algorithm.Result{SuggestedHost: "n", EvaluatedNodes: 1, FeasibleNodes: 1}}
	c.within = podgroup.Domain{{Key: "rack", Value: "r1"}}
	if allocs := testing.AllocsPerRun(100, func() { c.record(ctx, &decision, nil) }); allocs != 0 {
		t.Errorf("recording a decision allocates %v times", allocs)
	}
	if n := len(c.loop.Decisions.Last(10)); n != 10 {
		t.Errorf("%d decisions are recorded, want 10", n)
	}
}

// recorded returns what the log has about attempts at groups: pod, group, domain, node, result and
// message of each decision.
func recorded(log *decisionlog.Log) (all []string) {
	for _, d := range log.Last(100) {
		all = append(all, fmt.Sprintf("%s of %s/%s in %s: %q %s, %s", d.Name, d.Namespace, d.Group, d.Domain, d.Node,
			d.Result, d.Message))
	}
	return all
}

func TestAGroupThatIsRefusedAsAWholeIsRecorded(t *testing.T) {
	w := newGroupWorld(t)
	w.loop.Decisions = decisionlog.New(10)
	w.loop.Failures = w.failures()
	w.addNode("n1", "2")
	w.setMinMember(3)
	w.addPods(3)
	before := w.loop.Clock.Now()
	w.Expect(w.schedule()).To(BeEmpty())
	d := w.loop.Decisions.Last(10)
	w.Expect(d).To(HaveLen(1))
	w.Expect(d[0].Time).To(BeTemporally(">=", before))
	d[0].Time = before
	w.Expect(d[0]).To(Equal(decisionlog.Decision{
		Number: 1, Namespace: "default", Group: "g", Time: before, Attempt: 1, Profile: d[0].Profile,
		Revision: d[0].Revision,
		Changes:  w.loop.Snapshot.Changes(), Nodes: 1, Result: decisionlog.Unschedulable,
		Message: "pod group default/g: 3 pods must be placed together, but there are resources for 2 of them at most",
	}))
	w.expectNothingLeft(3)
}

func TestDecisionsAboutPodsOfAGroupHaveItsReason(t *testing.T) {
	const reason = "pod group default/g: 2 of 3 pods that must be placed together fit in rack=r0; " +
		"p2: 0/2 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, 1 node(s) didn't " +
		"match Pod's node affinity/selector."
	const otherRack = "pod group default/g: too few pods fit in this domain"
	for name, test := range map[string]struct {
		used bool // the port in the second rack that the third pod needs
		want []string
	}{
		"that fits nowhere": {true, []string{
			`p0 of default/g in rack=r0: "r0" Unschedulable, ` + reason,
			`p1 of default/g in rack=r0: "r0" Unschedulable, ` + reason,
			`p2 of default/g in rack=r0: "" Unschedulable, ` + reason,
			`p0 of default/g in rack=r1: "r1" Unschedulable, ` + reason,
			`p1 of default/g in rack=r1: "r1" Unschedulable, ` + reason,
			`p2 of default/g in rack=r1: "" Unschedulable, ` + reason,
		}},
		"that fits in the second rack": {false, []string{
			`p0 of default/g in rack=r0: "r0" Unschedulable, ` + otherRack,
			`p1 of default/g in rack=r0: "r0" Unschedulable, ` + otherRack,
			`p2 of default/g in rack=r0: "" Unschedulable, ` + otherRack,
			`p0 of default/g in rack=r1: "r1" Binding, `, `p1 of default/g in rack=r1: "r1" Binding, `,
			`p2 of default/g in rack=r1: "r1" Binding, `,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupWorld(t)
			w.loop.Decisions = decisionlog.New(100)
			w.loop.Failures = w.failures()
			w.addNode("r0", "2", "rack", "r0")
			w.addNode("r1", "4", "rack", "r1")
			w.addRunning("on-r0", "r0", "0", 0, objects.HostPort(80))
			if test.used {
				w.addRunning("on-r1", "r1", "0", 0, objects.HostPort(80))
			}
			w.setTopology(3, podgroup.Topology{Required: "rack"})
			w.addPods(2)
			w.addPod("p2", "0", objects.HostPort(80))
			w.end(w.schedule())
			if diff := cmp.Diff(test.want, recorded(w.loop.Decisions)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAPodWithoutTheOthersOfItsGroupHasItsOwnReason(t *testing.T) {
	w := newGroupWorld(t)
	w.loop.Decisions = decisionlog.New(100)
	w.loop.Failures = w.failures()
	w.addNode("n1", "3")
	w.setMinMember(2)
	w.ledger.refuse["p1"] = fwk.NewStatus(fwk.Unschedulable, "the ledger is full")
	w.addPods(4)
	w.addPod("large", "9")
	w.end(w.schedule())
	if diff := cmp.Diff([]string{
		`p0 of default/g in : "n1" Binding, `,
		`p1 of default/g in : "n1" BindFailed, 0/1 nodes are available: 1 the ledger is full.`,
		`p2 of default/g in : "n1" Binding, `, `p3 of default/g in : "n1" Binding, `,
		`large of default/g in : "" Unschedulable, 0/1 nodes are available: 1 Insufficient cpu.`,
	}, recorded(w.loop.Decisions)); diff != "" {
		t.Error(diff)
	}
}
