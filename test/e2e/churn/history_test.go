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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	resourcehelper "k8s.io/component-helpers/resource"
)

// history sees every version of every pod in the order in which the API server made them. It
// records violations, and the pods that exist now.
type history struct {
	counts *counts

	mu       sync.Mutex // guards what follows
	pods     map[types.UID]*corev1.Pod
	nodeOf   map[types.UID]string // of pods that were ever bound and are not gone
	byNode   map[string]map[types.UID]*corev1.Pod
	problems []string
	ended    error
}

// startHistory watches until ctx ends. It does not wait for a list: no pods may exist yet.
func startHistory(ctx context.Context, client kubernetes.Interface, c *counts) (*history, error) {
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if len(list.Items) > 0 {
		return nil, fmt.Errorf("there are %d pods already", len(list.Items))
	}
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	h := &history{
		counts: c,
		pods:   map[types.UID]*corev1.Pod{},
		nodeOf: map[types.UID]string{},
		byNode: map[string]map[types.UID]*corev1.Pod{},
	}
	go func() {
		for event := range watcher.ResultChan() {
			h.see(event)
		}
		if ctx.Err() == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.ended = fmt.Errorf("the watch of the history has ended")
		}
	}()
	return h, nil
}

func (h *history) see(event watch.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		if event.Type == watch.Error {
			h.ended = apierrors.FromObject(event.Object)
		}
		return
	}
	pod.ManagedFields = nil
	known, wasBound := h.nodeOf[pod.UID]
	node := pod.Spec.NodeName
	if wasBound && known != node {
		h.problem("pod %s was on node %q and is on %q", describe(pod), known, node)
	}
	delete(h.byNode[known], pod.UID)
	if event.Type == watch.Deleted {
		h.counts.add("pods deleted", 1)
		delete(h.pods, pod.UID)
		delete(h.nodeOf, pod.UID)
		return
	}
	if event.Type == watch.Added {
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
			h.problem("pod %s was bound to node %s, where pod %s (%s) has its host ports %v", describe(pod), node, other.Name, uid, shared)
		}
		if group := pod.Labels[apartLabel]; group != "" && group == other.Labels[apartLabel] {
			h.problem("pod %s was bound to node %s, where pod %s of the same group %s is, from which it is to be kept apart", describe(pod), node, other.Name, group)
		}
	}
	if cpu > nodeCPU || memory > nodeMemory {
		h.problem("with pod %s, node %s has pods that ask for %dm CPU and %d bytes of memory; it has %dm and %d: %s", describe(pod), node,
			cpu, memory, int64(nodeCPU), int64(nodeMemory), strings.Join(describeAll(slices.Collect(maps.Values(h.byNode[node]))), ", "))
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
	problems := slices.Clone(h.problems)
	if h.ended != nil {
		problems = append(problems, "the history is incomplete: "+h.ended.Error())
	}
	return problems
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
	return fmt.Sprintf("%s (%s of %s, version %s, kind %s, %dm, %dMi)", pod.Name, pod.UID, pod.Spec.SchedulerName, pod.ResourceVersion, pod.Labels[kindLabel], cpu, memory>>20)
}

func describeAll(pods []*corev1.Pod) []string {
	var all []string
	for _, pod := range pods {
		all = append(all, describe(pod))
	}
	return all
}
