// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

// Actor is a plugin instance.
type Actor struct {
	Script *Script
	name   string
	Ctx    context.Context
	Handle fwk.Handle
	Args   struct {
		// As distinguishes the instances of a plugin.
		As string `json:"as"`
	}
	Closes atomic.Int32
}

// Name implements fwk.Plugin.
func (a *Actor) Name() string { return a.name }

func (a *Actor) note(point string, pod *corev1.Pod, node string) Acts {
	a.Script.note(Call{Plugin: a.name, As: a.Args.As, Point: point, Pod: pod.Name, Node: node})
	return a.Script.Now()
}

// Struck returns the status that the script sets for any call at a point, or nil.
func (a *Actor) Struck(point string, pod *corev1.Pod) *fwk.Status {
	if act := a.Script.Now().Any; act != nil {
		return act(point, a, pod)
	}
	return nil
}

// points implements the extension points of an actor.
type points struct{ *Actor }

func (a points) Close() error {
	a.Closes.Add(1)
	if act := a.Script.Now().Close; act != nil {
		return act(a.Actor)
	}
	return nil
}

func (a points) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if act := a.Script.Now().Events; act != nil {
		return act(a.Actor)
	}
	return nil, nil
}

func (a points) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	now := a.note("PreEnqueue", pod, "")
	if s := a.Struck("PreEnqueue", pod); s != nil {
		return s
	}
	if act := now.PreEnqueue; act != nil {
		return act(a.Actor, pod)
	}
	return nil
}

func (a points) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod,
	_ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	now := a.note("PreFilter", pod, "")
	if s := a.Struck("PreFilter", pod); s != nil {
		return nil, s
	}
	if act := now.PreFilter; act != nil {
		return act(a.Actor, pod)
	}
	return nil, nil
}

func (a points) PreFilterExtensions() fwk.PreFilterExtensions { return a }

func (a points) AddPod(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	a.note("AddPod", pod, node.Node().Name)
	return a.Struck("AddPod", pod)
}

func (a points) RemovePod(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	a.note("RemovePod", pod, node.Node().Name)
	return a.Struck("RemovePod", pod)
}

func (a points) Filter(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	now := a.note("Filter", pod, node.Node().Name)
	if s := a.Struck("Filter", pod); s != nil {
		return s
	}
	if act := now.Filter; act != nil {
		return act(ctx, a.Actor, pod, node.Node().Name)
	}
	return nil
}

func (a points) PostFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod,
	_ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	now := a.note("PostFilter", pod, "")
	if s := a.Struck("PostFilter", pod); s != nil {
		return nil, s
	}
	if act := now.PostFilter; act != nil {
		return act(a.Actor, pod)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (a points) PreScore(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	a.note("PreScore", pod, "")
	return a.Struck("PreScore", pod)
}

func (a points) Score(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	now := a.note("Score", pod, node.Node().Name)
	if s := a.Struck("Score", pod); s != nil {
		return 0, s
	}
	if act := now.Score; act != nil {
		return act(a.Actor, node.Node().Name), nil
	}
	return 0, nil
}

func (a points) ScoreExtensions() fwk.ScoreExtensions { return a }

func (a points) NormalizeScore(_ context.Context, _ fwk.CycleState, pod *corev1.Pod,
	scores fwk.NodeScoreList) *fwk.Status {
	now := a.note("NormalizeScore", pod, "")
	if s := a.Struck("NormalizeScore", pod); s != nil {
		return s
	}
	if act := now.Normalize; act != nil {
		act(scores)
	}
	return nil
}

func (a points) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	now := a.note("Reserve", pod, node)
	if s := a.Struck("Reserve", pod); s != nil {
		return s
	}
	if act := now.Reserve; act != nil {
		return act(a.Actor, pod, node)
	}
	return nil
}

func (a points) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) {
	a.note("Unreserve", pod, node)
	a.Struck("Unreserve", pod)
}

func (a points) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) (*fwk.Status, time.Duration) {
	now := a.note("Permit", pod, node)
	if s := a.Struck("Permit", pod); s != nil {
		return s, 0
	}
	if act := now.Permit; act != nil {
		return act(a.Actor, pod, node)
	}
	return nil, 0
}

func (a points) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *corev1.Pod,
	node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	a.note("PreBindPreFlight", pod, node)
	return nil, a.Struck("PreBindPreFlight", pod)
}

func (a points) PreBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	now := a.note("PreBind", pod, node)
	if s := a.Struck("PreBind", pod); s != nil {
		return s
	}
	if act := now.PreBind; act != nil {
		return act(ctx, a.Actor, pod, node)
	}
	return nil
}

func (a points) Bind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	now := a.note("Bind", pod, node)
	if s := a.Struck("Bind", pod); s != nil {
		return s
	}
	if act := now.Bind; act != nil {
		return act(ctx, a.Actor, pod, node)
	}
	return fwk.NewStatus(fwk.Skip)
}

func (a points) PostBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) {
	now := a.note("PostBind", pod, node)
	a.Struck("PostBind", pod)
	if act := now.PostBind; act != nil {
		act(a.Actor, pod)
	}
}

// sorting is an actor with QueueSort only.
type sorting struct{ actor *Actor }

func (s sorting) Name() string { return s.actor.Name() }

func (s sorting) Less(x, y fwk.QueuedEntityInfo) bool {
	podX, podY := objects.Queued(x), objects.Queued(y)
	now := s.actor.note("Less", podX, "")
	s.actor.Struck("Less", podX)
	if act := now.Less; act != nil {
		return act(podX, podY)
	}
	return x.GetTimestamp().Before(y.GetTimestamp())
}

// allPoints is an actor with all extension points, including QueueSort.
type allPoints struct{ points }

func (p allPoints) Less(x, y fwk.QueuedEntityInfo) bool { return sorting{p.Actor}.Less(x, y) }

// filtering is an actor with Filter only.
type filtering struct{ points points }

func (f filtering) Name() string { return f.points.Name() }

func (f filtering) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	return f.points.Filter(ctx, state, pod, node)
}
