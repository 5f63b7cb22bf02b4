// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/test/workload"
)

// What is measured besides the kinds of pods in package workload, each of which is a backlog that
// the scheduler finds when it is started.
const (
	// churn is mixed pods that are created while a scheduler runs, some of which always wait, and
	// deleted when so many others were bound after them.
	churn = "churn"
	// preemption is pods that need half a node each, on nodes that pods of a lower priority fill.
	preemption = "preemption"
	// unschedulable is a backlog of basic pods behind which come five times as many that fit on no
	// node.
	unschedulable = "unschedulable"
)

const (
	// minPods is enough for a rate, and for a quarter that is not nothing.
	minPods = 8
	// behind is how many unschedulable pods there are for each other.
	behind = 5
	// backlog is how many pods wait while others come and go.
	backlog = 200
	// podsPerNode is what a node has room for.
	podsPerNode = 80
)

var defaultKinds = []string{
	workload.Basic, workload.Owned, workload.Unique, workload.Spread, workload.Anti, workload.Affinity, workload.Mixed,
	churn, preemption, unschedulable,
}

// scenario is what happens in a run.
type scenario struct {
	// pods returns the pods that there are to schedule, n being what --pods says.
	pods func(nodes, n int) []*corev1.Pod
	// refused is how many of them fit nowhere.
	refused func(n int) int
	// room is the highest n for so many nodes.
	room func(nodes int) int
	// filled: the nodes are full before the scheduler is started.
	filled bool
	// running: the scheduler runs before the pods are created.
	running bool
	// settled: it means something where the pods are in the end.
	settled bool
}

var scenarios = makeScenarios()

func makeScenarios() map[string]scenario {
	all := map[string]scenario{
		churn: {
			pods:    func(nodes, n int) []*corev1.Pod { return podsOf(workload.Mixed, nodes, n) },
			room:    func(nodes int) int { return podsPerNode * nodes },
			running: true,
		},
		preemption: {
			pods:   func(nodes, n int) []*corev1.Pod { return adapt(podsOf(workload.Basic, nodes, n/4), important) },
			room:   func(nodes int) int { return 4 * 2 * nodes },
			filled: true,
		},
		unschedulable: {
			pods: func(nodes, n int) []*corev1.Pod {
				all := podsOf(workload.Basic, nodes, (1+behind)*(n/4))
				adapt(all[n/4:], tooLarge)
				return all
			},
			refused: func(n int) int { return behind * (n / 4) },
			room:    func(nodes int) int { return 4 * podsPerNode * nodes },
			settled: true,
		},
	}
	for _, kind := range workload.Kinds {
		room := func(nodes int) int { return podsPerNode * nodes }
		switch kind {
		case workload.Anti, workload.Mixed: // one of each series
			room = func(nodes int) int { return workload.DefaultSeries * nodes }
		case workload.Unique: // which are larger
			room = func(nodes int) int { return podsPerNode / 2 * nodes }
		}
		all[kind] = scenario{
			pods: func(nodes, n int) []*corev1.Pod { return podsOf(kind, nodes, n) }, room: room, settled: true,
		}
	}
	return all
}

func podsOf(kind string, nodes, n int) []*corev1.Pod {
	from := workload.Pods{Kind: kind, Nodes: nodes, SchedulerName: cluster.SchedulerName}
	out := make([]*corev1.Pod, n)
	for i := range out {
		out[i] = from.Pod(i)
	}
	return out
}

func adapt(pods []*corev1.Pod, change func(*corev1.Pod)) []*corev1.Pod {
	for _, pod := range pods {
		change(pod)
	}
	return pods
}

// important has a pod preempt those that fill nodes, one for each pod.
func important(pod *corev1.Pod) {
	pod.Spec.PriorityClassName = priorityClass
	ask(pod, half)
}

// tooLarge has a pod ask for more than any node has.
func tooLarge(pod *corev1.Pod) { ask(pod, hopeless) }

var (
	half     = resource.MustParse("4")   // of a node's CPUs
	hopeless = resource.MustParse("100") // no node has so many
)

func ask(pod *corev1.Pod, cpu resource.Quantity) {
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = cpu
}

// priorityClass is that of pods which preempt others.
const priorityClass = "important"

func (b *bench) createPriorityClass(ctx context.Context) error {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: priorityClass}, Value: 1000}
	if _, err := b.Client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the priority class: %w", err)
	}
	return nil
}

// fill has pods of no importance take all of the nodes.
func (b *bench) fill(ctx context.Context) error {
	err := cluster.Each(ctx, 2*b.Nodes, func(ctx context.Context, i int) error { return b.Create(ctx, workload.Filler(i)) })
	if err != nil {
		return fmt.Errorf("filling the nodes: %w", err)
	}
	return b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return p.Fillers == 2*b.Nodes })
}

// createBacklog creates pods before a scheduler runs.
func (b *bench) createBacklog(ctx context.Context, pods []*corev1.Pod) error {
	before := 0
	if err := b.Pods.Wait(ctx, func(p *cluster.Pods) bool { before = p.Known; return true }); err != nil {
		return err
	}
	err := cluster.Each(ctx, len(pods), func(ctx context.Context, i int) error { return b.Create(ctx, pods[i]) })
	if err != nil {
		return fmt.Errorf("creating the pods: %w", err)
	}
	return b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return p.Known == before+len(pods) })
}

// churn creates pods while a scheduler runs, such that some always wait, and deletes each when so
// many others were bound after it: a quarter of all.
func (b *bench) churn(ctx context.Context, pods []*corev1.Pod) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		created := 0
		for batch := range slices.Chunk(pods, backlog/4) {
			err := b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return created-p.Bound <= backlog-len(batch) })
			if err != nil {
				return err
			}
			err = cluster.Each(ctx, len(batch), func(ctx context.Context, i int) error { return b.Create(ctx, batch[i]) })
			if err != nil {
				return fmt.Errorf("creating pods: %w", err)
			}
			created += len(batch)
		}
		return nil
	})
	group.Go(func() error { return b.deleteBound(ctx, len(pods), len(pods)/4) })
	return group.Wait()
}

// deleteBound deletes pods in the order in which they were bound, until of n pods that were only so
// many are left, and never more.
func (b *bench) deleteBound(ctx context.Context, n, left int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(binderLimit)
	for i := range n - left {
		_, err := b.Pods.NthBound(ctx, i+left)
		if err != nil {
			return errors.Join(group.Wait(), err)
		}
		name, err := b.Pods.NthBound(ctx, i)
		if err != nil {
			return errors.Join(group.Wait(), err)
		}
		group.Go(func() error { return b.Delete(ctx, name) })
	}
	return group.Wait()
}
