// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	schedpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// collector collects the victims of the node that upstream chooses, which upstream's executor would
// evict. The context of a preemption carries it, because upstream's PreemptPod has no parameter for
// the caller's data. The executor calls PreemptPod from several goroutines, and waits for them.
type collector struct {
	mu      sync.Mutex // guards the fields below until the executor has returned
	node    string
	victims []*corev1.Pod
}

type collectorKey struct{}

func (c *collector) add(node string, victim *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node = node
	c.victims = append(c.victims, victim)
}

// newExecutor returns an executor that passes the victims to the collector of the context. It works
// synchronously, because it never waits. With groups, it makes evaluators look for groups in their
// snapshot, which must then have them; see units.
func newExecutor(handle fwk.Handle, groups bool) *schedpreemption.Executor {
	features := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	features.EnableAsyncPreemption = false
	features.EnableGenericWorkload, features.EnableCompositePodGroup = groups, false
	executor := schedpreemption.NewExecutor(withoutNominations{handle}, features)
	executor.PreemptPod = func(
		ctx context.Context, candidate schedpreemption.Candidate, _ schedpreemption.ExecutorPreemptor,
		victim *corev1.Pod, _ string,
	) (preemptedInMemory bool, _ error) {
		if c, ok := ctx.Value(collectorKey{}).(*collector); ok {
			c.add(candidate.Name(), victim)
		}
		return false, nil
	}
	return executor
}

// withoutNominations hides nominated pods from upstream's executor. The executor would clear
// nominations by calls to the API server while the scheduling loop waits; the Evictor does so in
// the background.
type withoutNominations struct{ fwk.Handle }

// NominatedPodsForNode implements fwk.PodNominator.
func (withoutNominations) NominatedPodsForNode(string) []fwk.PodInfo { return nil }
