// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/test/workload"
)

// The scenarios besides the kinds of pods in package workload. Each of those kinds is a backlog
// that the scheduler finds at its start.
const (
	// churn creates mixed pods while a scheduler runs, so that some always wait, and deletes each
	// pod after a given number of others were bound.
	churn = "churn"
	// preemption has pods that need half a node each, on nodes that are full of pods of a lower
	// priority.
	preemption = "preemption"
	// unschedulable is a backlog of basic pods, followed by five times as many pods that fit on no
	// node.
	unschedulable = "unschedulable"
	// besideBacklog creates basic pods while a scheduler runs that has already refused a backlog of
	// pods that fit on no node. The figures are about the basic pods only.
	besideBacklog = "backlog"
)

const (
	// minPods is enough to compute a rate, and a quarter of it is not zero.
	minPods = 8
	// behind is the number of unschedulable pods for each other pod.
	behind = 5
	// churnWaiting is the number of pods that wait in the scenario churn.
	churnWaiting = 200
	// podsPerNode is the number of pods that a node has room for.
	podsPerNode = 80
)

var defaultKinds = []string{
	workload.Basic, workload.Owned, workload.Unique, workload.Spread, workload.Anti, workload.Affinity, workload.Mixed,
	churn, preemption, unschedulable,
}

// scenario describes a run.
type scenario struct {
	// pods returns the pods to schedule. n is the value of --pods.
	pods func(nodes, n int) []*corev1.Pod
	// refused returns the number of pods that fit nowhere.
	refused func(n int) int
	// room returns the highest n for a number of nodes.
	room func(nodes int) int
	// filled means that the nodes are full before the scheduler starts.
	filled bool
	// running means that the scheduler runs before the pods are created.
	running bool
	// beside means that a backlog of refused pods waits when the pods are created.
	beside bool
	// gangs means that the pods are gangs, and inRacks that each of them has to be in one rack.
	gangs, inRacks bool
	// settled means that the final placement of the pods is meaningful.
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
		besideBacklog: {
			pods:   func(nodes, n int) []*corev1.Pod { return podsOf(workload.Basic, nodes, n) },
			room:   func(nodes int) int { return podsPerNode * nodes },
			beside: true,
		},
		gangs:        gangScenario(false),
		gangsInRacks: gangScenario(true),
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
		case workload.Anti, workload.Mixed: // a node takes one of each series
			room = func(nodes int) int { return workload.DefaultSeries * nodes }
		case workload.Unique: // these are larger
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

// important makes a pod preempt one of the pods that fill nodes.
func important(pod *corev1.Pod) {
	pod.Spec.PriorityClassName = priorityClass
	ask(pod, half)
}

// tooLarge makes a pod request more CPU than any node has.
func tooLarge(pod *corev1.Pod) { ask(pod, hopeless) }

var (
	half     = resource.MustParse("4")   // of a node's CPUs
	hopeless = resource.MustParse("100") // no node has so many
)

// stuckPods returns pods that fit on no node, of a number of Jobs in turn. 0: each is of a Job of
// its own. Like pods of real Jobs, they have labels that name the Job.
func stuckPods(n, jobs int) []*corev1.Pod {
	from := workload.Pods{Kind: workload.Basic, SchedulerName: cluster.SchedulerName}
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pod := from.Pod(i)
		tooLarge(pod)
		job := fmt.Sprintf("stuck-%06d", i)
		pod.Name = job + "-0"
		if jobs > 0 {
			job = fmt.Sprintf("stuck-%06d", i%jobs)
		}
		uid := "uid-" + job
		maps.Copy(pod.Labels, map[string]string{batchv1.JobNameLabel: job, batchv1.ControllerUidLabel: uid})
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "batch/v1", Kind: "Job", Name: job, UID: types.UID(uid), Controller: new(true),
		}}
		pods[i] = pod
	}
	return pods
}

func ask(pod *corev1.Pod, cpu resource.Quantity) {
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = cpu
}

// priorityClass is the class of the pods that preempt others.
const priorityClass = "important"

func (b *bench) createPriorityClass(ctx context.Context) error {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: priorityClass}, Value: 1000}
	if _, err := b.Client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the priority class: %w", err)
	}
	return nil
}

// fill fills all nodes with pods of low priority.
func (b *bench) fill(ctx context.Context) error {
	err := cluster.Each(ctx, 2*b.Nodes,
		func(ctx context.Context, i int) error { return b.Create(ctx, workload.Filler(i)) })
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

// churn creates pods while a scheduler runs, so that some always wait. It deletes each pod after a
// quarter of all pods were bound later than it.
func (b *bench) churn(ctx context.Context, pods []*corev1.Pod) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		created := 0
		for batch := range slices.Chunk(pods, churnWaiting/4) {
			err := b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return created-p.Bound <= churnWaiting-len(batch) })
			if err != nil {
				return err
			}
			err = cluster.Each(ctx, len(batch),
				func(ctx context.Context, i int) error { return b.Create(ctx, batch[i]) })
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

// deleteBound deletes pods in the order in which they were bound, until left of n pods remain. It
// deletes a pod only when more than left bound pods remain.
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
