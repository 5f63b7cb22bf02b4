// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/internal/scheduler/simulate"
	"github.com/livesched/livesched/test/sidebyside"
)

func TestTheCensusFollowsASimulation(t *testing.T) {
	evictions := 0
	for seed := range uint64(40) {
		c := newCluster(t, sidebyside.FastPath)
		random := rand.New(rand.NewPCG(seed, 4))
		pending := c.fill(random, 9, 70)
		for i := range 4 {
			pending = append(pending, important(1000+i, "5"))
		}
		c.endSome(random)
		r := simulate.Request{Pods: all(), Pending: pending, Seed: seed}
		r.Pods.Limit = len(pending) + random.IntN(40)
		if random.IntN(2) == 0 {
			r.Nodes = simulate.Nodes{
				Remove: []string{"n002", "n005", "n008"}, // a zone
				Add:    []simulate.Addition{{Like: "n001", Count: random.IntN(3)}},
			}
		}
		followed, counted, evicted, err := simulate.CountsOf(t.Context(), c.fork(), r)
		c.must(err)
		evictions += evicted
		if diff := cmp.Diff(counted, followed); diff != "" {
			t.Errorf("seed %d: %s", seed, diff)
		}
	}
	if evictions == 0 {
		t.Error("no pod was evicted")
	}
}

// endSome gives some pods a deletion timestamp, and a DaemonSet as their owner to others.
func (c *cluster) endSome(random *rand.Rand) {
	c.Helper()
	for _, node := range c.Cache.Dump().Nodes {
		for _, info := range node.Pods {
			p := info.GetPod().DeepCopy()
			switch random.IntN(8) {
			case 0:
				p.DeletionTimestamp = &metav1.Time{Time: p.CreationTimestamp.Time}
			case 1:
				p.OwnerReferences[0].Kind, p.OwnerReferences[0].UID = "DaemonSet", "daemons"
			default:
				continue
			}
			c.must(c.objects.Put(p))
			c.must(c.Cache.AddPod(logr.Discard(), p))
		}
	}
}
