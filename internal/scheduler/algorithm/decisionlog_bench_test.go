// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

// BenchmarkDecisionLog measures what the decision log costs: livesched places the same pods with
// and without it, in turns of 500 pods. It reports the medians of the turns.
//
//	go test -run '^$' -bench DecisionLog -benchtime 40x ./internal/scheduler/algorithm
func BenchmarkDecisionLog(b *testing.B) {
	const nodes = 5000
	for _, kind := range workload.Kinds {
		b.Run(fmt.Sprintf("%s/%d", kind, nodes), func(b *testing.B) {
			measureWith(b, decidebench.Recorded, workload.Pods{Kind: kind, Nodes: nodes})
		})
	}
}

// BenchmarkShadow measures in the same way what a shadow of the same spec costs that makes every
// decision, too.
//
//	go test -run '^$' -bench Shadow -benchtime 40x ./internal/scheduler/algorithm
func BenchmarkShadow(b *testing.B) {
	const nodes = 5000
	for _, kind := range workload.Kinds {
		b.Run(fmt.Sprintf("%s/%d", kind, nodes), func(b *testing.B) {
			measureWith(b, decidebench.Shadowed, workload.Pods{Kind: kind, Nodes: nodes})
		})
	}
}

// measureWith compares livesched with a contender.
func measureWith(b *testing.B, contender string, from workload.Pods) {
	const turn = 500
	contenders := []string{decidebench.Livesched, contender}
	var clusters []decidebench.Cluster
	for _, contender := range contenders {
		cluster, err := decidebench.New(contender)
		if err != nil {
			b.Fatal(err)
		}
		defer cluster.Close()
		for i := range from.Nodes {
			cluster.AddNode(workload.Node(i))
		}
		clusters = append(clusters, cluster)
	}
	made := 0
	// place places the next pods on each cluster, and returns the CPU time per pod. The clusters
	// take turns in being first.
	place := func(n, first int) (us [2]float64) {
		pods := make([]*corev1.Pod, n)
		for i := range pods {
			pods[i] = workload.Admit(from.Pod(made))
			pods[i].UID = uuid.NewUUID() // as the API server makes them
			made++
		}
		for i := range clusters {
			at := (first + i) % len(clusters)
			before := decidebench.CPUTime()
			for _, pod := range pods {
				if _, err := clusters[at].Place(pod); err != nil {
					b.Fatal(err)
				}
			}
			us[at] = float64((decidebench.CPUTime() - before).Nanoseconds()) / float64(n) / 1000
		}
		return us
	}
	place(warmUp, 0)
	var without, with, ratios []float64
	for i := range b.N {
		us := place(turn, i%2)
		without, with, ratios = append(without, us[0]), append(with, us[1]), append(ratios, us[1]/us[0])
	}
	b.ReportMetric(median(without), "us/pod-without")
	b.ReportMetric(median(with), "us/pod-with")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(0, "ns/op")
}

func median(numbers []float64) float64 {
	slices.Sort(numbers)
	return numbers[len(numbers)/2]
}
