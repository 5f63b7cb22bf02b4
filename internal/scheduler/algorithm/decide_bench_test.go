// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

// warmUp is the number of pods that are scheduled before the measurement: several of each class.
const warmUp = 200

// BenchmarkDecide measures what a decision costs in the scheduling loop; see package decidebench.
// hack/bench decision measures the same with the contenders in turn, for the tables in
// docs/compare/performance.md; this is for profiles:
//
//	go test -run '^$' -bench 'Decide/anti/5000/livesched$' -benchtime 2000x -cpuprofile cpu.out ./internal/scheduler/algorithm
func BenchmarkDecide(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 15000} {
		for _, kind := range append(slices.Clone(workload.Kinds), workload.Claims) {
			for _, contender := range decidebench.Contenders {
				b.Run(fmt.Sprintf("%s/%d/%s", kind, nodes, contender), func(b *testing.B) {
					measureDecisions(b, workload.Pods{Kind: kind, Nodes: nodes}, contender)
				})
			}
		}
	}
}

func measureDecisions(b *testing.B, from workload.Pods, contender string) {
	cluster, err := decidebench.New(contender)
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	for i := range from.Nodes {
		cluster.AddNode(workload.Node(i))
	}
	pods := make([]*corev1.Pod, warmUp+b.N)
	for i := range pods {
		pods[i] = workload.Admit(from.Pod(i))
		if from.Kind == workload.Claims {
			if err := cluster.AddClaim(workload.Claim(i)); err != nil {
				b.Fatal(err)
			}
		}
	}
	place := func(pods []*corev1.Pod) {
		for _, pod := range pods {
			if _, err := cluster.Place(pod); err != nil {
				b.Fatal(err)
			}
		}
	}
	place(pods[:warmUp])
	b.ReportAllocs()
	before := decidebench.CPUTime()
	b.ResetTimer()
	place(pods[warmUp:])
	b.StopTimer()
	b.ReportMetric(float64((decidebench.CPUTime()-before).Nanoseconds())/float64(b.N)/1000, "cpu-us/pod")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "us/pod")
	b.ReportMetric(0, "ns/op")
}
