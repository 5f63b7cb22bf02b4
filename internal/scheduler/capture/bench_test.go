// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/internal/interning"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/workload"
)

// largeInput returns a cluster as the informers have it. There is a PodGroup for 25 pods, of each
// API in turn, and their decisions are in racks.
func largeInput(tb testing.TB, nodes, pods, decisions int) *Input {
	tb.Helper()
	in := &Input{Header: Header{Time: time.Unix(1700000000, 0)}}
	transform := interning.NewTransform(true)
	for i := range nodes {
		node := workload.RunNode(workload.Node(i), i)
		if _, err := transform(node); err != nil {
			tb.Fatal(err)
		}
		in.Nodes = append(in.Nodes, node)
	}
	kind := workload.Pods{Kind: workload.Mixed, Series: pods / 100}
	for i := range pods {
		pod := workload.Run(workload.Admit(kind.Pod(i)), i, workload.NodeName(i%nodes))
		if pod.UID == "" {
			pod.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		}
		if group := fmt.Sprintf("group-%d", i/25); i/25%2 == 0 {
			pod.Labels[podgroup.Label] = group
		} else {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		}
		if _, err := transform(pod); err != nil {
			tb.Fatal(err)
		}
		in.Pods = append(in.Pods, pod)
	}
	for i := range pods / 25 {
		meta := metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("group-%d", i),
			UID: types.UID(fmt.Sprintf("00000000-0000-4000-9000-%012d", i))}
		if i%2 == 0 {
			meta.Annotations = map[string]string{podgroup.AnnotationRequired: "example.com/rack"}
			in.Objects = append(in.Objects,
				pluginsPodGroup(tb, &podgroup.Object{ObjectMeta: meta, Spec: podgroup.ObjectSpec{MinMember: 25}}))
			continue
		}
		group := &schedulingv1beta1.PodGroup{ObjectMeta: meta}
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 25}
		group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: "example.com/rack"}}}
		in.Objects = append(in.Objects, group)
	}
	for i := range decisions {
		pod := in.Pods[pods-decisions+i]
		in.Decisions = append(in.Decisions, decisionlog.Decision{
			Number: decisionlog.Number(i + 1), Pod: pod.UID, Time: time.Unix(1700000000, int64(i)), Attempt: 1,
			Profile: "mine", Revision: "pdh8zspwhj",
			Changes: uint64(i), Nodes: nodes, Evaluated: nodes, Feasible: nodes, Node: pod.Spec.NodeName, Total: 500,
			Tied: 7, Result: decisionlog.Bound,
			Domain: podgroup.Domain{{Key: "example.com/rack", Value: fmt.Sprintf("rack-%d", i/25%100)}},
		})
	}
	return in
}

func BenchmarkWrite(b *testing.B) {
	in := largeInput(b, 5000, 50_000, 10_000)
	for _, redacted := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "redacted"}[redacted], func(b *testing.B) {
			var out bytes.Buffer
			for b.Loop() {
				out.Reset()
				if err := Write(b.Context(), &out, in, redacted); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(out.Len())/1e6, "MB")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	var out bytes.Buffer
	if err := Write(b.Context(), &out, largeInput(b, 5000, 50_000, 10_000), true); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		snapshot, err := Read(bytes.NewReader(out.Bytes()), DefaultLimits)
		if err != nil || len(snapshot.Pods) != 50_000 {
			b.Fatal(err)
		}
	}
}
