// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/failure"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	metrics.Register()
	klog.SetLogger(logr.Discard())
	leaks.Main(m)
}

// plugin implements every extension point of the binding cycle. It records its calls in the
// fixture's log, and returns what the test specifies, by default success.
type plugin struct {
	name string
	f    *fixture

	flight  *fwk.Status
	preBind func(context.Context) *fwk.Status
	bind    *fwk.Status
}

func (p *plugin) Name() string { return p.name }

func (p *plugin) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return nil
}

func (p *plugin) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {
	p.f.note("%s unreserves", p.name)
}

func (p *plugin) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod,
	string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, p.flight
}

func (p *plugin) PreBind(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ string) *fwk.Status {
	p.f.note("%s prepares", p.name)
	if p.preBind == nil {
		return nil
	}
	return p.preBind(ctx)
}

func (p *plugin) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	p.f.note("%s binds", p.name)
	return p.bind
}

func (p *plugin) PostBind(context.Context, fwk.CycleState, *corev1.Pod, string) {
	p.f.note("%s has heard", p.name)
}

// fixture is a Binder on a real cache and queue, with one popped and assumed pod.
type fixture struct {
	*Binder
	t        *testing.T
	ctx      context.Context
	first    *plugin
	second   *plugin
	cycle    *Cycle
	waiting  *framework.WaitingPods
	recorder *events.FakeRecorder
	failure  *fwk.Status
	// live is the pod in the API server; nil: as it was popped.
	live    *corev1.Pod
	liveErr error
	// announce and read, if not nil, return the API server's responses to the two calls of the
	// Binder.
	announce func() error
	read     func() (*corev1.Pod, error)

	mu  sync.Mutex // guards log
	log []string
}

const (
	schedulerName = "mine"
	rejector      = "Rejector"
	nodeName      = "n1"
	// announceAfter is longer than any test takes, but for those in a bubble.
	announceAfter = time.Hour
)

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		t:        t,
		ctx:      klog.NewContext(t.Context(), logr.Discard()),
		waiting:  framework.NewWaitingPods(),
		recorder: events.NewFakeRecorder(100),
	}
	f.first, f.second = &plugin{name: "first", f: f}, &plugin{name: "second", f: f}
	f.Binder = &Binder{
		Client:        f.client(),
		Cache:         cache.New(),
		Queue:         queue.New(queue.Config{}),
		PodsInPreBind: framework.NewPodsInPreBind(),
		Limit:         NewLimit(DefaultLimit),
		AnnounceAfter: announceAfter,
		Failures:      f,
	}
	f.configure()
	f.cycle = f.assume("pod")
	return f
}

// configure adds the profile to the queue.
func (f *fixture) configure() {
	deleted := fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}
	f.Queue.Reconfigure(logr.Discard(), &queue.Settings{Profiles: map[string]*queue.ProfileSettings{schedulerName: {
		Hints: queue.HintMap{deleted: {{Plugin: rejector}}},
	}}}, sets.New(schedulerName))
}

// queueWith replaces the queue by an empty one for which the informers have certain pods.
func (f *fixture) queueWith(pods corev1listers.PodLister) {
	f.Queue = queue.New(queue.Config{PodLister: pods})
	f.configure()
}

// client returns an API server that has the pod.
func (f *fixture) client() clientset.Interface {
	client := &fake.Clientset{}
	client.AddReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if f.announce != nil {
			return true, nil, f.announce()
		}
		patched := &corev1.Pod{}
		if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), patched); err != nil {
			f.t.Error(err)
		}
		f.note("announced %s", patched.Status.NominatedNodeName)
		return true, patched, nil
	})
	client.AddReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if f.read != nil {
			pod, err := f.read()
			return true, pod, err
		}
		if f.live != nil || f.liveErr != nil {
			return true, f.live, f.liveErr
		}
		unbound := *f.cycle.Pod.Pod
		unbound.Spec.NodeName = ""
		return true, &unbound, nil
	})
	return client
}

// assume pops a pod and assumes it on the node.
func (f *fixture) assume(name string) *Cycle {
	f.t.Helper()
	popped := f.pop(name)
	pod := *popped.Pod
	pod.Spec.NodeName = nodeName
	info, err := schedframework.NewPodInfo(&pod)
	if err != nil {
		f.t.Fatal(err)
	}
	popped.PodInfo = info
	if err := f.Cache.AssumePod(logr.Discard(), info); err != nil {
		f.t.Fatal(err)
	}
	state := schedframework.NewCycleState()
	return &Cycle{
		Framework: framework.New(framework.Config{
			ProfileName: schedulerName,
			Plugins: &framework.Plugins{
				Reserve:  []fwk.ReservePlugin{f.first, f.second},
				PreBind:  []fwk.PreBindPlugin{f.first, f.second},
				Bind:     []fwk.BindPlugin{f.first},
				PostBind: []fwk.PostBindPlugin{f.first, f.second},
			},
			WaitingPods: f.waiting,
		}),
		Recorder: f.recorder, State: state, Pod: popped, NodeName: nodeName, Start: time.Now(),
		PodsToActivate: schedframework.NewPodsToActivate(),
	}
}

func (f *fixture) pop(name string) *schedframework.QueuedPodInfo {
	f.t.Helper()
	f.Queue.Add(logr.Discard(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{SchedulerName: schedulerName},
	})
	popped := f.Queue.Pop(logr.Discard()).Pod
	if popped.Pod.Name != name {
		f.t.Fatalf("popped %s, not %s", popped.Pod.Name, name)
	}
	return popped
}

// unschedulable puts a pod that the rejector rejected into the queue.
func (f *fixture) unschedulable(name string) {
	f.t.Helper()
	f.refuse(f.pop(name))
	f.expectPlace(name, queue.Unschedulable)
}

// refuse requeues a popped pod as rejected by the rejector.
func (f *fixture) refuse(popped *schedframework.QueuedPodInfo) {
	popped.UnschedulablePlugins = sets.New(rejector)
	if _, err := f.Queue.Requeue(logr.Discard(), popped, nil); err != nil {
		f.t.Error(err)
	}
}

func (f *fixture) expectPlace(name string, want queue.Place) {
	f.t.Helper()
	if state, _ := f.Queue.Get(types.UID(name)); state.Place != want {
		f.t.Errorf("pod %s is %v, want %v", name, state.Place, want)
	}
}

// Handle implements Failures. It requeues the pod as failure.Handler does.
func (f *fixture) Handle(_ context.Context, a failure.Attempt) {
	f.note("failed: %s", a.Status.Message())
	f.failure = a.Status
	if a.Status.IsRejected() {
		f.refuse(a.Pod)
		return
	}
	a.Pod.UnschedulablePlugins = nil
	if _, err := f.Queue.Requeue(logr.Discard(), a.Pod, nil); err != nil {
		f.t.Error(err)
	}
}

// note records an event, with other facts that hold at that time.
func (f *fixture) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	if f.Queue.Counts().InFlight > 0 {
		line += ", in flight"
	}
	if f.Cache.Size().Pods > 0 {
		line += ", assumed"
	}
	f.log = append(f.log, line)
}

func (f *fixture) expectLog(want ...string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := fmt.Sprintf("%q", f.log); got != fmt.Sprintf("%q", want) {
		f.t.Errorf("what happened:\n got %s\nwant %q", got, want)
	}
}

func (f *fixture) expectEvent(want string) {
	f.t.Helper()
	select {
	case got := <-f.recorder.Events:
		if got != want {
			f.t.Errorf("the Event is %q, want %q", got, want)
		}
	default:
		if want != "" {
			f.t.Errorf("there is no Event, want %q", want)
		}
	}
}
