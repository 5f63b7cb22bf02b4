// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/hack/bench/cluster"
)

// binderWorkers is the number of pods that the ceiling writes for at a time.
const binderWorkers = 64

// noCeiling returns why there is no ceiling for a plan, or "" if there is one: a client that
// decides nothing cannot leave out pods that a scheduler has to refuse at first.
func (p *plan) noCeiling() string {
	pods, devices, refused := false, false, false
	read := newTemplates(p.of.dir)
	for _, o := range p.ops {
		switch o := o.(type) {
		case *createPods:
			pods = true
			if path := o.template(p.of); o.SkipWaitToCompletion && path != "" {
				text, err := read.read(path)
				refused = refused || err != nil || !strings.Contains(string(text), "schedulingGates")
			}
		case *createAny:
			devices = true
		case *barrier:
			if refused && o.StageRequirement == attempted {
				return "the scheduler has to refuse pods"
			}
		}
	}
	switch {
	case !pods:
		return "it schedules no pods"
	case devices && p.gates()["DRAExtendedResource"]:
		return "devices provide extended resources"
	case p.gates()["DRAWorkloadResourceClaims"]:
		return "PodGroups have claims"
	}
	return ""
}

// binder is the ceiling: a client that makes the requests of a scheduler, without its decisions.
//
//   - A pod is bound to the next node, round robin, as soon as it has no gates and its claims
//     exist.
//   - For a pod with a priority, pods of a lower one are evicted from that node until its CPU is
//     sufficient: with the condition that a scheduler writes, and a deletion.
//   - For each claim for devices, it adds a finalizer, and writes an allocation of made-up devices
//     and the reservation. If the claim has an allocation, it writes the reservation alone.
//   - A pod that requests more CPU than any node has gets the condition of an unschedulable pod.
//
// It writes no Events, no nominations and no statuses of PodGroups, which schedulers write beside
// the decisions. The volumes of the templates are bound already, so that no scheduler writes
// anything for them.
//
// It is a process of its own, like the schedulers: otherwise it would share its processors and its
// connection with those that create the pods.
type binder struct {
	client  clientset.Interface
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // of the run; set before ended is closed
	waiting *queue[*corev1.Pod]
	next    atomic.Int64

	mu    sync.Mutex
	taken map[types.UID]bool // the pods that waiting has had; guarded by mu
	nodes []*nodeState       // guarded by mu
}

// nodeState is what the binder knows of a node. The mutex of the binder guards it.
type nodeState struct {
	name      string
	cpu, used int64 // millicores
	pods      []*corev1.Pod
}

// ceilingCommand returns the subcommand that is the process of the ceiling.
func ceilingCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use: ceiling, Short: "The process of the ceiling, which the benchmark starts", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			b, err := startBinder(cmd.Context(), config)
			if err != nil {
				return err
			}
			<-b.Done()
			return b.Err()
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "configuration of the client")
	return cmd
}

// startBinder starts a binder that runs until ctx ends.
func startBinder(ctx context.Context, config *rest.Config) (*binder, error) {
	client, err := clientset.NewForConfig(fast(config))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &binder{client: client, cancel: cancel, ended: make(chan struct{}), waiting: newQueue[*corev1.Pod](),
		taken: map[types.UID]bool{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	_, err = factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { b.addNode(obj.(*corev1.Node)) },
		DeleteFunc: func(obj any) { b.removeNode(obj) },
	})
	if err == nil {
		_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { b.see(obj.(*corev1.Pod)) },
			UpdateFunc: func(_, obj any) { b.see(obj.(*corev1.Pod)) },
		})
	}
	if err != nil {
		cancel()
		return nil, err
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	go func() {
		if err := b.run(ctx); ctx.Err() == nil {
			b.err = err
		}
		close(b.ended)
	}()
	return b, nil
}

// Usage returns nothing: where a binder is the contender, which tests do, it has no process.
func (b *binder) Usage() (cluster.Usage, error) { return cluster.Usage{}, nil }

// Done returns a channel that is closed when the binder has ended.
func (b *binder) Done() <-chan struct{} { return b.ended }

// Err returns why the binder has ended by itself.
func (b *binder) Err() error {
	select {
	case <-b.ended:
		return b.err
	default:
		return nil
	}
}

func (b *binder) stop(context.Context) (float64, error) {
	b.cancel()
	<-b.ended
	return 0, b.err
}

func (b *binder) addNode(node *corev1.Node) {
	if node.Status.Allocatable.Pods().IsZero() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes = append(b.nodes, &nodeState{name: node.Name, cpu: node.Status.Allocatable.Cpu().MilliValue()})
}

func (b *binder) removeNode(obj any) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, state := range b.nodes {
		if state.name == node.Name {
			b.nodes = append(b.nodes[:i:i], b.nodes[i+1:]...)
			return
		}
	}
}

// see puts a pod into the queue, once, as soon as it can be bound.
func (b *binder) see(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 ||
		len(pod.Status.ResourceClaimStatuses) < generatedClaims(pod) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.taken[pod.UID] {
		b.taken[pod.UID] = true
		b.waiting.add(pod)
	}
}

func generatedClaims(pod *corev1.Pod) int {
	n := 0
	for _, claim := range pod.Spec.ResourceClaims {
		if claim.ResourceClaimTemplateName != nil {
			n++
		}
	}
	return n
}

func (b *binder) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(binderWorkers)
	for {
		pod, err := b.waiting.take(ctx)
		if err != nil {
			return errors.Join(group.Wait(), err)
		}
		group.Go(func() error {
			err := b.act(ctx, pod)
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil // the pod was deleted
			}
			return err
		})
	}
}

// act writes what a scheduler would write for a pod.
func (b *binder) act(ctx context.Context, pod *corev1.Pod) error {
	node, victims, err := b.place(ctx, pod)
	if err != nil {
		return err
	}
	if node == "" {
		return b.condition(ctx, pod, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "no node has as much CPU",
		})
	}
	if err := b.evictAll(ctx, victims); err != nil {
		return err
	}
	if err := b.writeClaims(ctx, pod, node); err != nil {
		return err
	}
	return b.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// place takes the next node for a pod, and the pods that have to go. It waits until there is a
// node. The node is "" if no node has as much CPU as the pod requests.
func (b *binder) place(ctx context.Context, pod *corev1.Pod) (node string, victims []*corev1.Pod, err error) {
	for {
		b.mu.Lock()
		if len(b.nodes) > 0 {
			defer b.mu.Unlock()
			node, victims = b.placeLocked(pod)
			return node, victims, nil
		}
		b.mu.Unlock()
		if !pause(ctx, 20*time.Millisecond) {
			return "", nil, context.Cause(ctx)
		}
	}
}

func (b *binder) placeLocked(pod *corev1.Pod) (string, []*corev1.Pod) {
	cpu, sufficient := cpuOf(pod), false
	for range b.nodes {
		state := b.nodes[int(b.next.Add(1)-1)%len(b.nodes)]
		if cpu > state.cpu {
			continue
		}
		sufficient = true
		victims, ok := state.makeRoom(pod, cpu)
		if ok {
			state.used += cpu
			state.pods = append(state.pods, pod)
			return state.name, victims
		}
	}
	if !sufficient {
		return "", nil
	}
	return b.nodes[int(b.next.Add(1)-1)%len(b.nodes)].name, nil // the API server does not count
}

// makeRoom returns the pods to evict. Only a pod with a priority needs room.
func (s *nodeState) makeRoom(pod *corev1.Pod, cpu int64) (victims []*corev1.Pod, ok bool) {
	if priorityOf(pod) == 0 || s.used+cpu <= s.cpu {
		return nil, true
	}
	left := s.used
	var stay []*corev1.Pod
	for _, other := range s.pods {
		if left+cpu > s.cpu && priorityOf(other) < priorityOf(pod) {
			left -= cpuOf(other)
			victims = append(victims, other)
			continue
		}
		stay = append(stay, other)
	}
	if left+cpu > s.cpu {
		return nil, false
	}
	s.used, s.pods = left, stay
	return victims, true
}

func cpuOf(pod *corev1.Pod) int64 {
	total := int64(0)
	for _, c := range pod.Spec.Containers {
		total += c.Resources.Requests.Cpu().MilliValue()
	}
	return total
}

func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// evictAll evicts pods at the same time, as schedulers do.
func (b *binder) evictAll(ctx context.Context, victims []*corev1.Pod) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, victim := range victims {
		group.Go(func() error {
			err := b.condition(ctx, victim, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: corev1.PodReasonPreemptionByScheduler, Message: "preempted",
			})
			if err == nil {
				err = b.client.CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{})
			}
			return client.IgnoreNotFound(err)
		})
	}
	return group.Wait()
}

// condition adds a condition to the status of a pod.
func (b *binder) condition(ctx context.Context, pod *corev1.Pod, condition corev1.PodCondition) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		return err
	}
	_, err = b.client.CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
