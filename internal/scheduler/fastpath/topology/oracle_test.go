// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// profile holds the arguments of both plugins, and upstream's plugins made from them.
type profile struct {
	spread   *schedconfig.PodTopologySpreadArgs
	affinity *schedconfig.InterPodAffinityArgs
	features feature.Features
	sources  *Sources
	plugins  [2]plugin // in the order of class.crosses
}

// plugin has the methods that both plugins share.
type plugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PreScorePlugin
	fwk.ScorePlugin
}

// handle has what the plugins need of the framework.
type handle struct {
	fwk.Handle
	snapshot *cache.Snapshot
	factory  informers.SharedInformerFactory
}

func (h handle) SnapshotSharedLister() fwk.SharedLister                 { return h.snapshot }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h handle) Parallelizer() fwk.Parallelizer {
	return inline{parallelize.NewParallelizer(1)}
}

// inline runs everything on the caller's goroutine.
type inline struct{ fwk.Parallelizer }

func (inline) Until(_ context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	for i := range pieces {
		do(i)
	}
}

// gates returns the defaults of 1.37.
func gates() feature.Features {
	return feature.Features{EnableNodeInclusionPolicyInPodTopologySpread: true,
		EnableMatchLabelKeysInPodTopologySpread: true}
}

// profiles returns the profiles of the pods.
func profiles(t testing.TB, c *cluster) []*profile {
	system := &schedconfig.PodTopologySpreadArgs{DefaultingType: schedconfig.SystemDefaulting}
	list := func(constraints ...corev1.TopologySpreadConstraint) *schedconfig.PodTopologySpreadArgs {
		return &schedconfig.PodTopologySpreadArgs{DefaultingType: schedconfig.ListDefaulting,
			DefaultConstraints: constraints}
	}
	hard := corev1.TopologySpreadConstraint{MaxSkew: 2, TopologyKey: zone, WhenUnsatisfiable: corev1.DoNotSchedule}
	soft := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: rack, WhenUnsatisfiable: corev1.ScheduleAnyway}
	perNode := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: hostname,
		WhenUnsatisfiable: corev1.ScheduleAnyway}
	comparing, early := gates(), gates()
	comparing.EnableTaintTolerationComparisonOperators = true
	early.EnableNodeInclusionPolicyInPodTopologySpread, early.EnableMatchLabelKeysInPodTopologySpread = false, false
	made := []*profile{
		{spread: system, affinity: &schedconfig.InterPodAffinityArgs{HardPodAffinityWeight: 1}, features: gates()},
		{spread: list(hard, soft, perNode), affinity: &schedconfig.InterPodAffinityArgs{HardPodAffinityWeight: 100},
			features: comparing},
		{spread: list(), affinity: &schedconfig.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true,
			HardPodAffinityWeight: 7}, features: gates()},
		{spread: list(soft), affinity: &schedconfig.InterPodAffinityArgs{}, features: early},
	}
	for _, p := range made {
		p.sources = NewSources(c.snapshot, c.factory, p.features)
		p.plugins = [2]plugin{
			newPlugin(t, c, podtopologyspread.New, p.spread, p.features),
			newPlugin(t, c, interpodaffinity.New, p.affinity, p.features),
		}
	}
	return made
}

func newPlugin(t testing.TB, c *cluster,
	factory func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error),
	args runtime.Object, features feature.Features) plugin {
	t.Helper()
	made, err := factory(t.Context(), args, handle{snapshot: c.snapshot, factory: c.factory}, features)
	if err != nil {
		t.Fatal(err)
	}
	return made.(plugin)
}

// Spread returns the twin for the constraints of a pod, nil if it has none.
func (s *Sources) Spread(args *schedconfig.PodTopologySpreadArgs, pod *corev1.Pod) (Tracker, error) {
	constraints, err := s.SpreadConstraints(args, pod)
	if constraints == nil || err != nil {
		return nil, err
	}
	return constraints.Tracker(), nil
}

// verdicts returns a plugin's filter results for a pod, by slot.
func verdicts(ctx context.Context, t testing.TB, p plugin, s *cache.Snapshot, pod *corev1.Pod) []*fwk.Status {
	t.Helper()
	state := schedframework.NewCycleState()
	nodes, _ := s.List()
	statuses := make([]*fwk.Status, s.Slots())
	result, status := p.PreFilter(ctx, state, pod, nodes)
	if status.IsSkip() {
		return statuses
	}
	if !status.IsSuccess() || result != nil {
		t.Fatalf("PreFilter of %s: %v, %v", p.Name(), result, status)
	}
	for slot := range statuses {
		if info := s.Info(cache.Slot(slot)); info != nil {
			statuses[slot] = p.Filter(ctx, state, pod, info)
		}
	}
	return statuses
}

// verdictsBeside returns a plugin's filter results for a pod with others added to the node that is
// filtered, by slot.
func verdictsBeside(ctx context.Context, t testing.TB, p plugin, s *cache.Snapshot, pod *corev1.Pod,
	others []fwk.PodInfo) []*fwk.Status {
	t.Helper()
	state := schedframework.NewCycleState()
	nodes, _ := s.List()
	statuses := make([]*fwk.Status, s.Slots())
	if _, status := p.PreFilter(ctx, state, pod, nodes); status.IsSkip() {
		return statuses
	}
	for slot := range statuses {
		info := s.Info(cache.Slot(slot))
		if info == nil {
			continue
		}
		own, with := state.Clone(), info.Snapshot()
		for _, other := range others {
			with.AddPodInfo(other)
			if status := p.PreFilterExtensions().AddPod(ctx, own, pod, other, with); !status.IsSuccess() {
				t.Fatalf("AddPod of %s: %v", p.Name(), status)
			}
		}
		statuses[slot] = p.Filter(ctx, own, pod, with)
	}
	return statuses
}

// normalized returns the final scores of the feasible nodes from a plugin; nil if it skips.
func normalized(ctx context.Context, t testing.TB, p plugin, s *cache.Snapshot, pod *corev1.Pod,
	feasible []cache.Slot) []int64 {
	t.Helper()
	state := schedframework.NewCycleState()
	infos := make([]fwk.NodeInfo, len(feasible))
	for i, slot := range feasible {
		infos[i] = s.Info(slot)
	}
	status := p.PreScore(ctx, state, pod, infos)
	if status.IsSkip() {
		return nil
	}
	scores := make(fwk.NodeScoreList, len(feasible))
	for i, info := range infos {
		scores[i].Name = info.Node().Name
		if status.IsSuccess() {
			scores[i].Score, status = p.Score(ctx, state, pod, info)
		}
	}
	if status.IsSuccess() {
		status = p.ScoreExtensions().NormalizeScore(ctx, state, pod, scores)
	}
	if !status.IsSuccess() {
		t.Fatalf("%s: %v", p.Name(), status)
	}
	plain := make([]int64, len(scores))
	for i := range scores {
		plain[i] = scores[i].Score
	}
	return plain
}

func silent(t testing.TB) context.Context { return klog.NewContext(t.Context(), logr.Discard()) }
