// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/objects"
)

// TestTranscripts plays the files in testdata/transcripts, each a story of a small cluster: what
// every decision sees, what it finds, and what follows. To write the outputs again, add -rewrite.
//
//	node NAME cpu=N [rack=R]                     adds a node
//	running NAME on=NODE cpu=N priority=N        adds a pod that runs
//	group needs=N [topology=KEY]                 sets the group of the members
//	member|pod NAME cpu=N priority=N             queues a pod, of the group or of none
//	schedule [evictions=N]                       runs a scheduling cycle and waits for its evictions
//	ended NAMES                                  removes pods, and queues the pods that wait again
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := newStory(t)
		datadriven.RunTest(t, path, s.play)
	})
}

// story is a world whose plugin writes down what it is called for.
type story struct {
	*groupWorld
	handle fwk.Handle
	out    strings.Builder
	// told is the number of the latest decision in the transcript.
	told decisionlog.Number
}

var (
	_ fwk.PreFilterPlugin = (*story)(nil)
	_ fwk.FilterPlugin    = (*story)(nil)
	_ fwk.ReservePlugin   = (*story)(nil)
)

func newStory(t *testing.T) *story {
	s := &story{}
	s.groupWorld = newWorld(t, func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		s.handle = handle
		return s, nil
	})
	s.loop.Decider = algorithm.New(algorithm.Config{
		Snapshot: s.cluster.Snapshot, IntN: func(int) int { return 0 }, Reproducible: true,
	})
	s.loop.Decisions = decisionlog.New(100)
	s.loop.Failures = s.failures()
	return s
}

func (*story) Name() string { return "PluginOfTheTest" }

// PreFilter writes down the snapshot that a decision sees.
func (s *story) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod,
	_ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	nodes, _ := s.handle.SnapshotSharedLister().NodeInfos().List()
	shown := make([]string, len(nodes))
	for i, node := range nodes {
		shown[i] = node.Node().Name + " " + podsOf(node)
	}
	fmt.Fprintf(&s.out, "decide %s on %s\n", pod.Name, strings.Join(shown, ", "))
	return nil, nil
}

func (*story) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter runs after the other plugins: the pod fits on the node.
func (s *story) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	fmt.Fprintf(&s.out, "  %s fits on %s beside %s\n", pod.Name, node.Node().Name, podsOf(node))
	return nil
}

func (s *story) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	fmt.Fprintf(&s.out, "  reserve %s on %s\n", pod.Name, node)
	return nil
}

func (s *story) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) {
	fmt.Fprintf(&s.out, "  unreserve %s on %s\n", pod.Name, node)
}

func podsOf(node fwk.NodeInfo) string {
	var names []string
	for _, pod := range node.GetPods() {
		names = append(names, pod.GetPod().Name)
	}
	slices.Sort(names)
	return "[" + strings.Join(names, " ") + "]"
}

// play runs a command of a transcript, and returns its output.
func (s *story) play(t *testing.T, d *datadriven.TestData) string {
	name := ""
	if len(d.CmdArgs) > 0 {
		name = d.CmdArgs[0].Key
	}
	cpu, priority, evictions, needs := "1", 0, 0, 1
	var on, rack, topology string
	d.MaybeScanArgs(t, "cpu", &cpu)
	d.MaybeScanArgs(t, "priority", &priority)
	d.MaybeScanArgs(t, "evictions", &evictions)
	d.MaybeScanArgs(t, "needs", &needs)
	d.MaybeScanArgs(t, "on", &on)
	d.MaybeScanArgs(t, "topology", &topology)
	s.out.Reset()
	switch d.Cmd {
	case "node":
		var labels []string
		if d.MaybeScanArgs(t, "rack", &rack) {
			labels = []string{"rack", rack}
		}
		s.addNode(name, cpu, labels...)
	case "running":
		s.addRunning(name, on, cpu, int32(priority))
	case "group":
		s.setTopology(needs, podgroup.Topology{Required: topology})
	case "member":
		s.addPod(name, cpu, withPriority(int32(priority)))
	case "pod":
		pod := objects.Pod("default", name, "mine", cpu, "1Mi")
		pod.UID, pod.Spec.Priority = types.UID(name), new(int32(priority))
		s.Expect(s.objects.Put(pod)).To(Succeed())
		s.cluster.Queue.Add(logr.Discard(), pod)
	case "ended":
		for _, arg := range d.CmdArgs {
			s.gone(arg.Key)
		}
		s.retry()
	case "schedule":
		s.cycle(evictions)
	default:
		d.Fatalf(t, "there is no command %s", d.Cmd)
	}
	return s.out.String()
}

// cycle runs a scheduling cycle, and writes down what follows it.
func (s *story) cycle(evictions int) {
	popped := s.cluster.Queue.Pop(logr.Discard())
	if popped.Group != nil {
		for _, m := range s.loop.newGroupCycle(&popped).run(s.ctx) {
			fmt.Fprintf(&s.out, "bind %s to %s\n", m.pod.Pod.Name, m.placed.NodeName)
			m.release(logr.Discard())
		}
	} else {
		c := s.loop.newCycle(s.loop.Profiles.Popped(popped.Settings), popped.Pod)
		if placed := c.run(withPod(s.ctx, c.pod.Pod)); placed != nil {
			fmt.Fprintf(&s.out, "bind %s to %s\n", c.pod.Pod.Name, placed.NodeName)
			c.release(logr.Discard())
		}
	}
	var decisions []string
	s.Expect(s.loop.Decisions.Select(s.ctx, &decisionlog.Filter{After: s.told}, func(d *decisionlog.Decision) bool {
		about := "pod"
		if d.Pod == "" {
			about = "group " + d.Group
		}
		line := fmt.Sprintf("record %s: %v, fits %d of %d, %s%s", about, d.Result, d.Feasible, d.Nodes, d.Node,
			d.Message)
		decisions = append(decisions, strings.TrimRight(line, " ,"))
		return true
	})).To(Succeed())
	s.told = s.loop.Decisions.Newest()
	for _, line := range slices.Backward(decisions) {
		fmt.Fprintln(&s.out, line)
	}
	s.Eventually(s.cluster.Requests.Deleted).Should(Equal(evictions))
	for _, write := range s.cluster.Requests.Take() {
		if name, ok := strings.CutPrefix(write, "delete pods default/"); ok {
			fmt.Fprintf(&s.out, "evict %s\n", name)
		}
	}
	var nominated []string
	for _, n := range s.cluster.Queue.Nominator().Dump() {
		nominated = append(nominated, fmt.Sprintf("nominated %s for %s", n.Pod.Name, n.Node))
	}
	slices.Sort(nominated)
	if len(nominated) > 0 {
		fmt.Fprintln(&s.out, strings.Join(nominated, "\n"))
	}
}
