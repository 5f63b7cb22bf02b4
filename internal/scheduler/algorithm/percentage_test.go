// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/workload"
)

// sampled is a world of equal nodes, and profiles for which 40 per cent of them suffice: the
// default one, and one with Whim, which does not declare what it depends on.
func sampled(t *testing.T, nodes int) (w *world, ordinary, opaque Params) {
	w = newWorld(t, seed, 0)
	for i := range nodes {
		w.cache.AddNode(klog.FromContext(w.ctx), workload.Node(i))
	}
	w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
	ordinary = w.profile("ordinary", func(*schedconfig.KubeSchedulerProfile) {})
	opaque = w.profile("opaque", func(p *schedconfig.KubeSchedulerProfile) {
		p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, schedconfig.Plugin{Name: "Whim", Weight: 1})
	})
	ordinary.PercentageOfNodesToScore, opaque.PercentageOfNodesToScore = 40, 40
	return w, ordinary, opaque
}

// podOfWhim returns the i-th pod, or one with a higher number, that Whim neither skips nor rejects,
// and for which Whim names no nodes.
func podOfWhim(i int) *corev1.Pod {
	for {
		pod := podOf("basic", i)
		if n := (whim{}).of(pod.Name) % 20; n > 8 {
			return pod
		}
		i += 1000
	}
}

func TestPercentageBoundsTheNodesOfUncachedPlugins(t *testing.T) {
	const nodes, enough = 500, 200
	w, ordinary, opaque := sampled(t, nodes)
	schedule := func(p Params, pod *corev1.Pod) Decision {
		t.Helper()
		decision, err := w.ours.Decide(w.ctx, p, schedframework.NewCycleState(), pod)
		w.must(err)
		return decision
	}
	if got := schedule(ordinary, podOf("basic", 0)); got.FeasibleNodes != nodes || got.EvaluatedNodes != nodes ||
		got.Partial {
		t.Errorf("rows looked at %d nodes and found %d: %+v", got.EvaluatedNodes, got.FeasibleNodes, got.Result)
	}
	seen := sets.New[string]()
	for i := range 30 {
		got := schedule(opaque, podOfWhim(i))
		if got.FeasibleNodes != enough || got.EvaluatedNodes < enough || got.EvaluatedNodes >= nodes || !got.Partial {
			t.Fatalf("%d nodes were found, want %d: %+v", got.FeasibleNodes, enough, got.Result)
		}
		seen.Insert(got.SuggestedHost)
	}
	if len(seen) < 3 {
		t.Errorf("all pods went to %v", sets.List(seen))
	}
	w.ours.cfg.Engine = nil
	if got := schedule(ordinary, podOf("basic", 1)); got.FeasibleNodes != enough || !got.Partial {
		t.Errorf("without the fast path %d nodes were found, want %d: %+v", got.FeasibleNodes, enough, got.Result)
	}
}

func TestVerifyUsesAllNodesWhateverThePercentage(t *testing.T) {
	const nodes = 300
	w, ordinary, opaque := sampled(t, nodes)
	w.ours.cfg.Verify = true
	before := testutil.ToFloat64(metrics.FastPathDifferences)
	for i := range 20 {
		for _, p := range []Params{ordinary, opaque} {
			pod := podOfWhim(i)
			result, err := w.ours.Decide(w.ctx, p, schedframework.NewCycleState(), pod)
			w.must(err)
			if result.EvaluatedNodes != nodes {
				t.Fatalf("%d nodes were looked at", result.EvaluatedNodes)
			}
		}
	}
	if n := testutil.ToFloat64(metrics.FastPathDifferences) - before; n != 0 {
		t.Errorf("%v differences", n)
	}
}

func TestDecisionsThatRunPluginsAreCounted(t *testing.T) {
	w, ordinary, opaque := sampled(t, 10)
	for reason, test := range map[string]struct {
		profile Params
		pod     *corev1.Pod
	}{
		"":               {ordinary, podOf("basic", 0)},
		"volumes":        {ordinary, podOf(workload.Claims, 0)},
		"unknown_plugin": {opaque, podOfWhim(0)},
	} {
		if reason == "volumes" {
			claim, volume := workload.Pods{Kind: workload.Claims}.Claim(0)
			w.put(w.claimIndexer(), claim)
			w.put(w.volumeIndexer(), volume)
		}
		counter := metrics.Decisions.WithLabelValues(metrics.PathFast, reason)
		before := testutil.ToFloat64(counter)
		test.pod.UID = types.UID(fmt.Sprint("counted-", reason))
		if _, err := w.ours.Decide(w.ctx, test.profile, schedframework.NewCycleState(), test.pod); err != nil {
			t.Fatal(err)
		}
		if n := testutil.ToFloat64(counter) - before; n != 1 {
			t.Errorf("%v decisions were counted under %q", n, reason)
		}
	}
}
