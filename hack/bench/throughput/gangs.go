// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/workload"
)

// The scenarios with PodGroups of Kubernetes: gangs of --gang pods each. All pods exist when the
// PodGroup of the first gang is created, and wait for it. Each gang begins when its PodGroup is
// created, after the gang before is bound. Nodes and pods are those of kube-scheduler's own
// benchmarks for gangs.
const (
	// gangs can be placed anywhere.
	gangs = "gangs"
	// gangsInRacks have to be in one rack each.
	gangsInRacks = "gangs-in-racks"
)

// gangKinds are run alone: they need another cluster than the others.
var gangKinds = sets.New(gangs, gangsInRacks)

// The names of the values of gangs: from the creation of a gang's PodGroup until all its pods are
// bound, the median and the longest of a run.
const gangTime, slowestGang = "gang ms", "slowest gang ms"

// withGangs reports whether gangs are to be measured.
func (o *options) withGangs() bool { return slices.ContainsFunc(o.kinds, gangKinds.Has) }

// validGangs checks what does not fit together.
func (o *options) validGangs() error {
	switch {
	case !o.withGangs():
		return nil
	case !gangKinds.HasAll(o.kinds...):
		return fmt.Errorf("--kinds: %s and %s run on a cluster of their own, without other kinds", gangs, gangsInRacks)
	case sets.New(o.contenders...).HasAny(bindOnly, asked, explained, viewed):
		return fmt.Errorf("--contenders: %s, %s, %s and %s do not know gangs", bindOnly, asked, explained, viewed)
	case o.gang < 1:
		return fmt.Errorf("--gang %d: it must be at least 1", o.gang)
	case slices.Contains(o.kinds, gangsInRacks) && o.gang > cluster.NodesPerRack*podsPerGangNode:
		return fmt.Errorf("--gang %d: a rack has room for %d pods", o.gang, cluster.NodesPerRack*podsPerGangNode)
	}
	return nil
}

// gangMemory is what a pod of a gang requests.
var gangMemory = resource.MustParse("100Mi")

// podsPerGangNode is the number of pods that a node of a cluster with PodGroups has room for.
const podsPerGangNode = 40

// gangScenario has pods of gangs.
func gangScenario(inRacks bool) scenario {
	return scenario{
		pods: func(nodes, n int) []*corev1.Pod {
			return adapt(podsOf(workload.Basic, nodes, n), func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = gangMemory
			})
		},
		room: func(nodes int) int { return podsPerGangNode * nodes }, gangs: true, inRacks: inRacks,
	}
}

// gates returns the flags of kube-scheduler for a scenario.
func (s scenario) gates() []string {
	switch {
	case s.inRacks:
		return []string{"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"}
	case s.gangs:
		return []string{"--feature-gates=GenericWorkload=true"}
	}
	return nil
}

// scheduleGangs lets the contender schedule one gang after the other.
func (b *bench) scheduleGangs(ctx context.Context, pods []*corev1.Pod, s scenario,
	start func() (running, error)) (*outcome, error) {
	probe := podsOf(workload.Basic, b.Nodes, 1)[0]
	probe.Name = "probe"
	if err := b.createBacklog(ctx, []*corev1.Pod{probe}); err != nil {
		return nil, err
	}
	all := slices.Collect(slices.Chunk(pods, b.options.gang))
	for i, gang := range all {
		for _, pod := range gang {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(gangName(i))}
		}
	}
	r, err := start()
	if err != nil {
		return nil, err
	}
	o := &outcome{}
	var used usage
	var before time.Duration
	begun := make([]time.Time, len(all))
	err = func() error {
		if err := b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return p.Bound == 1 }); err != nil {
			return err
		}
		if err := errors.Join(b.createBacklog(ctx, pods), awaitIdle(ctx, r)); err != nil {
			return err
		}
		o.started = time.Now()
		if used, err = r.usage(); err != nil {
			return err
		}
		if before, err = b.CPU(); err != nil {
			return err
		}
		bound := 1 // the probe
		for i, gang := range all {
			begun[i] = time.Now()
			if err := b.createGang(ctx, gangName(i), len(gang), s.inRacks); err != nil {
				return err
			}
			bound += len(gang)
			if err := b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return p.Bound == bound }); err != nil {
				return err
			}
		}
		return nil
	}()
	if err := b.finish(o, r, err, used, before); err != nil {
		return nil, err
	}
	delete(o.measured, probe.Name)
	for i, gang := range all {
		took, racks := gangOutcome(gang, o.measured, begun[i])
		if s.inRacks && racks.Len() != 1 {
			return nil, fmt.Errorf("gang %d is in %d racks", i, racks.Len())
		}
		o.gangs = append(o.gangs, took)
	}
	return o, b.deleteGangs(ctx, len(all))
}

// gangOutcome returns how long it took until all pods of a gang were bound, and the racks that they
// are in.
func gangOutcome(gang []*corev1.Pod, seen map[string]cluster.Pod,
	begun time.Time) (took time.Duration, racks sets.Set[string]) {
	racks = sets.New[string]()
	for _, pod := range gang {
		of := seen[pod.Name]
		took = max(took, of.Bound.Sub(begun))
		if node, ok := workload.NodeIndex(of.Node); ok {
			racks.Insert(cluster.RackOf(node))
		}
	}
	return took, racks
}

// gangValues returns the figures of a run with gangs. The rate is that of the time in which a gang
// had its PodGroup and was not bound.
func (o *outcome) gangValues() map[string]float64 {
	var total time.Duration
	var times []float64
	for _, took := range o.gangs {
		total += took
		times = append(times, milliseconds(took))
	}
	n := float64(len(o.measured))
	values := map[string]float64{
		podsPerSecond: n / total.Seconds(), apiCPU: milliseconds(o.api) / n,
		schedulerCPU: milliseconds(o.scheduler.CPU) / n, schedulerRSS: float64(o.scheduler.PeakRSS) / (1 << 20),
		gangTime: report.Quantile(times, 0.5), slowestGang: slices.Max(times),
	}
	values[nodesUsed], values[fullestNode] = spread(o.measured)
	return values
}

func gangName(i int) string { return fmt.Sprintf("gang-%d", i) }

func (b *bench) createGang(ctx context.Context, name string, pods int, inRack bool) error {
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(pods)}
	if inRack {
		group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: cluster.LabelRack}},
		}
	}
	if _, err := b.Client.SchedulingV1beta1().PodGroups(workload.Namespace).
		Create(ctx, group, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a PodGroup: %w", err)
	}
	return nil
}

// deleteGangs deletes the PodGroups. It removes their finalizer, as kube-controller-manager does in
// a whole cluster.
func (b *bench) deleteGangs(ctx context.Context, n int) error {
	client := b.Client.SchedulingV1beta1().PodGroups(workload.Namespace)
	for i := range n {
		_, err := client.Patch(ctx, gangName(i), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		if err := errors.Join(err, client.Delete(ctx, gangName(i), metav1.DeleteOptions{})); err != nil {
			return fmt.Errorf("deleting the PodGroups: %w", err)
		}
	}
	return nil
}
