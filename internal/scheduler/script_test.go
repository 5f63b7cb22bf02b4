// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// The out-of-tree plugins that scripts register. Alpha and Beta have every extension point but
// QueueSort, Sorter has QueueSort only, Everything has them all, and Taciturn has Filter and does
// not say which events it waits for.
const (
	alpha      = "Alpha"
	beta       = "Beta"
	sorter     = "Sorter"
	everything = "Everything"
	taciturn   = "Taciturn"
)

// script tells out-of-tree plugins what to do and notes what they are asked.
type script struct {
	mu    sync.Mutex // guards what follows
	calls []call
	built []*actor
	acts  acts
}

// call is one call of a plugin.
type call struct {
	plugin, as, point, pod, node string
}

// acts is what the plugins of a script do at each extension point. They succeed where it says
// nothing; to bind they leave to others.
type acts struct {
	build      func(*actor) error
	close      func(*actor) error
	events     func(*actor) ([]fwk.ClusterEventWithHint, error)
	less       func(a, b *corev1.Pod) bool
	preEnqueue func(*actor, *corev1.Pod) *fwk.Status
	preFilter  func(*actor, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status)
	filter     func(ctx context.Context, a *actor, pod *corev1.Pod, node string) *fwk.Status
	postFilter func(*actor, *corev1.Pod) (*fwk.PostFilterResult, *fwk.Status)
	score      func(a *actor, node string) int64
	normalize  func(fwk.NodeScoreList)
	reserve    func(a *actor, pod *corev1.Pod, node string) *fwk.Status
	permit     func(a *actor, pod *corev1.Pod, node string) (*fwk.Status, time.Duration)
	preBind    func(ctx context.Context, a *actor, pod *corev1.Pod, node string) *fwk.Status
	bind       func(ctx context.Context, a *actor, pod *corev1.Pod, node string) *fwk.Status
	postBind   func(a *actor, pod *corev1.Pod)

	// any is asked first at every extension point that is called for a pod, and what it returns is
	// returned, unless that is nil.
	any func(point string, a *actor, pod *corev1.Pod) *fwk.Status
}

// perform replaces what the plugins do from now on.
func (s *script) perform(change func(*acts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.acts)
}

// now is what the plugins do at this time.
func (s *script) now() acts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acts
}

// register has a livesched know the plugins of the script.
func (s *script) register(o *app.Options) {
	o.OutOfTree = framework.Registry{
		alpha:      s.factory(alpha, func(a *actor) fwk.Plugin { return a }),
		beta:       s.factory(beta, func(a *actor) fwk.Plugin { return a }),
		sorter:     s.factory(sorter, func(a *actor) fwk.Plugin { return sorting{a} }),
		everything: s.factory(everything, func(a *actor) fwk.Plugin { return allPoints{a} }),
		taciturn:   s.factory(taciturn, func(a *actor) fwk.Plugin { return filtering{a} }),
	}
}

func (s *script) factory(name string, as func(*actor) fwk.Plugin) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		a := &actor{script: s, name: name, ctx: ctx, handle: handle}
		if args != nil {
			if err := frameworkruntime.DecodeInto(args, &a.args); err != nil {
				return nil, err
			}
		}
		if build := s.now().build; build != nil {
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

// note notes a call.
func (s *script) note(c call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
}

// about lists the calls about a pod.
func (s *script) about(pod *corev1.Pod) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var about []call
	for _, c := range s.calls {
		if c.pod == pod.Name {
			about = append(about, c)
		}
	}
	return about
}

// points lists the extension points that plugins were called at for a pod, without repetition in a
// row.
func (s *script) points(pod *corev1.Pod) []string {
	var points []string
	for _, c := range s.about(pod) {
		points = append(points, c.point)
	}
	return slices.Compact(points)
}

// at lists which plugins were called for a pod at an extension point, as "plugin" or "plugin as".
func (s *script) at(pod *corev1.Pod, point string) []string {
	var plugins []string
	for _, c := range s.about(pod) {
		switch {
		case c.point != point:
		case c.as == "":
			plugins = append(plugins, c.plugin)
		default:
			plugins = append(plugins, c.plugin+" "+c.as)
		}
	}
	return plugins
}

// actors lists the plugins that were built.
func (s *script) actors() []*actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.built)
}

// letGo lets go of all instances and calls.
func (s *script) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.built, s.calls = nil, nil
}

// actor is a plugin instance.
type actor struct {
	script *script
	name   string
	ctx    context.Context
	handle fwk.Handle
	args   struct {
		// As tells the generations of a plugin apart.
		As string `json:"as"`
	}
	closes atomic.Int32
}

func (a *actor) Name() string { return a.name }

func (a *actor) note(point string, pod *corev1.Pod, node string) acts {
	a.script.note(call{plugin: a.name, as: a.args.As, point: point, pod: pod.Name, node: node})
	return a.script.now()
}

// struck is what the plugin returns at a point before it does anything else.
func (a *actor) struck(point string, pod *corev1.Pod) *fwk.Status {
	if act := a.script.now().any; act != nil {
		return act(point, a, pod)
	}
	return nil
}

func (a *actor) Close() error {
	a.closes.Add(1)
	if act := a.script.now().close; act != nil {
		return act(a)
	}
	return nil
}

func (a *actor) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if act := a.script.now().events; act != nil {
		return act(a)
	}
	return nil, nil
}

func (a *actor) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	now := a.note("PreEnqueue", pod, "")
	if s := a.struck("PreEnqueue", pod); s != nil {
		return s
	}
	if act := now.preEnqueue; act != nil {
		return act(a, pod)
	}
	return nil
}

func (a *actor) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	now := a.note("PreFilter", pod, "")
	if s := a.struck("PreFilter", pod); s != nil {
		return nil, s
	}
	if act := now.preFilter; act != nil {
		return act(a, pod)
	}
	return nil, nil
}

func (a *actor) PreFilterExtensions() fwk.PreFilterExtensions { return a }

func (a *actor) AddPod(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	a.note("AddPod", pod, node.Node().Name)
	return a.struck("AddPod", pod)
}

func (a *actor) RemovePod(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	a.note("RemovePod", pod, node.Node().Name)
	return a.struck("RemovePod", pod)
}

func (a *actor) Filter(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	now := a.note("Filter", pod, node.Node().Name)
	if s := a.struck("Filter", pod); s != nil {
		return s
	}
	if act := now.filter; act != nil {
		return act(ctx, a, pod, node.Node().Name)
	}
	return nil
}

func (a *actor) PostFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	now := a.note("PostFilter", pod, "")
	if s := a.struck("PostFilter", pod); s != nil {
		return nil, s
	}
	if act := now.postFilter; act != nil {
		return act(a, pod)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (a *actor) PreScore(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	a.note("PreScore", pod, "")
	return a.struck("PreScore", pod)
}

func (a *actor) Score(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	now := a.note("Score", pod, node.Node().Name)
	if s := a.struck("Score", pod); s != nil {
		return 0, s
	}
	if act := now.score; act != nil {
		return act(a, node.Node().Name), nil
	}
	return 0, nil
}

func (a *actor) ScoreExtensions() fwk.ScoreExtensions { return a }

func (a *actor) NormalizeScore(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	now := a.note("NormalizeScore", pod, "")
	if s := a.struck("NormalizeScore", pod); s != nil {
		return s
	}
	if act := now.normalize; act != nil {
		act(scores)
	}
	return nil
}

func (a *actor) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	now := a.note("Reserve", pod, node)
	if s := a.struck("Reserve", pod); s != nil {
		return s
	}
	if act := now.reserve; act != nil {
		return act(a, pod, node)
	}
	return nil
}

func (a *actor) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) {
	a.note("Unreserve", pod, node)
	a.struck("Unreserve", pod)
}

func (a *actor) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) (*fwk.Status, time.Duration) {
	now := a.note("Permit", pod, node)
	if s := a.struck("Permit", pod); s != nil {
		return s, 0
	}
	if act := now.permit; act != nil {
		return act(a, pod, node)
	}
	return nil, 0
}

func (a *actor) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	a.note("PreBindPreFlight", pod, node)
	return nil, a.struck("PreBindPreFlight", pod)
}

func (a *actor) PreBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	now := a.note("PreBind", pod, node)
	if s := a.struck("PreBind", pod); s != nil {
		return s
	}
	if act := now.preBind; act != nil {
		return act(ctx, a, pod, node)
	}
	return nil
}

func (a *actor) Bind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	now := a.note("Bind", pod, node)
	if s := a.struck("Bind", pod); s != nil {
		return s
	}
	if act := now.bind; act != nil {
		return act(ctx, a, pod, node)
	}
	return fwk.NewStatus(fwk.Skip)
}

func (a *actor) PostBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) {
	now := a.note("PostBind", pod, node)
	a.struck("PostBind", pod)
	if act := now.postBind; act != nil {
		act(a, pod)
	}
}

// sorting is an actor that sorts the queue, and does nothing else.
type sorting struct{ actor *actor }

func (s sorting) Name() string { return s.actor.Name() }

func (s sorting) Less(x, y fwk.QueuedPodInfo) bool {
	podX, podY := x.GetPodInfo().GetPod(), y.GetPodInfo().GetPod()
	now := s.actor.note("Less", podX, "")
	s.actor.struck("Less", podX)
	if act := now.less; act != nil {
		return act(podX, podY)
	}
	return x.GetTimestamp().Before(y.GetTimestamp())
}

// allPoints is an actor that sorts the queue, too.
type allPoints struct{ *actor }

func (p allPoints) Less(x, y fwk.QueuedPodInfo) bool { return sorting{p.actor}.Less(x, y) }

// filtering is an actor that filters, and does nothing else.
type filtering struct{ actor *actor }

func (f filtering) Name() string { return f.actor.Name() }

func (f filtering) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	return f.actor.Filter(ctx, state, pod, node)
}

// expectReordered has pods of the profile "mine" queued behind one that holds the loop in Filter.
// Their order is by ascending names in what create makes, and by descending ones in what change
// makes of it, and the latter is that in which they come.
func (s *script) expectReordered(ctx context.Context, create, change func()) {
	GinkgoHelper()
	hold, entered := make(chan struct{}), make(chan struct{})
	s.perform(func(a *acts) {
		a.less = func(x, y *corev1.Pod) bool { return x.Name < y.Name }
		a.filter = func(ctx context.Context, _ *actor, pod *corev1.Pod, _ string) *fwk.Status {
			if pod.Name == "first" {
				close(entered)
				select {
				case <-hold:
				case <-ctx.Done():
				}
			}
			return nil
		}
	})
	nodes(ctx, "n1")
	create()
	first := createPod(ctx, "mine", "first")
	Eventually(entered).Should(BeClosed())
	var pods []*corev1.Pod
	for _, name := range []string{"b", "c", "a"} {
		pods = append(pods, createPod(ctx, "mine", name))
	}
	Eventually(func() []string { return s.points(pods[2]) }).Should(ContainElement("PreEnqueue"))

	s.perform(func(a *acts) { a.less = func(x, y *corev1.Pod) bool { return x.Name > y.Name } })
	change()
	close(hold)
	expectBound(ctx, first)
	for _, pod := range pods {
		expectBound(ctx, pod)
	}
	Expect(s.order("PreFilter")).To(Equal([]string{"first", "c", "b", "a"}))
}
