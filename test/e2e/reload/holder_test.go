// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// holding is the name of the plugin.
const holding = "Holder"

// hold determines what the plugin does with one pod at one extension point.
type hold struct {
	point string
	// status is what the plugin returns there until the pod is released. If it is nil, the call
	// does not return until then. Wait makes the pod wait on Permit.
	status *fwk.Status

	reached, released chan struct{}
	reach, let        sync.Once
}

// refusedOnce is a status that releases the pod with the first call.
var refusedOnce = fwk.NewStatus(fwk.Unschedulable, "once")

func (h *hold) release() { h.let.Do(func() { close(h.released) }) }

// attempt records what the plugin saw of one scheduling attempt, from PreFilter on.
type attempt struct {
	// generations are the instances of the profile whose plugin was called, without repetition.
	generations []int
	points      []string
}

// holders are the instances of the plugin and the calls that they saw. livesched's goroutines and
// specs use it.
type holders struct {
	mu       sync.Mutex // guards the rest
	built    map[string][]*holder
	holds    map[string]*hold
	attempts map[string][]*attempt
	admitted map[string][]int // instances whose PreEnqueue was called
	popped   []string         // pods in the order of their PreFilter calls
}

func newHolders() *holders {
	return &holders{built: map[string][]*holder{}, holds: map[string]*hold{}, attempts: map[string][]*attempt{},
		admitted: map[string][]int{}}
}

// hold holds a pod, by its name, which no two pods of the suite share.
func (s *holders) hold(pod, point string, status *fwk.Status) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &hold{point: point, status: status, reached: make(chan struct{}), released: make(chan struct{})}
	s.holds[pod] = h
	return h
}

// letGo releases a pod.
func (s *holders) letGo(pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[pod].release()
}

// of lists the instances of a profile that were built.
func (s *holders) of(schedulerName string) []*holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.built[schedulerName])
}

// seen returns the attempts at a pod.
func (s *holders) seen(pod string) []attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	var seen []attempt
	for _, a := range s.attempts[pod] {
		seen = append(seen, attempt{generations: slices.Clone(a.generations), points: slices.Clone(a.points)})
	}
	return seen
}

// order lists those of the given pods that were popped after the first so many pods, in that order.
func (s *holders) order(since int, pods []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var order []string
	for _, pod := range s.popped[since:] {
		if slices.Contains(pods, pod) {
			order = append(order, pod)
		}
	}
	return order
}

// count returns the number of pods that were popped.
func (s *holders) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.popped)
}

// askedToAdmit lists the instances whose PreEnqueue was called for a pod.
func (s *holders) askedToAdmit(pod string) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Clone(s.admitted[pod]))
}

func (s *holders) build(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	var a struct {
		Fail bool `json:"fail"`
	}
	if args != nil {
		if err := frameworkruntime.DecodeInto(args, &a); err != nil {
			return nil, err
		}
	}
	// Something that is to be given back.
	if _, err := handle.SharedInformerFactory().Core().V1().Services().Informer().
		AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); err != nil {
		return nil, err
	}
	if a.Fail {
		return nil, errors.New("told to fail")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := handle.ProfileName()
	h := &holder{all: s, ctx: ctx, handle: handle, generation: len(s.built[name])}
	s.built[name] = append(s.built[name], h)
	go func() { <-ctx.Done() }() // plugins may have goroutines that end with their context
	return h, nil
}

// note records a call and returns the pod's hold, if it is for this point.
func (s *holders) note(generation int, point, pod string) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch point {
	case "PreEnqueue":
		s.admitted[pod] = append(s.admitted[pod], generation)
	case "PreFilter":
		s.popped = append(s.popped, pod)
		s.attempts[pod] = append(s.attempts[pod], &attempt{})
		fallthrough
	default:
		if all := s.attempts[pod]; len(all) > 0 {
			last := all[len(all)-1]
			last.points = append(last.points, point)
			if !slices.Contains(last.generations, generation) {
				last.generations = append(last.generations, generation)
			}
		}
	}
	if h := s.holds[pod]; h != nil && h.point == point {
		return h
	}
	return nil
}

// holder is one instance of the plugin.
type holder struct {
	all    *holders
	ctx    context.Context
	handle fwk.Handle
	// generation counts the instances of the profile, from 0.
	generation int
	closes     atomic.Int32
}

func (h *holder) Name() string { return holding }

func (h *holder) Close() error {
	h.closes.Add(1)
	return nil
}

func (h *holder) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}},
	}, nil
}

func (h *holder) at(point string, pod *corev1.Pod) *fwk.Status {
	held := h.all.note(h.generation, point, pod.Name)
	if held == nil {
		return nil
	}
	held.reach.Do(func() { close(held.reached) })
	if held.status == nil {
		<-held.released
		return nil
	}
	select {
	case <-held.released:
		return nil
	default:
		if held.status == refusedOnce {
			held.release()
		}
		return held.status
	}
}

func (h *holder) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	return h.at("PreEnqueue", pod)
}

func (h *holder) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod,
	_ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, h.at("PreFilter", pod)
}

func (h *holder) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (h *holder) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ fwk.NodeInfo) *fwk.Status {
	return h.at("Filter", pod)
}

func (h *holder) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	return h.at("Reserve", pod)
}

func (h *holder) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	h.at("Unreserve", pod)
}

func (h *holder) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	return h.at("Permit", pod), 10 * time.Minute // longer than any spec takes
}

func (h *holder) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod,
	string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (h *holder) PreBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	return h.at("PreBind", pod)
}

func (h *holder) Bind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	if status := h.at("Bind", pod); status != nil {
		return status
	}
	return fwk.NewStatus(fwk.Skip)
}

func (h *holder) PostBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	h.at("PostBind", pod)
}
