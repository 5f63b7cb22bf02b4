// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/interning"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/scheduler/simulate"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// BenchmarkSimulate decides 2,000 of 50,000 pods on 5,000 nodes again, with two configurations:
// from the fork until it is closed. "small" decides 300 of 10,000 pods on 1,000 nodes, and
// "backlog" 300 of 5,000 pods that are pending there. With "preempting", 500 more pods fit nowhere
// and preempt others; with "spread", 50 that are spread over zones do, which leaves less to reuse.
//
//	go test -run '^$' -bench Simulate ./internal/scheduler/simulate
func BenchmarkSimulate(b *testing.B) {
	for _, test := range []struct {
		name        string
		nodes, pods int
		pending     int
		preemptors  int
		spread      bool
	}{
		{name: "placing", nodes: 5000, pods: simulate.DefaultPods},
		{name: "small", nodes: 1000, pods: 300},
		{name: "backlog", nodes: 1000, pods: 300, pending: 5000},
		{name: "preempting", nodes: 5000, pods: simulate.DefaultPods, preemptors: 500},
		{name: "spread", nodes: 5000, pods: simulate.DefaultPods, preemptors: 50, spread: true},
	} {
		b.Run(test.name, func(b *testing.B) {
			c := newCluster(b, sidebyside.FastPath)
			random := rand.New(rand.NewPCG(1, 1))
			intern := interning.NewTransform(true)
			for i := range test.nodes {
				name := fmt.Sprintf("n%d", i)
				c.node(name, fmt.Sprintf("z%d", i%3), fmt.Sprintf("pool-%d", i%5))
				for j := range 10 {
					p := randomPod(random, 10*i+j)
					p.Spec.Containers[0].Resources = objects.Requests("500m", "100Mi")
					p.Spec.NodeName = name
					_, err := intern(p)
					c.must(err)
					c.must(c.objects.Put(p))
					c.must(c.Cache.AddPod(logr.Discard(), p))
				}
			}
			r := simulate.Request{
				Pods:    simulate.Selection{Type: v1alpha1.PodsAll, Limit: test.pods, Labels: labels.Everything()},
				Changes: map[string]*resolve.Profile{"mine": resolved(b, binpack)},
			}
			for i := range test.pending {
				r.Pending = append(r.Pending, randomPod(random, 1_000_000+i))
			}
			for i := range test.preemptors {
				p := important(100000+i, "6")
				if test.spread {
					p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
						LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
					}}
				}
				r.Pending = append(r.Pending, p)
			}
			b.ReportAllocs()
			for b.Loop() {
				k, err := c.Forker.Fork(b.Context())
				c.must(err)
				status, err := simulate.Run(b.Context(), k, r)
				c.must(err)
				if int(status.Pods) != test.pods || status.New.Moved == 0 ||
					int(status.Current.Preemptions) != test.preemptors {
					b.Fatalf("got %+v", status)
				}
				k.Close()
			}
		})
	}
}
