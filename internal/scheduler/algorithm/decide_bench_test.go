// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/metrics"
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
		for _, kind := range slices.Concat(workload.Kinds, workload.ClaimKinds) {
			for _, contender := range decidebench.Contenders {
				b.Run(fmt.Sprintf("%s/%d/%s", kind, nodes, contender), func(b *testing.B) {
					measureDecisions(b, workload.Pods{Kind: kind, Nodes: nodes}, contender,
						decidebench.Profiles{Number: 1})
				})
			}
		}
	}
}

// BenchmarkDecideProfiles measures what a decision costs if many profiles decide in turn, each
// about pods of one class: the share of decisions on the fast path, and the heap with the cluster
// and all profiles. Three pods of each profile are placed before the measurement.
func BenchmarkDecideProfiles(b *testing.B) {
	for _, profiles := range []decidebench.Profiles{{Number: 1}, {Number: 200}, {Number: 1000},
		{Number: 1000, Unlike: true}} {
		for _, nodes := range []int{1000, 5000} {
			for _, kind := range []string{workload.Basic, workload.Owned, workload.Anti} {
				alike := "alike"
				if profiles.Unlike {
					alike = "unlike"
				}
				b.Run(fmt.Sprintf("%s/%d/%d-%s", kind, nodes, profiles.Number, alike), func(b *testing.B) {
					measureDecisions(b, workload.Pods{Kind: kind, Nodes: nodes}, decidebench.Livesched, profiles)
				})
			}
		}
	}
}

func measureDecisions(b *testing.B, from workload.Pods, contender string, profiles decidebench.Profiles) {
	cluster, err := decidebench.NewWithProfiles(contender, profiles)
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	for i := range from.Nodes {
		cluster.AddNode(workload.Node(i))
		if from.Kind == workload.Limited || from.Kind == workload.InTree {
			if err := cluster.AddCSINode(workload.CSINode(i)); err != nil {
				b.Fatal(err)
			}
		}
	}
	warmUp := max(warmUp, 3*profiles.Number) // groups are made for the third pod of a class
	pods := make([]*corev1.Pod, warmUp+b.N)
	for i := range pods {
		pods[i] = workload.Admit(from.Pod(i))
		if slices.Contains(workload.ClaimKinds, from.Kind) {
			if err := cluster.AddClaim(from.Claim(i)); err != nil {
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
	before, fast := decidebench.CPUTime(), fastDecisions(b)
	b.ResetTimer()
	place(pods[warmUp:])
	b.StopTimer()
	b.ReportMetric(float64((decidebench.CPUTime()-before).Nanoseconds())/float64(b.N)/1000, "cpu-us/pod")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "us/pod")
	b.ReportMetric(0, "ns/op")
	if contender == decidebench.Livesched {
		b.ReportMetric(100*float64(fastDecisions(b)-fast)/float64(b.N), "fast-%")
	}
	if profiles.Number > 1 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		b.ReportMetric(float64(stats.HeapAlloc)/(1<<20), "heap-MiB")
	}
	runtime.KeepAlive(cluster)
}

// fastDecisions returns the number of decisions on the fast path.
func fastDecisions(b *testing.B) int {
	var m dto.Metric
	if err := metrics.Decisions.WithLabelValues(metrics.PathFast, "").Write(&m); err != nil {
		b.Fatal(err)
	}
	return int(m.GetCounter().GetValue())
}
