// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/test/objects"
)

// The out-of-tree plugins. Sorter orders the queue, Churner treats pods as their labels say.
const (
	churnerName = "Churner"
	sorterName  = "Sorter"
)

var errOnPurpose = errors.New("churn: the plugin fails on purpose")

// script determines how the plugins behave, and tracks their instances.
type script struct {
	counts *counts
	// wild makes plugins fail at random, and makes pods wait.
	wild atomic.Bool
	// wildBuilds makes constructors fail at random, too.
	wildBuilds atomic.Bool

	mu     sync.Mutex // guards what follows
	alive  map[*churner]struct{}
	faulty []string
}

func newScript(c *counts) *script { return &script{counts: c, alive: map[*churner]struct{}{}} }

func (s *script) registry() framework.Registry {
	return framework.Registry{
		churnerName: func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			return s.build(handle)
		},
		sorterName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return sorter{}, nil
		},
	}
}

func (s *script) build(handle fwk.Handle) (fwk.Plugin, error) {
	if s.wildBuilds.Load() {
		switch rand.IntN(12) {
		case 0:
			return nil, errOnPurpose
		case 1:
			panic("churn: the plugin panics on purpose")
		case 2:
			<-time.After(time.Duration(rand.IntN(500)) * time.Millisecond)
		}
	}
	c := &churner{script: s, handle: handle}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive[c] = struct{}{}
	s.counts.add("plugins built", 1)
	return c, nil
}

func (s *script) closed(c *churner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.alive[c]; !ok {
		s.faulty = append(s.faulty, fmt.Sprintf("a plugin of profile %s was closed twice", c.handle.ProfileName()))
	}
	delete(s.alive, c)
}

func (s *script) verdict() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.faulty...)
}

// instances returns the instances that were built and not closed.
func (s *script) instances() []*churner {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*churner
	for c := range s.alive {
		all = append(all, c)
	}
	return all
}

// waiting lists the pods that wait on Permit, on all replicas that run a profile with the plugin.
func (s *script) waiting() []fwk.WaitingPod {
	var all []fwk.WaitingPod
	seen := map[fwk.WaitingPod]bool{}
	for _, c := range s.instances() {
		c.handle.IterateOverWaitingPods(func(wp fwk.WaitingPod) {
			if !seen[wp] {
				seen[wp] = true
				all = append(all, wp)
			}
		})
	}
	return all
}

// permit allows or rejects the pods that wait on Permit; it leaves some to time out. It acts all
// the time.
var permit = act{"permit", 100 * time.Millisecond, func(_ context.Context, a *actor) error {
	for _, wp := range a.script.waiting() {
		switch {
		case !a.script.wild.Load() || a.chance(30):
			wp.Allow(churnerName)
		case a.chance(5):
			wp.Reject(churnerName, "churn: rejected")
			a.counts.add("waiting pods rejected", 1)
		}
	}
	return nil
}}

// churner is one instance of the plugin, of one instance of one profile on one replica.
type churner struct {
	script *script
	handle fwk.Handle
}

func (*churner) Name() string { return churnerName }

func (c *churner) Close() error {
	c.script.closed(c)
	return nil
}

// acts reports whether a pod asks for something and the plugin happens to do it.
func (c *churner) acts(pod *corev1.Pod, what string, percent int) bool {
	if pod.Labels[actLabel] != what || !c.script.wild.Load() || rand.IntN(100) >= percent {
		return false
	}
	c.script.counts.add("plugin: "+what, 1)
	return true
}

// EventsToRegister names the events that undo a refusal: the pod loses its label, or, after a
// random refusal, the RuntimeClass changes, a resource that no in-tree plugin registers for.
func (c *churner) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}, QueueingHintFn: released},
		{Event: fwk.ClusterEvent{Resource: "runtimeclasses.v1.node.k8s.io", ActionType: fwk.Add | fwk.Update}},
	}, nil
}

func released(_ klog.Logger, pod *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	if changed, ok := newObj.(*corev1.Pod); ok && changed.UID == pod.UID && changed.Labels[holdLabel] == "" {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func (c *churner) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if pod.Labels[holdLabel] != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "churn: held")
	}
	return nil
}

func (c *churner) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if c.acts(pod, "panic", 10) {
		panic("churn: the plugin panics on purpose")
	}
	return nil
}

func (c *churner) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	switch {
	case c.acts(pod, "reserve", 50):
		return fwk.AsStatus(errOnPurpose)
	case c.acts(pod, "reject", 50):
		return fwk.NewStatus(fwk.Unschedulable, "churn: rejected")
	}
	return nil
}

func (c *churner) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

func (c *churner) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	if c.acts(pod, "permit", 90) {
		return fwk.NewStatus(fwk.Wait), time.Duration(1+rand.IntN(4000)) * time.Millisecond
	}
	return nil, 0
}

func (c *churner) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *corev1.Pod,
	_ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if pod.Labels[actLabel] != "prebind" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (c *churner) PreBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	if !c.acts(pod, "prebind", 90) {
		return nil
	}
	if rand.IntN(5) == 0 {
		return fwk.AsStatus(errOnPurpose)
	}
	timer := time.NewTimer(time.Duration(rand.IntN(800)) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fwk.AsStatus(context.Cause(ctx))
	}
}

// sorter puts the newest pods first.
type sorter struct{}

func (sorter) Name() string { return sorterName }

func (sorter) Less(x, y fwk.QueuedEntityInfo) bool {
	return objects.Queued(y).CreationTimestamp.Before(&objects.Queued(x).CreationTimestamp)
}
