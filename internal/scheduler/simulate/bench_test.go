// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/simulate"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// BenchmarkSimulate decides 2,000 of 50,000 pods on 5,000 nodes again, with two configurations:
// from the fork until it is closed.
//
//	go test -run '^$' -bench Simulate ./internal/scheduler/simulate
func BenchmarkSimulate(b *testing.B) {
	c := newCluster(b, sidebyside.FastPath)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 5000 {
		name := fmt.Sprintf("n%d", i)
		c.node(name, fmt.Sprintf("z%d", i%3), fmt.Sprintf("pool-%d", i%5))
		for j := range 10 {
			p := randomPod(random, 10*i+j)
			p.Spec.Containers[0].Resources = objects.Requests("500m", "100Mi")
			c.run(p, name)
		}
	}
	last := simulate.Selection{Type: v1alpha1.PodsLast, Limit: simulate.DefaultPods, Labels: labels.Everything()}
	changes := map[string]*config.Profile{"mine": resolve(b, binpack)}
	b.ReportAllocs()
	for b.Loop() {
		k, err := c.Forker.Fork(b.Context())
		c.must(err)
		status, err := simulate.Run(b.Context(), k, simulate.Request{Pods: last, Changes: changes})
		c.must(err)
		if status.Pods != simulate.DefaultPods || status.New.Moved == 0 {
			b.Fatalf("got %+v", status)
		}
		k.Close()
	}
}
