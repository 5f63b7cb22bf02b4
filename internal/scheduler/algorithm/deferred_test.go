// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/test/workload"
)

// TestRefusalsOfAClassCostNoPreFilter counts the calls of PreFilter for pods that fit nowhere,
// after a pod is placed or a node is added before each. Those of the plugins that look at all nodes
// would cost each pod hundreds of microseconds in a large cluster.
func TestRefusalsOfAClassCostNoPreFilter(t *testing.T) {
	const pods = 10
	w := newAlike(t, 4)
	nobody := podOf("basic", 0)
	nobody.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey:   corev1.LabelTopologyZone,
			LabelSelector: metav1.SetAsLabelSelector(map[string]string{"app": "nobody"}),
		}},
	}}
	for name, pod := range map[string]*corev1.Pod{"too large": bigPod(), "beside nobody": nobody} {
		_ = w.refused(pod)
		before := w.preFilters()
		for i := range pods {
			if i%2 == 0 {
				w.place(w.another(podOf("basic", i)), workload.NodeName(i%4), cache.Class{})
			} else {
				node := workload.Node(len(w.nodes))
				w.nodes = append(w.nodes, node)
				w.cache.AddNode(klog.FromContext(w.ctx), node)
			}
			_ = w.refused(pod)
		}
		after := w.preFilters()
		if got := after[names.InterPodAffinity] - before[names.InterPodAffinity]; got != 0 {
			t.Errorf("%s: PreFilter of InterPodAffinity has run %d times for %d pods", name, got, pods)
		}
		if got := after[names.NodeResourcesFit] - before[names.NodeResourcesFit]; got > 1 {
			t.Errorf("%s: PreFilter of NodeResourcesFit has run %d times for %d pods, want once for their class",
				name, got, pods)
		}
	}
}

// preFilters returns how often PreFilter of plugins has run and was not skipped.
func (a *alike) preFilters() map[string]int {
	a.t.Helper()
	calls := map[string]int{}
	for _, plugin := range []string{names.InterPodAffinity, names.NodeResourcesFit} {
		n, err := testutil.GetCounterMetricValue(schedmetrics.PluginEvaluationTotal.WithLabelValues(plugin,
			schedmetrics.PreFilter, a.profile.Framework.ProfileName()))
		a.must(err)
		calls[plugin] = int(n)
	}
	return calls
}
