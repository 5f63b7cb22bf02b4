// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// The out-of-tree plugins that scripts register. Alpha and Beta have every extension point except
// QueueSort, Sorter has only QueueSort, and Everything has all of them. Taciturn has only Filter
// and does not register events.
const (
	Alpha      = "Alpha"
	Beta       = "Beta"
	Sorter     = "Sorter"
	Everything = "Everything"
	Taciturn   = "Taciturn"
)

// Script controls out-of-tree plugins and records their calls.
type Script struct {
	mu    sync.Mutex // guards the fields below
	calls []Call
	built []*Actor
	acts  Acts
}

// Call is one call of a plugin.
type Call struct {
	Plugin, As, Point, Pod, Node string
}

// Acts defines the behavior of a script's plugins at each extension point. If a function is nil,
// the plugin succeeds, except that it skips Bind.
type Acts struct {
	Build      func(*Actor) error
	Close      func(*Actor) error
	Events     func(*Actor) ([]fwk.ClusterEventWithHint, error)
	Less       func(a, b *corev1.Pod) bool
	PreEnqueue func(*Actor, *corev1.Pod) *fwk.Status
	PreFilter  func(*Actor, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status)
	Filter     func(ctx context.Context, a *Actor, pod *corev1.Pod, node string) *fwk.Status
	PostFilter func(*Actor, *corev1.Pod) (*fwk.PostFilterResult, *fwk.Status)
	Score      func(a *Actor, node string) int64
	Normalize  func(fwk.NodeScoreList)
	Reserve    func(a *Actor, pod *corev1.Pod, node string) *fwk.Status
	Permit     func(a *Actor, pod *corev1.Pod, node string) (*fwk.Status, time.Duration)
	PreBind    func(ctx context.Context, a *Actor, pod *corev1.Pod, node string) *fwk.Status
	Bind       func(ctx context.Context, a *Actor, pod *corev1.Pod, node string) *fwk.Status
	PostBind   func(a *Actor, pod *corev1.Pod)

	// Any is called first at every extension point that is called for a pod. If it returns a
	// status, the plugin returns that status.
	Any func(point string, a *Actor, pod *corev1.Pod) *fwk.Status
}

// Perform changes the behavior of the plugins from now on.
func (s *Script) Perform(change func(*Acts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.acts)
}

// Now returns the current behavior of the plugins.
func (s *Script) Now() Acts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acts
}

// Register adds the plugins of the script to livesched's options.
func (s *Script) Register(o *app.Options) {
	o.OutOfTree = framework.Registry{
		Alpha:      s.factory(Alpha, func(a *Actor) fwk.Plugin { return points{a} }),
		Beta:       s.factory(Beta, func(a *Actor) fwk.Plugin { return points{a} }),
		Sorter:     s.factory(Sorter, func(a *Actor) fwk.Plugin { return sorting{a} }),
		Everything: s.factory(Everything, func(a *Actor) fwk.Plugin { return allPoints{points{a}} }),
		Taciturn:   s.factory(Taciturn, func(a *Actor) fwk.Plugin { return filtering{points{a}} }),
	}
}

func (s *Script) factory(name string, as func(*Actor) fwk.Plugin) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		a := &Actor{Script: s, name: name, Ctx: ctx, Handle: handle}
		if args != nil {
			if err := frameworkruntime.DecodeInto(args, &a.Args); err != nil {
				return nil, err
			}
		}
		if build := s.Now().Build; build != nil {
			if err := build(a); err != nil {
				return nil, err
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.built = append(s.built, a)
		return as(a), nil
	}
}

// note records a call.
func (s *Script) note(c Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
}

// About lists the calls about a pod.
func (s *Script) About(pod *corev1.Pod) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var about []Call
	for _, c := range s.calls {
		if c.Pod == pod.Name {
			about = append(about, c)
		}
	}
	return about
}

// Points lists the extension points that were called for a pod, without adjacent repetitions.
func (s *Script) Points(pod *corev1.Pod) []string {
	var points []string
	for _, c := range s.About(pod) {
		points = append(points, c.Point)
	}
	return slices.Compact(points)
}

// At lists which plugins were called for a pod at an extension point, as "plugin" or "plugin as".
func (s *Script) At(pod *corev1.Pod, point string) []string {
	var plugins []string
	for _, c := range s.About(pod) {
		switch {
		case c.Point != point:
		case c.As == "":
			plugins = append(plugins, c.Plugin)
		default:
			plugins = append(plugins, c.Plugin+" "+c.As)
		}
	}
	return plugins
}

// Actors lists the plugin instances that were built.
func (s *Script) Actors() []*Actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.built)
}

// LetGo forgets all instances and calls.
func (s *Script) LetGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.built, s.calls = nil, nil
}

// Generations lists the instances of Alpha, by their argument As, that were called for a pod at the
// given extension points, in order and without adjacent repetitions.
func (s *Script) Generations(pod *corev1.Pod, points ...string) []string {
	var all []string
	for _, c := range s.About(pod) {
		if slices.Contains(points, c.Point) {
			all = append(all, c.As)
		}
	}
	return slices.Compact(all)
}

// Order lists the pods in the order in which they reached an extension point.
func (s *Script) Order(point string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pods []string
	for _, c := range s.calls {
		if c.Point == point {
			pods = append(pods, c.Pod)
		}
	}
	return pods
}

// Only sets what a plugin does at one point for one pod. At all other points Any returns nil.
func (s *Script) Only(plugin, at, pod string, do func() *fwk.Status) {
	s.Perform(func(a *Acts) {
		a.Any = func(point string, a *Actor, p *corev1.Pod) *fwk.Status {
			if a.Name() != plugin || point != at || p.Name != pod {
				return nil
			}
			return do()
		}
	})
}

// Forget removes the recorded calls.
func (s *Script) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}

// Content removes Any, so that the plugins follow the rest of the script.
func (s *Script) Content() { s.Perform(func(a *Acts) { a.Any = nil }) }

// Wake ends the back-off of a pod, which would end by itself after at least a second.
func (s *Script) Wake(pod *corev1.Pod) {
	s.Actors()[0].Handle.Activate(klog.Background(),
		map[string]*corev1.Pod{client.ObjectKeyFromObject(pod).String(): pod.DeepCopy()})
}

// Waiting returns the pod if it waits on Permit, otherwise nil.
func (s *Script) Waiting(pod *corev1.Pod) fwk.WaitingPod {
	for _, a := range s.Actors() {
		if waiting := a.Handle.GetWaitingPod(pod.UID); waiting != nil {
			return waiting
		}
	}
	return nil
}

// Attempts returns the number of scheduling cycles of a pod. Each calls PreFilter of the plugin
// Alpha once.
func (s *Script) Attempts(pod *corev1.Pod) int { return len(s.At(pod, "PreFilter")) }

// WaitsOnPermit makes pods with the label "wait" wait on Permit.
func WaitsOnPermit(timeout time.Duration) func(*Acts) {
	return func(a *Acts) {
		a.Permit = func(_ *Actor, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
			if pod.Labels["wait"] == "" {
				return nil, 0
			}
			return fwk.NewStatus(fwk.Wait, "not yet"), timeout
		}
	}
}

// ExpectWaiting waits until a pod waits on Permit, and returns it as plugins see it.
func (s *Script) ExpectWaiting(ctx context.Context, pod *corev1.Pod) fwk.WaitingPod {
	GinkgoHelper()
	var waiting fwk.WaitingPod
	Eventually(func() fwk.WaitingPod {
		for _, a := range s.Actors() {
			waiting = a.Handle.GetWaitingPod(pod.UID)
		}
		return waiting
	}).WithContext(ctx).ShouldNot(BeNil())
	return waiting
}

// Hint is the point with which queueing hints call Acts.Any.
const Hint = "QueueingHint"
