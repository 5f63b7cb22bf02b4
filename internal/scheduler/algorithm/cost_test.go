// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/workload"
)

// TestADecisionLooksAtFewNodes counts the nodes that a decision about a pod of a class that is
// known looks at. With 20 classes in turn, 20 nodes have changed since the last pod like it: the
// twins and groups look at these, at most, and at one node of each group.
func TestADecisionLooksAtFewNodes(t *testing.T) {
	const classes, most = 20, 100
	for _, kind := range []string{"basic", "owned", "spread", "anti", "affinity", "mixed"} {
		for _, nodes := range []int{400, 2000} {
			t.Run(fmt.Sprintf("%s/%d", kind, nodes), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 1, 0)
				service := workload.Service()
				service.ResourceVersion = "1"
				w.must(w.handle.SharedInformerFactory().Core().V1().Services().Informer().GetIndexer().Add(service))
				place := w.decider(nodes)
				for i := range 10 * classes {
					place(podOf(kind, i))
					// The first pod of a class may find nothing to keep off, the second does and
					// takes a pass over all nodes, with the third its groups are made.
					if looked := w.ours.fast.rows.Looked(); i >= 3*classes && looked > most {
						t.Fatalf("the decision about pod %d looked at %d nodes, want %d at most", i, looked, most)
					}
				}
			})
		}
	}
}

// podOf returns the i-th pod of a kind.
func podOf(kind string, i int) *corev1.Pod {
	return workload.Admit(workload.Pods{Kind: kind}.Pod(i))
}

// decider adds nodes, and returns what decides about a pod on these and assumes it.
func (w *world) decider(nodes int) func(*corev1.Pod) {
	logger := klog.FromContext(w.ctx)
	for i := range nodes {
		w.cache.AddNode(logger, workload.Node(i))
	}
	profile := w.profile("default-scheduler", func(*schedconfig.KubeSchedulerProfile) {})
	return func(pod *corev1.Pod) {
		w.must(w.cache.UpdateSnapshot(logger, w.snapshot))
		result, err := w.ours.Schedule(w.ctx, profile, schedframework.NewCycleState(), pod)
		w.must(err)
		assumed := *pod
		assumed.Spec.NodeName = result.SuggestedHost
		if result.Class.Like == nil { // on the scalar path
			w.must(w.cache.AddPod(logger, &assumed))
			return
		}
		w.must(w.cache.AssumePodOfClass(logger, &assumed, result.Class))
	}
}
