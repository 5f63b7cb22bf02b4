// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// noDevices is the handle of a scheduler in whose cluster devices back no resource.
type noDevices struct{ fwk.Handle }

func (noDevices) SharedDRAManager() fwk.SharedDRAManager { return noDeviceClasses{} }

type noDeviceClasses struct{ fwk.SharedDRAManager }

func (c noDeviceClasses) DeviceClassResolver() fwk.DeviceClassResolver              { return c }
func (noDeviceClasses) GetDeviceClass(corev1.ResourceName) *resourceapi.DeviceClass { return nil }

const (
	gpu       = corev1.ResourceName("example.com/gpu")
	licence   = corev1.ResourceName("other.example.com/licence")
	hugepages = corev1.ResourceName("hugepages-2Mi")
)

// ledger makes clusters, pods and arguments with every way of requesting and providing resources.
type ledger struct {
	*rand.Rand
	t        *testing.T
	cache    *cache.Cache
	snapshot *cache.Snapshot
	table    nodeTable
	nodes    []*corev1.Node
	pods     []*corev1.Pod
	made     int
}

func newLedger(t *testing.T, seed uint64) *ledger {
	l := &ledger{Rand: rand.New(rand.NewPCG(seed, 0)), t: t, cache: cache.New(), snapshot: cache.NewSnapshot(),
		table: *newNodeTable()}
	for range 12 {
		l.addNode()
	}
	return l
}

func (l *ledger) chance(percent int) bool { return l.IntN(100) < percent }

func oneOf[T any](l *ledger, from ...T) T { return from[l.IntN(len(from))] }

func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

func (l *ledger) allocatable() corev1.ResourceList {
	list := corev1.ResourceList{corev1.ResourcePods: quantity(int64(l.IntN(12)))}
	if l.chance(95) {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(l.IntN(8000)), resource.DecimalSI)
	}
	if l.chance(95) {
		list[corev1.ResourceMemory] = quantity(l.Int64N(8 << 30))
	}
	if l.chance(60) {
		list[corev1.ResourceEphemeralStorage] = quantity(l.Int64N(8 << 30))
	}
	for _, name := range []corev1.ResourceName{gpu, licence, hugepages} {
		if l.chance(50) {
			list[name] = quantity(int64(l.IntN(9)))
		}
	}
	return list
}

func (l *ledger) node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Status:     corev1.NodeStatus{Allocatable: l.allocatable()},
	}
}

func (l *ledger) addNode() {
	l.made++
	node := l.node(fmt.Sprintf("n%d", l.made))
	l.nodes = append(l.nodes, node)
	l.cache.AddNode(logr.Discard(), node)
}

// disturb changes a node.
func (l *ledger) disturb() {
	i := l.IntN(len(l.nodes))
	switch n := l.IntN(10); {
	case n < 5:
		pod := l.pod()
		pod.Spec.NodeName = l.nodes[i].Name
		l.pods = append(l.pods, pod)
		l.must(l.cache.AddPod(logr.Discard(), pod))
	case n < 8 && len(l.pods) > 20:
		j := l.IntN(len(l.pods))
		l.must(l.cache.RemovePod(logr.Discard(), l.pods[j]))
		l.pods = append(l.pods[:j], l.pods[j+1:]...)
	case n == 8:
		node := l.node(l.nodes[i].Name)
		l.cache.UpdateNode(logr.Discard(), l.nodes[i], node)
		l.nodes[i] = node
	case n == 9 && len(l.nodes) < 40:
		l.addNode()
	}
}

func (l *ledger) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *ledger) requests() corev1.ResourceList {
	list := corev1.ResourceList{}
	if l.chance(70) {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(oneOf(l, 0, 50, 100, l.Int64N(2000)), resource.DecimalSI)
	}
	if l.chance(70) {
		list[corev1.ResourceMemory] = quantity(oneOf(l, 0, 200<<20, l.Int64N(1<<30)))
	}
	if l.chance(20) {
		list[corev1.ResourceEphemeralStorage] = quantity(l.Int64N(1 << 30))
	}
	for _, name := range []corev1.ResourceName{gpu, licence, hugepages} {
		if l.chance(12) {
			list[name] = quantity(int64(l.IntN(3)))
		}
	}
	return list
}

func (l *ledger) container() corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: l.requests()}}
}

func (l *ledger) pod() *corev1.Pod {
	l.made++
	name := fmt.Sprintf("p%d", l.made)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	for range 1 + l.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, l.container())
	}
	if l.chance(10) {
		pod.Spec.Containers = []corev1.Container{{}} // best-effort
	}
	for range l.IntN(3) / 2 * (1 + l.IntN(2)) {
		init := l.container()
		if l.chance(50) {
			init.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
	if l.chance(20) {
		pod.Spec.Overhead = l.requests()
	}
	if l.chance(20) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: l.requests(), Limits: l.requests()}
	}
	return pod
}

func (l *ledger) resources(maxWeight int64) []schedconfig.ResourceSpec {
	var specs []schedconfig.ResourceSpec
	for _, name := range []corev1.ResourceName{
		corev1.ResourceMemory, corev1.ResourceCPU, gpu, corev1.ResourceEphemeralStorage, licence, hugepages,
		corev1.ResourcePods, "unheard-of",
	} {
		if l.chance(45) {
			specs = append(specs, schedconfig.ResourceSpec{Name: string(name), Weight: 1 + l.Int64N(maxWeight)})
		}
	}
	if len(specs) == 0 || l.chance(30) {
		specs = []schedconfig.ResourceSpec{{Name: "cpu", Weight: 1 + l.Int64N(maxWeight)},
			{Name: "memory", Weight: 1 + l.Int64N(maxWeight)}}
	}
	l.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
	return specs
}

func (l *ledger) fitArgs() *schedconfig.NodeResourcesFitArgs {
	args := &schedconfig.NodeResourcesFitArgs{ScoringStrategy: &schedconfig.ScoringStrategy{
		Type: oneOf(l, schedconfig.LeastAllocated, schedconfig.MostAllocated,
			schedconfig.RequestedToCapacityRatio),
		Resources: l.resources(100),
	}}
	if l.chance(30) {
		args.IgnoredResources = []string{oneOf(l, string(gpu), string(hugepages))}
	}
	if l.chance(30) {
		args.IgnoredResourceGroups = []string{oneOf(l, "example.com", "other.example.com")}
	}
	if args.ScoringStrategy.Type == schedconfig.RequestedToCapacityRatio {
		ratio := &schedconfig.RequestedToCapacityRatioParam{}
		for at := l.IntN(30); at <= 100; at += 1 + l.IntN(60) {
			ratio.Shape = append(ratio.Shape,
				schedconfig.UtilizationShapePoint{Utilization: int32(at), Score: int32(l.IntN(11))})
		}
		args.ScoringStrategy.RequestedToCapacityRatio = ratio
	}
	return args
}

// profile returns a framework with the two plugins and random arguments.
func (l *ledger) profile(ctx context.Context) *framework.Framework {
	l.t.Helper()
	return l.profileFor(ctx, l.fitArgs(), &schedconfig.NodeResourcesBalancedAllocationArgs{Resources: l.resources(1)})
}

func (l *ledger) profileFor(
	ctx context.Context, fitArgs *schedconfig.NodeResourcesFitArgs,
	balancedArgs *schedconfig.NodeResourcesBalancedAllocationArgs,
) *framework.Framework {
	l.t.Helper()
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	made, err := noderesources.NewFit(ctx, fitArgs, noDevices{}, gates)
	l.must(err)
	fit := made.(*noderesources.Fit)
	made, err = noderesources.NewBalancedAllocation(ctx, balancedArgs, noDevices{}, gates)
	l.must(err)
	balanced := made.(*noderesources.BalancedAllocation)
	return framework.New(framework.Config{
		ProfileName: "mine", Snapshot: l.snapshot,
		Args: map[string]runtime.Object{fit.Name(): fitArgs, balanced.Name(): balancedArgs},
		Plugins: &framework.Plugins{
			PreFilter: []fwk.PreFilterPlugin{fit}, Filter: []fwk.FilterPlugin{fit},
			PreScore: []fwk.PreScorePlugin{fit, balanced}, Score: []fwk.ScorePlugin{fit, balanced},
			ScoreWeights: map[string]int64{fit.Name(): 1 + l.Int64N(5), balanced.Name(): 1 + l.Int64N(5)},
		},
	})
}

// compare runs the plugins and the twin for a pod on every node, and returns how many nodes the pod
// fits.
func (l *ledger) compare(ctx context.Context, f *framework.Framework, d *demand, pod *corev1.Pod) (fit int) {
	l.t.Helper()
	state := schedframework.NewCycleState()
	_, status, _ := f.RunPreFilterPlugins(ctx, state, pod)
	l.must(status.AsError())
	l.must(f.RunPreScorePlugins(ctx, state, pod, nil).AsError())
	for slot := range l.snapshot.Slots() {
		info := l.snapshot.Info(cache.Slot(slot))
		fits := d.fits(&l.table.nodes[slot], slot)
		if want := f.RunFilterPlugins(ctx, state, pod, info); fits != want.IsSuccess() {
			l.t.Fatalf("node %s: fits: %t, plugin: %v\n%s", info.Node().Name, fits, want, l.describe(info, pod))
		}
		if fits {
			fit++
		}
		scores := make([]int64, 2)
		l.must(f.ScoreNode(ctx, state, pod, info, scores).AsError())
		var want int64
		for i, s := range f.ScorePlugins() {
			want += scores[i] * s.Weight
		}
		if got, err := d.score(&l.table.nodes[slot], slot); err != nil || got != want {
			l.t.Fatalf("node %s: a score of %d (%v), the plugins say %d, %v\n%s", info.Node().Name, got, err, want,
				scores, l.describe(info, pod))
		}
	}
	return fit
}

func (l *ledger) describe(info fwk.NodeInfo, pod *corev1.Pod) string {
	return fmt.Sprintf("allocatable %+v\nrequested %+v\nnon-zero %+v\npods %d\npod %+v", info.GetAllocatable(),
		info.GetRequested(),
		info.GetNonZeroRequested(), len(info.GetPods()), pod.Spec)
}

func TestResourceTwinMatchesThePlugins(t *testing.T) {
	for _, podLevel := range []bool{true, false} {
		t.Run(fmt.Sprintf("PodLevelResources=%t", podLevel), func(t *testing.T) {
			if !podLevel {
				featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate,
					featuregatetesting.FeatureOverrides{
						features.InPlacePodLevelResourcesVerticalScaling: false, features.PodLevelResources: false,
					})
			}
			ctx := klog.NewContext(t.Context(), logr.Discard())
			asked, fit := 0, 0
			for seed := range uint64(12) {
				l := newLedger(t, seed)
				for range 12 {
					f := l.profile(ctx)
					g := NewPlan(PlanConfig{Framework: f})
					if g.opaque || len(g.localFilters)+len(g.localScores) > 0 || len(g.resources.scorers) != 2 ||
						!g.resources.filters {
						t.Fatalf("the twin does not stand in for the plugins: %+v", g.resources)
					}
					// Pods are evaluated again after further changes: the demands are updated
					// incrementally.
					var pods []*corev1.Pod
					var demands []*demand
					for range 10 {
						for range l.IntN(6) {
							l.disturb()
						}
						l.must(l.cache.UpdateSnapshot(logr.Discard(), l.snapshot))
						pods = append(pods, l.pod())
						demands = append(demands, g.resources.demandOf(pods[len(pods)-1], &l.table, l.snapshot))
						l.table.sync(l.snapshot)
						for i, d := range demands {
							fit += l.compare(ctx, f, d, pods[i])
							asked += l.snapshot.NumNodes()
						}
					}
					for _, d := range demands {
						d.release(&l.table)
					}
				}
				if len(l.table.scalars) > 0 {
					t.Fatalf("%d columns have no holder", len(l.table.scalars))
				}
			}
			t.Logf("%d verdicts and scores, %d fits", asked, fit)
			if fit < asked/20 || fit > asked*19/20 {
				t.Errorf("%d of %d: either hardly any pod fits or hardly any does not", fit, asked)
			}
		})
	}
}

func TestResourceTwinRoundsLikeThePlugins(t *testing.T) {
	ctx := klog.NewContext(t.Context(), logr.Discard())
	l := newLedger(t, 1)
	l.cache, l.nodes = cache.New(), nil
	node := l.node("n")
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(100, resource.DecimalSI), corev1.ResourceMemory: quantity(100),
		gpu:                 quantity(100),
		corev1.ResourcePods: quantity(1),
	}
	l.cache.AddNode(logr.Discard(), node)
	l.must(l.cache.UpdateSnapshot(logr.Discard(), l.snapshot))
	l.table.sync(l.snapshot)
	// Every pair of percentages, for the pair of resources that is computed in advance and for
	// another one.
	for _, other := range []corev1.ResourceName{corev1.ResourceMemory, gpu} {
		f := l.profileFor(ctx,
			&schedconfig.NodeResourcesFitArgs{ScoringStrategy: &schedconfig.ScoringStrategy{
				Type:      schedconfig.LeastAllocated,
				Resources: []schedconfig.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: string(other), Weight: 2}},
			}},
			&schedconfig.NodeResourcesBalancedAllocationArgs{
				Resources: []schedconfig.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: string(other), Weight: 1}}})
		twin := NewPlan(PlanConfig{Framework: f}).resources
		for first := range int64(101) {
			for second := range int64(101) {
				pod := l.pod()
				pod.Spec = corev1.PodSpec{
					Containers: []corev1.Container{
						{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU:    *resource.NewMilliQuantity(first, resource.DecimalSI),
							corev1.ResourceMemory: quantity(0),
						}}}}}
				pod.Spec.Containers[0].Resources.Requests[other] = quantity(second)
				d := twin.demandOf(pod, &l.table, l.snapshot)
				if l.compare(ctx, f, d, pod) != 1 {
					t.Fatal("the pod does not fit")
				}
				d.release(&l.table)
			}
		}
	}
}
