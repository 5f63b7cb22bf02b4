// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/workload"
)

// freed is a plugin for devices of which one becomes free, or is taken, each time that the plugin
// has looked. changes counts that, if counts is true.
type freed struct {
	looks int
	// refusing is the look at which it refuses all nodes.
	refusing int
	counts   bool
	changes  uint64
}

func (*freed) Name() string { return "Freed" }

func (f *freed) PreFilter(context.Context, fwk.CycleState, *corev1.Pod,
	[]fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if f.looks++; f.counts {
		f.changes++
	}
	return nil, nil
}

func (*freed) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (f *freed) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if f.looks == f.refusing {
		return fwk.NewStatus(fwk.Unschedulable, "nothing is free")
	}
	if f.refusing == 0 && f.looks%2 == 1 && node.Node().Name == workload.NodeName(0) {
		return fwk.NewStatus(fwk.Unschedulable, "its device is taken")
	}
	return nil
}

func (f *freed) ClassChanges() uint64                                    { return 0 }
func (f *freed) ClaimChanges() (began, ended uint64)                     { return f.changes, f.changes }
func (f *freed) Backs(corev1.ResourceName) bool                          { return false }
func (*freed) ClaimsOf(*corev1.Pod) ([]*resourcev1.ResourceClaim, bool)  { return nil, true }
func (*freed) ChangedNodes(uint64) (names []string, end uint64, ok bool) { return nil, 0, false }
func (*freed) SeparateDevices() bool                                     { return false }
func (*freed) Narrow([]string) (func(), bool)                            { return nil, false }

// verify decides about a pod with --fast-path=verify and a plugin for devices, and returns the
// number of differences.
func (f *freed) verify(t *testing.T) float64 {
	w := newWorld(t, seed, 0)
	for i := range 3 {
		w.cache.AddNode(klog.FromContext(w.ctx), workload.Node(i))
	}
	w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
	w.devices = f
	w.outOfTree = framework.Registry{f.Name(): func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return f, nil
	}}
	profile := w.profile("freed", func(p *schedconfig.KubeSchedulerProfile) {
		p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, schedconfig.Plugin{Name: f.Name()})
	})
	w.ours.cfg.Verify = true
	before := testutil.ToFloat64(metrics.FastPathDifferences)
	_, err := w.ours.Decide(w.ctx, profile, schedframework.NewCycleState(), podOf("basic", 0))
	w.must(err)
	return testutil.ToFloat64(metrics.FastPathDifferences) - before
}

// TestVerifyComparesNothingWhileClaimsChange: with --fast-path=verify, the two paths look at the
// devices one after the other, and a claim may be allocated or freed in between.
func TestVerifyComparesNothingWhileClaimsChange(t *testing.T) {
	for _, counts := range []bool{false, true} {
		plugin := &freed{counts: counts}
		if n := plugin.verify(t); (n == 0) != counts || plugin.looks != 2 {
			t.Errorf("with changes that are known: %v; %v differences after %d looks", counts, n, plugin.looks)
		}
	}
}

// TestVerifyAsksAboutTheBestNodesFirst: the third look is that of a search of the best nodes first.
func TestVerifyAsksAboutTheBestNodesFirst(t *testing.T) {
	for refusing, want := range map[int]float64{3: 1, 4: 0} {
		plugin := &freed{refusing: refusing}
		if n := plugin.verify(t); n != want || plugin.looks != 3 {
			t.Errorf("with a refusal at look %d: %v differences after %d looks", refusing, n, plugin.looks)
		}
	}
}
