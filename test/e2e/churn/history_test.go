// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"
)

// history sees every version of every pod in the order in which the API server made them. It
// records violations, and the pods that exist now.
type history struct {
	counts *counts
	// gaps allows gaps.
	gaps bool
	// listed is closed after the first list.
	listed chan struct{}

	mu       sync.Mutex // guards what follows
	pods     map[types.UID]*corev1.Pod
	nodeOf   map[types.UID]string // of pods that were ever bound and are not gone
	byNode   map[string]map[types.UID]*corev1.Pod
	problems []string
}

// startHistory watches until ctx ends. No pods may exist yet. With gaps, the history may miss
// versions while the API server restarts; what it then knows of each pod is the latest version.
func startHistory(ctx context.Context, client kubernetes.Interface, c *counts, gaps bool) (*history, error) {
	h := &history{
		counts: c,
		gaps:   gaps,
		listed: make(chan struct{}),
		pods:   map[types.UID]*corev1.Pod{},
		nodeOf: map[types.UID]string{},
		byNode: map[string]map[types.UID]*corev1.Pod{},
	}
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	reflector := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	}, &corev1.Pod{}, h, toolscache.ReflectorOptions{Name: "history"})
	go reflector.RunWithContext(ctx)
	select {
	case <-h.listed:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if n := len(h.all()); n > 0 {
		return nil, fmt.Errorf("there are %d pods already", n)
	}
	return h, nil
}

// The history is the store of a reflector, which calls these methods one after the other.

func (h *history) Add(obj any) error    { return h.see(obj, h.seen) }
func (h *history) Update(obj any) error { return h.see(obj, h.seen) }
func (h *history) Delete(obj any) error { return h.see(obj, h.gone) }
func (h *history) Resync() error        { return nil }

// see records a version of a pod that nobody else has yet.
func (h *history) see(obj any, do func(*corev1.Pod)) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("a %T was watched", obj)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	pod.ManagedFields = nil
	do(pod)
	return nil
}

// Replace sets the pods that exist. The first list is the beginning, each later one a gap. Pods on
// calm nodes only shrink, so they must fit at any time, whatever was missed.
func (h *history) Replace(list []any, _ string) error {
	exist := map[types.UID]bool{}
	var known, bound []any
	for _, obj := range list {
		pod := obj.(*corev1.Pod)
		exist[pod.UID] = true
		if h.knows(pod) {
			known = append(known, pod)
		} else {
			bound = append(bound, pod)
		}
	}
	h.removeAllBut(exist)
	for _, pod := range append(known, bound...) {
		if err := h.see(pod, h.seen); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.listed:
		h.counts.add("gaps in the history", 1)
		if !h.gaps {
			h.problem("the history has a gap")
		}
	default:
		close(h.listed)
	}
	return nil
}

// removeAllBut removes the pods that do not exist.
func (h *history) removeAllBut(exist map[types.UID]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, pod := range h.pods {
		if !exist[uid] {
			h.gone(pod)
		}
	}
}

// knows reports whether the history has a pod, and has it on the same node.
func (h *history) knows(pod *corev1.Pod) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.pods[pod.UID]
	return known != nil && known.Spec.NodeName == pod.Spec.NodeName
}

// gone removes a pod. Requires mu.
func (h *history) gone(pod *corev1.Pod) {
	h.counts.add("pods deleted", 1)
	delete(h.byNode[h.nodeOf[pod.UID]], pod.UID)
	delete(h.pods, pod.UID)
	delete(h.nodeOf, pod.UID)
}

// seen records a version of a pod. Requires mu.
func (h *history) seen(pod *corev1.Pod) {
	known, wasBound := h.nodeOf[pod.UID]
	node := pod.Spec.NodeName
	if wasBound && known != node {
		h.problem("pod %s was on node %q and is on %q", describe(pod), known, node)
	}
	delete(h.byNode[known], pod.UID)
	if h.pods[pod.UID] == nil {
		h.counts.add("pods created", 1)
	}
	h.pods[pod.UID] = pod
	if node == "" {
		return
	}
	h.nodeOf[pod.UID] = node
	if !occupies(pod) {
		return
	}
	if !wasBound {
		h.counts.add("pods bound", 1)
		if isCalm(node) {
			h.counts.add("bindings looked at", 1)
			h.checkRoom(pod, node)
		}
	}
	if h.byNode[node] == nil {
		h.byNode[node] = map[types.UID]*corev1.Pod{}
	}
	h.byNode[node][pod.UID] = pod
}

// checkRoom checks whether a pod that was just bound to a calm node fits there.
func (h *history) checkRoom(pod *corev1.Pod, node string) {
	if others := h.byNode[node]; len(others) >= podsPerNode {
		h.problem("pod %s is number %d on node %s, which takes %d", describe(pod), len(others)+1, node, podsPerNode)
	}
	cpu, memory := room(pod)
	for uid, other := range h.byNode[node] {
		c, m := room(other)
		cpu, memory = cpu+c, memory+m
		if shared := sharedPorts(pod, other); len(shared) > 0 {
			h.problem("pod %s was bound to node %s, where pod %s (%s) has its host ports %v", describe(pod), node,
				other.Name, uid, shared)
		}
		if group := pod.Labels[apartLabel]; group != "" && group == other.Labels[apartLabel] {
			h.problem(
				"pod %s was bound to node %s, where pod %s of the same group %s is, from which it is to be kept apart",
				describe(pod), node, other.Name, group)
		}
	}
	if cpu > nodeCPU || memory > nodeMemory {
		h.problem("with pod %s, node %s has pods that ask for %dm CPU and %d bytes of memory; it has %dm and %d: %s",
			describe(pod), node,
			cpu, memory, int64(nodeCPU), int64(nodeMemory),
			strings.Join(describeAll(slices.Collect(maps.Values(h.byNode[node]))), ", "))
	}
}

// problem notes a problem. Requires mu.
func (h *history) problem(format string, args ...any) {
	h.problems = append(h.problems, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// verdict returns the violations so far.
func (h *history) verdict() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.problems)
}

// pick returns a random pod that satisfies all conditions, nil if there is none.
func (h *history) pick(rng *rand.Rand, conditions ...func(*corev1.Pod) bool) *corev1.Pod {
	found := h.all(conditions...)
	if len(found) == 0 {
		return nil
	}
	return found[rng.IntN(len(found))]
}

// all returns the pods that satisfy all conditions, sorted by UID. They must not be changed.
func (h *history) all(conditions ...func(*corev1.Pod) bool) []*corev1.Pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []*corev1.Pod
	for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
		pod := h.pods[uid]
		if !slices.ContainsFunc(conditions, func(is func(*corev1.Pod) bool) bool { return !is(pod) }) {
			found = append(found, pod)
		}
	}
	return found
}

func isPending(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && !isFinished(pod) && pod.DeletionTimestamp == nil
}
func isBound(pod *corev1.Pod) bool       { return pod.Spec.NodeName != "" }
func isTerminating(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }
func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
func isGated(pod *corev1.Pod) bool { return len(pod.Spec.SchedulingGates) > 0 }

// occupies reports whether a pod takes room on its node.
func occupies(pod *corev1.Pod) bool { return isBound(pod) && !isFinished(pod) }

// room returns what a pod takes of its node: thousandths of a CPU and bytes of memory, including
// overhead and pod-level requests.
func room(pod *corev1.Pod) (cpu, memory int64) {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
	return requests.Cpu().MilliValue(), requests.Memory().Value()
}

func sharedPorts(a, b *corev1.Pod) []int32 {
	var shared []int32
	for _, port := range hostPorts(a) {
		if slices.Contains(hostPorts(b), port) {
			shared = append(shared, port)
		}
	}
	return shared
}

func hostPorts(pod *corev1.Pod) []int32 {
	var ports []int32
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				ports = append(ports, p.HostPort)
			}
		}
	}
	return ports
}

func describe(pod *corev1.Pod) string {
	cpu, memory := room(pod)
	return fmt.Sprintf("%s (%s of %s, version %s, kind %s, %dm, %dMi)", pod.Name, pod.UID, pod.Spec.SchedulerName,
		pod.ResourceVersion, pod.Labels[kindLabel], cpu, memory>>20)
}

func describeAll(pods []*corev1.Pod) []string {
	var all []string
	for _, pod := range pods {
		all = append(all, describe(pod))
	}
	return all
}
