// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/internal/scheduler/explain"
)

// BenchmarkExplain explains a pod in a cluster of 5,000 nodes with 50,000 pods, while 10,000 pods
// are pending: from the fork until it is closed.
//
//	go test -run '^$' -bench Explain ./internal/scheduler/explain
func BenchmarkExplain(b *testing.B) {
	c := newCluster(b)
	for i := range 5000 {
		name, pool := fmt.Sprintf("n%d", i), fmt.Sprintf("pool-%d", i%5)
		c.node(name, pool, "10", "64Gi", func(n *corev1.Node) {
			n.Labels[corev1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i%3)
			if i%5 == 4 {
				tainted("dedicated")(n)
			}
		})
		for j := range 10 {
			c.run(pod(fmt.Sprintf("p%d-%d", i, j), "950m", "1Gi",
				func(p *corev1.Pod) { p.Labels = map[string]string{"app": "a"} }), name)
		}
	}
	for i := range 10000 {
		c.Queue.Add(logr.Discard(), pod(fmt.Sprintf("pending-%d", i), "2", "1Gi"))
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	for name, change := range map[string]func(*corev1.Pod){
		"Resources": func(*corev1.Pod) {},
		"SpreadAndAntiAffinity": func(p *corev1.Pod) {
			p.Labels = selector.MatchLabels
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: selector,
			}}
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: corev1.LabelHostname, LabelSelector: selector}},
			}}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k, err := c.Forker.Fork(b.Context())
				c.must(err)
				_, _ = c.Queue.Wait("pending-1")
				x, err := explain.Explain(b.Context(), k,
					explain.Pending{Pod: pod("explained", "2", "1Gi", change), Now: time.Now()})
				c.must(err)
				if x.Feasible > 0 || len(x.Pending.Groups) == 0 {
					b.Fatalf("got %+v", x.PodExplanation)
				}
				k.Close()
			}
		})
	}
}
