// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/simulate"
)

// TestSimulatedGroups compares simulations with the loop on random clusters, for groups of equal
// pods: as many of them get a node, as many pods are evicted for them, and no simulation changes
// the cluster.
func TestSimulatedGroups(t *testing.T) {
	placed, preempted, refused := 0, 0, 0
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 17))
			w := newGroupWorld(t)
			for i := range 1 + random.IntN(6) {
				node, cpus := fmt.Sprintf("n%d", i), 1+random.IntN(4)
				w.addNode(node, fmt.Sprint(cpus), "rack", fmt.Sprint("r", i%3))
				for used := range cpus {
					if random.IntN(3) > 0 {
						w.addRunning(fmt.Sprintf("r%d-%d", i, used), node, "1", int32(random.IntN(3)*60))
					}
				}
			}
			pods := 1 + random.IntN(8)
			topology := podgroup.Topology{}
			if random.IntN(2) == 0 {
				topology.Required = "rack"
			}
			w.setTopology(1+random.IntN(pods), topology)
			var pending []*corev1.Pod
			for i := range pods {
				pending = append(pending, w.addPod(fmt.Sprintf("m%d", i), "1", withPriority(100)))
			}
			before := w.state()
			simulated := w.simulate(pending, seed)
			w.Expect(w.state()).To(Equal(before))

			scheduled := w.schedule()
			victims := w.evicted()
			w.end(scheduled)
			w.Expect(simulated.Victims).To(BeEquivalentTo(len(victims)), "%+v", simulated)
			switch {
			case len(scheduled) > 0:
				placed++
				w.Expect(simulated.Unplaced).To(BeEquivalentTo(pods - len(scheduled)))
			case len(victims) > 0:
				preempted++
				w.gone(victims...)
				w.retry()
				scheduled = w.schedule()
				w.end(scheduled)
				w.Expect(simulated.Unplaced).To(BeEquivalentTo(pods - len(scheduled)))
			default:
				refused++
				w.Expect(simulated.Unplaced).To(BeEquivalentTo(pods))
				w.Expect(simulated.UnplacedPods[0].Message).To(Equal(w.reasons["m0"]))
			}
		})
	}
	if placed == 0 || preempted == 0 || refused == 0 {
		t.Errorf("%d groups were placed, %d preempted, and %d were refused: the test should see all of them", placed,
			preempted, refused)
	}
}

// simulate decides the pending pods of the group in a simulation.
func (w *groupWorld) simulate(pending []*corev1.Pod, seed uint64) v1alpha1.SimulationOutcome {
	k, err := w.cluster.Forker.Fork(w.ctx)
	w.Expect(err).NotTo(HaveOccurred())
	defer k.Close()
	status, err := simulate.Run(w.ctx, k, simulate.Request{
		Pods:    simulate.Selection{Type: v1alpha1.PodsPending, Limit: simulate.MaxPods, Labels: labels.Everything()},
		Pending: pending, Seed: seed,
	})
	w.Expect(err).NotTo(HaveOccurred())
	return status.Current
}
