// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// fake is a plugin for PreFilter, Filter, PreScore and Score. Functions that are nil succeed, leave
// all nodes, or score 0.
type fake struct {
	name      string
	preFilter func() (*fwk.PreFilterResult, *fwk.Status)
	filter    func(ctx context.Context, node string) *fwk.Status
	preScore  func() *fwk.Status
	score     func(node string) int64
}

func (f *fake) Name() string { return f.name }

func (f *fake) PreFilter(context.Context, fwk.CycleState, *corev1.Pod,
	[]fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if f.preFilter == nil {
		return nil, nil
	}
	return f.preFilter()
}

func (f *fake) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (f *fake) Filter(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if f.filter == nil {
		return nil
	}
	return f.filter(ctx, node.Node().Name)
}

func (f *fake) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	if f.preScore == nil {
		return nil
	}
	return f.preScore()
}

func (f *fake) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if f.score == nil {
		return 0, nil
	}
	return f.score(node.Node().Name), nil
}

func (f *fake) ScoreExtensions() fwk.ScoreExtensions { return nil }

// profileOf returns a profile that runs the fakes at all their extension points,
// one node at a time.
func profileOf(snapshot fwk.SharedLister, fakes ...*fake) Params {
	plugins := &framework.Plugins{ScoreWeights: map[string]int64{}}
	for _, f := range fakes {
		plugins.PreFilter = append(plugins.PreFilter, f)
		plugins.Filter = append(plugins.Filter, f)
		plugins.PreScore = append(plugins.PreScore, f)
		plugins.Score = append(plugins.Score, f)
		plugins.ScoreWeights[f.name] = 1
	}
	return Params{Framework: framework.New(framework.Config{
		ProfileName: "test", Plugins: plugins, Snapshot: snapshot, Parallelizer: framework.NewParallelizer(1),
	})}
}

// ordered is a snapshot that lists its nodes by name.
type ordered struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes []fwk.NodeInfo
}

func (o ordered) NodeInfos() fwk.NodeInfoLister         { return o }
func (o ordered) List() ([]fwk.NodeInfo, error)         { return o.nodes, nil }
func (o ordered) Get(name string) (fwk.NodeInfo, error) { return o.NodeInfoLister.Get(name) }

// cluster returns a snapshot of n empty nodes, n0 and so on.
func cluster(t *testing.T, n int) ordered {
	t.Helper()
	var nodes []*corev1.Node
	for i := range n {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}})
	}
	snapshot := schedcache.NewSnapshot(nil, nodes)
	out := ordered{SharedLister: snapshot, NodeInfoLister: snapshot.NodeInfos()}
	for _, node := range nodes {
		info, err := snapshot.Get(node.Name)
		if err != nil {
			t.Fatal(err)
		}
		out.nodes = append(out.nodes, info)
	}
	return out
}

func makePod(nominated string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: types.UID("p")},
		Status:     corev1.PodStatus{NominatedNodeName: nominated},
	}
}

func schedule(t *testing.T, s *Decider, p Params, pod *corev1.Pod) (Result, error) {
	t.Helper()
	decision, err := s.Decide(quiet(t), p, schedframework.NewCycleState(), pod)
	return decision.Result, err
}

func refuse(reason string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, reason) }

// onlyOn is a filter that rejects other nodes.
func onlyOn(names ...string) func(context.Context, string) *fwk.Status {
	return func(_ context.Context, node string) *fwk.Status {
		if sets.New(names...).Has(node) {
			return nil
		}
		return refuse("not this one")
	}
}

func mustSchedule(t *testing.T, s *Decider, p Params, pod *corev1.Pod) Result {
	t.Helper()
	result, err := schedule(t, s, p, pod)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
