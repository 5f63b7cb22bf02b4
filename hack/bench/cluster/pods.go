// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/livesched/livesched/test/workload"
)

// Pods is the state of the pods that the watch has observed since the last Reset. Pods of kind
// workload.Filler count only in Known and Fillers. The informer's goroutine writes it; functions
// that Wait calls read the exported fields.
type Pods struct {
	mu      sync.Mutex // guards the rest
	changed *sync.Cond

	// Known is the current number of pods, and Fillers the number of those that fill nodes.
	Known, Fillers int
	// Bound is the number of bound pods, and Refused the number of unschedulable ones.
	Bound, Refused int

	seen    map[string]*Pod // by name
	waiting []*corev1.Pod   // not yet taken, in the order in which they were seen
	bound   []string        // names, in the order in which they were bound
}

// Pod is the state of a pod that the watch has observed.
type Pod struct {
	// Series is the label that the pods of a series share.
	Series string
	// Created, Bound and Refused are the times at which the watch saw the pod appear, get a node,
	// or become unschedulable for the first time. Bound and Refused are zero before that.
	Created, Bound, Refused time.Time
	// Node is the name of the node, empty if the pod has none.
	Node string
}

func newPods() *Pods {
	p := &Pods{}
	p.changed = sync.NewCond(&p.mu)
	p.Reset()
	return p
}

// watch observes the pods until stopWatch.
func (c *Cluster) watch(ctx context.Context) error {
	c.Pods = newPods()
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.Pods.observe(1, obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { c.Pods.observe(0, obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) { c.Pods.gone(obj) },
	})
	if err != nil {
		return err
	}
	ctx, c.stopWatch = context.WithCancel(ctx)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return ctx.Err()
}

// observe records the current state of a pod; more is 1 if the pod is new.
func (p *Pods) observe(more int, pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.changed.Broadcast()
	p.Known += more
	if workload.IsFiller(pod) {
		p.Fillers += more
		return
	}
	now := time.Now()
	known := p.seen[pod.Name]
	if known == nil {
		known = &Pod{Series: pod.Labels["app"], Created: now}
		p.seen[pod.Name] = known
		if pod.Spec.NodeName == "" {
			p.waiting = append(p.waiting, pod)
		}
	}
	switch {
	case pod.Spec.NodeName != "" && known.Node == "":
		known.Node, known.Bound = pod.Spec.NodeName, now
		p.Bound++
		p.bound = append(p.bound, pod.Name)
	case pod.Spec.NodeName == "" && known.Refused.IsZero() && fitsNowhere(pod):
		known.Refused = now
		p.Refused++
	}
}

func fitsNowhere(pod *corev1.Pod) bool {
	_, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

func (p *Pods) gone(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Known--
	if pod, ok := obj.(*corev1.Pod); ok && workload.IsFiller(pod) {
		p.Fillers--
	}
	p.changed.Broadcast()
}

// Reset clears the state except for the current number of pods.
func (p *Pods) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Bound, p.Refused, p.seen, p.waiting, p.bound = 0, 0, map[string]*Pod{}, nil, nil
}

// Wait blocks until done returns true or ctx ends. done may read only the exported fields of p.
func (p *Pods) Wait(ctx context.Context, done func(*Pods) bool) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock() // otherwise the broadcast could come between the check of ctx and the wait
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !done(p) {
		if ctx.Err() != nil {
			return fmt.Errorf("%d pods known, %d bound, %d refused: %w", p.Known, p.Bound, p.Refused,
				context.Cause(ctx))
		}
		p.changed.Wait()
	}
	return nil
}

// Take returns the pod that has waited for a node for longest and has not been taken yet. It blocks
// until there is one or ctx ends.
func (p *Pods) Take(ctx context.Context) (*corev1.Pod, error) {
	var pod *corev1.Pod
	err := p.Wait(ctx, func(p *Pods) bool {
		if len(p.waiting) == 0 {
			return false
		}
		pod, p.waiting = p.waiting[0], p.waiting[1:]
		return true
	})
	return pod, err
}

// NthBound waits for the n-th bound pod, counted from 0, and returns its name.
func (p *Pods) NthBound(ctx context.Context, n int) (string, error) {
	var name string
	err := p.Wait(ctx, func(p *Pods) bool {
		if n < len(p.bound) {
			name = p.bound[n]
		}
		return name != ""
	})
	return name, err
}

// OneWaiting returns the name of a pod without a node, or else of any pod. It returns "" if no pod
// was seen.
func (p *Pods) OneWaiting() (name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for known, pod := range p.seen {
		if name = known; pod.Node == "" {
			break
		}
	}
	return name
}

// BoundNow returns the number of pods bound since the last Reset.
func (p *Pods) BoundNow() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Bound
}

// Seen returns a copy of the observed pods by name.
func (p *Pods) Seen() map[string]Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]Pod, len(p.seen))
	for name, pod := range maps.All(p.seen) {
		out[name] = *pod
	}
	return out
}
