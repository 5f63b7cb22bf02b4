// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkSchedule measures one decision of the default profile over all nodes on a cluster that
// does not change, with livesched and with kube-scheduler. The figure that matters is us/pod.
func BenchmarkSchedule(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		ctx := quiet(b)
		g := newGenerator(seed, uint64(nodes))
		g.rarity = 20
		o := newOracle(ctx, b, setup{percentage: 100, parallelism: 16})
		made := o.fill(g, nodes, 4)
		var pods []*corev1.Pod
		for range 50 {
			pods = append(pods, g.pod(made))
		}
		measure := func(name string, decide func(*corev1.Pod) error) {
			b.Run(fmt.Sprintf("nodes=%d/%s", nodes, name), func(b *testing.B) {
				b.ReportAllocs()
				fitted := 0
				for i := 0; b.Loop(); i++ {
					if decide(pods[i%len(pods)]) == nil {
						fitted++
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "us/pod")
				b.ReportMetric(float64(fitted)/float64(b.N), "fitted/pod")
			})
		}
		measure("livesched", func(pod *corev1.Pod) error { _, err := o.ourDecision(pod); return err })
		measure("kube-scheduler", func(pod *corev1.Pod) error { _, err := o.upstreamDecision(pod); return err })
	}
}
