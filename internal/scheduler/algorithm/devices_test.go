// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/test/workload"
)

// backed are device classes that back one resource. changes counts their changes, of which there is
// one after each question if they are moving.
type backed struct {
	resource corev1.ResourceName
	changes  uint64
	moving   bool
}

func (b *backed) ClassChanges() uint64                { return b.changes }
func (b *backed) ClaimChanges() (began, ended uint64) { return b.changes, b.changes }
func (b *backed) Backs(name corev1.ResourceName) bool {
	if b.moving {
		b.changes++
	}
	return name == b.resource
}
func (*backed) ClaimsOf(*corev1.Pod) ([]*resourcev1.ResourceClaim, bool)  { return nil, true }
func (*backed) ChangedNodes(uint64) (names []string, end uint64, ok bool) { return nil, 0, false }
func (*backed) SeparateDevices() bool                                     { return false }
func (*backed) Narrow([]string) (func(), bool)                            { return nil, false }

// TestDeviceClassesMayChangeDuringADecision: nodes have some of a resource that devices back on
// other nodes.
func TestDeviceClassesMayChangeDuringADecision(t *testing.T) {
	for moving, want := range map[bool]fastpath.Reason{false: fastpath.None, true: fastpath.Devices} {
		w := newWorld(t, seed, 0)
		w.devices = &backed{resource: gpu, moving: moving}
		for i := range 3 {
			node := workload.Node(i)
			node.Status.Allocatable[gpu] = resource.MustParse("4")
			w.cache.AddNode(klog.FromContext(w.ctx), node)
		}
		p := w.profile("with devices", unchanged)
		pod := podOf("basic", 0)
		pod.Spec.Containers[0].Resources.Requests[gpu] = resource.MustParse("1")
		w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
		fast := w.ours.tryFast(w.ctx, p, schedframework.NewCycleState(), pod)
		if fast.reason != want {
			t.Errorf("with changes: %v; the reason is %q, want %q", moving, fast.reason, want)
		}
		if want == fastpath.None && (fast.Class != (cache.Class{}) || fast.Feasible != 3) {
			t.Errorf("got %+v", fast.Placement)
		}
	}
}

// TestDevicesThatScoreAreLeftToTheScalarPath: PreFilter of DynamicResources goes through all
// claims, so the fast path must not run it for a pod that it does not decide about.
func TestDevicesThatScoreAreLeftToTheScalarPath(t *testing.T) {
	w := newWorld(t, seed, 0)
	w.devices = &backed{resource: gpu}
	for i := range 3 {
		w.cache.AddNode(klog.FromContext(w.ctx), workload.Node(i))
	}
	p := w.profile("with devices", func(p *schedconfig.KubeSchedulerProfile) {
		for i := range p.PluginConfig {
			if args, ok := p.PluginConfig[i].Args.(*schedconfig.NodeResourcesFitArgs); ok {
				args.ScoringStrategy.Resources = append(args.ScoringStrategy.Resources,
					schedconfig.ResourceSpec{Name: gpu, Weight: 1})
			}
		}
	})
	preFilters := func() int {
		n, err := testutil.GetCounterMetricValue(schedmetrics.PluginEvaluationTotal.WithLabelValues("DynamicResources",
			schedmetrics.PreFilter, p.Framework.ProfileName()))
		w.must(err)
		return int(n)
	}
	pod := podOf("basic", 0)
	pod.Spec.Containers[0].Resources.Requests[gpu] = resource.MustParse("1")
	w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
	before := preFilters()
	fast := w.ours.tryFast(w.ctx, p, schedframework.NewCycleState(), pod)
	if n := preFilters() - before; fast.reason != fastpath.Devices || n != 0 {
		t.Errorf("the reason is %q after %d calls of PreFilter, want %q and none", fast.reason, n, fastpath.Devices)
	}
}

// TestExplanationsAreNotKeptWhileDeviceClassesChange counts a change of device classes while the
// scalar path explains why a pod that requests an extended resource fits nowhere.
func TestExplanationsAreNotKeptWhileDeviceClassesChange(t *testing.T) {
	for _, changes := range []bool{false, true} {
		w := newWorld(t, seed, 0)
		classes := &backed{resource: "example.com/other"}
		w.devices = classes
		for i := range 3 {
			w.cache.AddNode(klog.FromContext(w.ctx), workload.Node(i))
		}
		p := w.profile("with device classes", unchanged)
		pod := podOf("basic", 0)
		pod.Spec.Containers[0].Resources.Requests[gpu] = resource.MustParse("1")
		w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
		explained := func() bool {
			state := schedframework.NewCycleState()
			fast := w.ours.tryFast(w.ctx, p, state, pod)
			unfit, ok := fast.Unfit()
			if !ok {
				t.Fatalf("the reason is %q", fast.reason)
			}
			known := unfit.Explained()
			_, err := w.ours.newScalar(request{p, state, pod}).decide(w.ctx)
			if changes {
				classes.changes++
			}
			keepExplanation(w.ctx, unfit, state, err)
			return known
		}
		explained()
		if known := explained(); known == changes {
			t.Errorf("with changes: %t; the explanation was kept: %t", changes, known)
		}
	}
}
