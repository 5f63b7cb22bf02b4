// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/internal/interning"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/test/workload"
)

// largeInput returns a cluster as the informers have it.
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
		if _, err := transform(pod); err != nil {
			tb.Fatal(err)
		}
		in.Pods = append(in.Pods, pod)
	}
	for i := range decisions {
		pod := in.Pods[pods-decisions+i]
		in.Decisions = append(in.Decisions, decisionlog.Decision{
			Number: decisionlog.Number(i + 1), Pod: pod.UID, Time: time.Unix(1700000000, int64(i)), Attempt: 1, Profile: "mine", Revision: "pdh8zspwhj",
			Snapshot: uint64(i), Nodes: nodes, Evaluated: nodes, Feasible: nodes, Node: pod.Spec.NodeName, Total: 500, Tied: 7, Result: decisionlog.Bound,
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
