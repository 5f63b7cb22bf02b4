// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

const (
	namespace     = metav1.NamespaceDefault
	schedulerName = "mine"
)

// environment is a scheduler with one profile, reduced to preemption: its scheduling cycles always
// fail.
type environment struct {
	t   testing.TB
	ctx context.Context
	// client is the scheduler's client, whose calls may fail; admin is the tests' client.
	client, admin clientset.Interface
	calls         *spoiledCalls
	cache         *cache.Cache
	snapshot      *cache.Snapshot
	queue         *queue.Queue
	waitingPods   *framework.WaitingPods
	podsInPreBind *framework.PodsInPreBind
	recorder      *events.FakeRecorder
	evictor       *Evictor
	budgets       *Budgets
	groups        *podgroup.Registry

	// The profile's instance.
	framework *framework.Framework
	plugin    *Plugin
}

func newEnvironment(t testing.TB) *environment {
	t.Helper()
	p := &environment{
		t:             t,
		ctx:           klog.NewContext(t.Context(), logr.Discard()),
		calls:         &spoiledCalls{},
		cache:         cache.New(),
		snapshot:      cache.NewSnapshot(),
		waitingPods:   framework.NewWaitingPods(),
		podsInPreBind: framework.NewPodsInPreBind(),
		recorder:      &events.FakeRecorder{Events: make(chan string, 100)},
		groups:        podgroup.NewRegistry(),
	}
	var err error
	p.admin, err = clientset.NewForConfig(admin)
	must(t, err)
	spoilt := rest.CopyConfig(admin)
	spoilt.Wrap(func(next http.RoundTripper) http.RoundTripper { p.calls.next = next; return p.calls })
	p.client, err = clientset.NewForConfig(spoilt)
	must(t, err)
	p.budgets, err = NewBudgets(factory.Policy().V1().PodDisruptionBudgets())
	must(t, err)
	pods := factory.Core().V1().Pods().Lister()
	// On the test's clock, no back-off ends during the test.
	p.queue = queue.New(queue.Config{PodLister: pods, Clock: clocktesting.NewFakeClock(time.Now())})
	p.evictor = NewEvictor(p.ctx, Config{
		Client: p.client, Cache: p.cache, Queue: p.queue, Nominator: p.queue.Nominator(),
		WaitingPods: p.waitingPods, PodsInPreBind: p.podsInPreBind,
	})
	p.evictor.maxLag = 0 // only gone tells the cache of a deletion
	t.Cleanup(func() {
		stopped, cancel := context.WithCancel(context.Background())
		cancel() // a failed test may have left a preemption hanging
		p.evictor.Close(stopped)
	})
	p.reload()
	return p
}

// reload replaces the profile's instance with a new one.
func (p *environment) reload() {
	p.t.Helper()
	defaults, err := latest.Default()
	must(p.t, err)
	configured := enabled(&defaults.Profiles[0])
	args := map[string]runtime.Object{}
	for _, pc := range defaults.Profiles[0].PluginConfig {
		args[pc.Name] = pc.Args
	}
	h := &handle{environment: p}
	registry, instances := frameworkplugins.NewInTreeRegistry(), map[string]fwk.Plugin{}
	for name := range framework.Needed(configured) {
		pl, err := registry[name](p.ctx, args[name], h)
		must(p.t, err)
		if upstream, ok := pl.(*defaultpreemption.DefaultPreemption); ok {
			p.plugin = New(upstream, h, p.snapshot, p.queue.Nominator(), p.groups, p.evictor, p.budgets,
				clock.RealClock{})
			pl = p.plugin
		}
		instances[name] = pl
	}
	plugins, err := framework.Expand(configured, instances)
	must(p.t, err)
	p.framework = framework.New(framework.Config{
		ProfileName: schedulerName, Plugins: plugins, Snapshot: p.snapshot, Nominator: p.queue.Nominator(),
		WaitingPods: p.waitingPods,
	})
	h.Framework = p.framework
	factory.Start(stopFactory)
	factory.WaitForCacheSync(stopFactory)

	hints := queue.HintMap{}
	for _, extension := range plugins.EnqueueExtensions() {
		events, err := extension.EventsToRegister(p.ctx)
		must(p.t, err)
		for _, e := range events {
			hints[e.Event] = append(hints[e.Event], queue.Hint{Plugin: extension.Name(), Fn: e.QueueingHintFn})
		}
	}
	p.queue.Reconfigure(logr.Discard(), &queue.Settings{Profiles: map[string]*queue.ProfileSettings{
		schedulerName: {PreEnqueue: plugins.PreEnqueue, Hints: hints, InitialBackoff: time.Second,
			MaxBackoff: 10 * time.Second},
	}}, sets.New(schedulerName))
}

// enabled returns the default plugins that the tests need: those for volumes and devices are left
// out.
func enabled(profile *schedconfig.KubeSchedulerProfile) *schedconfig.Plugins {
	wanted := sets.New(names.PrioritySort, names.NodeUnschedulable, names.NodeName, names.TaintToleration,
		names.NodeAffinity,
		names.NodePorts, names.NodeResourcesFit, names.PodTopologySpread, names.InterPodAffinity,
		names.DefaultPreemption, names.DefaultBinder)
	out := &schedconfig.Plugins{}
	for _, pl := range profile.Plugins.MultiPoint.Enabled {
		if wanted.Has(pl.Name) {
			out.MultiPoint.Enabled = append(out.MultiPoint.Enabled, pl)
		}
	}
	return out
}

// mutable is a snapshot from which upstream's plugin only reads: it has no changes.
type (
	mutable struct {
		fwk.SharedLister
		changes
	}
	changes struct {
		fwk.MutableSnapshotSharedLister
	}
)

// handle has the methods of an instance's handle that the plugins and preemption call.
type handle struct {
	fwk.Handle
	*environment
	Framework *framework.Framework
}

func (h *handle) Within(context.Context) fwk.Handle      { return h }
func (h *handle) SnapshotSharedLister() fwk.SharedLister { return h.snapshot }
func (h *handle) MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister {
	return mutable{SharedLister: h.snapshot}
}
func (h *handle) ClientSet() clientset.Interface                         { return h.client }
func (h *handle) EventRecorder() events.EventRecorderLogger              { return h.recorder }
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return factory }
func (h *handle) Parallelizer() fwk.Parallelizer                         { return framework.NewParallelizer(0) }
func (h *handle) Extenders() []fwk.Extender                              { return nil }
func (h *handle) SharedDRAManager() fwk.SharedDRAManager                 { return nil }
func (h *handle) APICacher() fwk.APICacher                               { return nil }

func (h *handle) RunPreFilterExtensionAddPod(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, add fwk.PodInfo, node fwk.NodeInfo,
) *fwk.Status {
	return h.Framework.RunPreFilterExtensionAddPod(ctx, state, pod, add, node)
}

func (h *handle) RunPreFilterExtensionRemovePod(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, remove fwk.PodInfo, node fwk.NodeInfo,
) *fwk.Status {
	return h.Framework.RunPreFilterExtensionRemovePod(ctx, state, pod, remove, node)
}

func (h *handle) RunFilterPluginsWithNominatedPods(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) *fwk.Status {
	return h.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
}

// addNode puts a node with room for ten pods only into the cache.
func (p *environment) addNode(name string, pods ...*corev1.Pod) {
	p.t.Helper()
	room := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10"),
		corev1.ResourceCPU: resource.MustParse("1")}
	p.cache.AddNode(logr.Discard(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	})
	for _, pod := range pods {
		must(p.t, p.cache.AddPod(logr.Discard(), pod))
	}
	must(p.t, p.cache.UpdateSnapshot(logr.Discard(), p.snapshot))
}

// create creates a pod and waits until the informers have it.
func (p *environment) create(pod *corev1.Pod) *corev1.Pod {
	p.t.Helper()
	pod.Namespace = namespace
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("600m")},
	}}}
	var created *corev1.Pod
	eventually(p.t, func() (err error) { // the API server may not know the priority class yet
		created, err = p.admin.CoreV1().Pods(namespace).Create(p.ctx, pod, metav1.CreateOptions{})
		return err
	}).Should(gomega.Succeed())
	p.t.Cleanup(func() {
		if err := p.admin.CoreV1().Pods(namespace).Delete(context.Background(), pod.Name,
			*metav1.NewDeleteOptions(0)); err != nil && !apierrors.IsNotFound(err) {
			p.t.Error(err)
		}
	})
	lister := factory.Core().V1().Pods().Lister().Pods(namespace)
	eventually(p.t, func() error { _, err := lister.Get(pod.Name); return err }).Should(gomega.Succeed())
	return created
}

// class returns the name of a priority class with that value. The tests share the classes, which
// stay until the API server ends.
func (p *environment) class(value int32) string {
	p.t.Helper()
	class := objects.PriorityClass(fmt.Sprintf("of-value-%d", value), value)
	if _, err := p.admin.SchedulingV1().PriorityClasses().
		Create(p.ctx, class, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		must(p.t, err)
	}
	return class.Name
}

// pending creates a pod that needs more than half a node, and queues it.
func (p *environment) pending(priority int32) *corev1.Pod {
	p.t.Helper()
	pod := p.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "preemptor-" +
		rand.String(5)}, Spec: corev1.PodSpec{
		SchedulerName: "mine", PriorityClassName: p.class(priority),
	}})
	p.queue.Add(logr.Discard(), pod)
	return pod
}

// running creates pods that are bound to a node, which has room for one of them only.
func (p *environment) running(node string, count int) []*corev1.Pod {
	p.t.Helper()
	var pods []*corev1.Pod
	for range count {
		pods = append(pods, p.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "victim-" + rand.String(5)},
			Spec: corev1.PodSpec{NodeName: node}}))
	}
	return pods
}

// pop pops a pod, which must be the next one.
func (p *environment) pop(pod *corev1.Pod) *schedframework.QueuedPodInfo {
	p.t.Helper()
	p.expectPlace(pod, queue.Active, queue.Backoff)
	popped := p.queue.Pop(logr.Discard()).Pod
	if popped.Pod.UID != pod.UID {
		p.t.Fatalf("popped %s instead of %s", popped.Pod.Name, pod.Name)
	}
	return popped
}

// attempt is a scheduling cycle that ends in PostFilter: the pod fits on no node.
func (p *environment) attempt(popped *schedframework.QueuedPodInfo) *fwk.Status {
	p.t.Helper()
	result, status := p.postFilter(popped.Pod)
	popped.UnschedulablePlugins.Insert(names.NodeResourcesFit)
	var nominating *fwk.NominatingInfo
	if result != nil {
		nominating = result.NominatingInfo
	}
	if kept, err := p.queue.Requeue(logr.Discard(), popped, nominating); !kept || err != nil {
		p.t.Fatalf("giving the pod back: kept %v, %v", kept, err)
	}
	return status
}

func (p *environment) postFilter(pod *corev1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
	p.t.Helper()
	must(p.t, p.cache.UpdateSnapshot(logr.Discard(), p.snapshot))
	state := schedframework.NewCycleState()
	if _, status, _ := p.framework.RunPreFilterPlugins(p.ctx, state, pod); !status.IsSuccess() {
		p.t.Fatalf("PreFilter: %v", status)
	}
	nodes, err := p.snapshot.NodeInfos().List()
	must(p.t, err)
	statuses := schedframework.NewDefaultNodeToStatus()
	for _, node := range nodes {
		status := p.framework.RunFilterPluginsWithNominatedPods(p.ctx, state, pod, node)
		if !status.IsRejected() {
			p.t.Fatalf("node %s is not refused: %v", node.Node().Name, status)
		}
		statuses.Set(node.Node().Name, status)
	}
	state = schedframework.NewCycleState()
	p.framework.DeferPreFilter(state, pod)
	return p.framework.RunPostFilterPlugins(p.ctx, state, pod, statuses)
}

// gone does what the event handlers do when a bound pod is deleted.
func (p *environment) gone(pod *corev1.Pod) {
	p.t.Helper()
	must(p.t, p.cache.RemovePod(logr.Discard(), pod))
	p.queue.Move(logr.Discard(), schedframework.EventAssignedPodDelete, pod, nil, nil)
}

// assume assumes a pod on a node, and returns the assumed pod.
func (p *environment) assume(pod *corev1.Pod, node string) *corev1.Pod {
	p.t.Helper()
	assumed := *pod
	assumed.Spec.NodeName = node
	info, err := schedframework.NewPodInfo(&assumed)
	must(p.t, err)
	must(p.t, p.cache.AssumePod(logr.Discard(), info))
	return &assumed
}

func (p *environment) expectPlace(pod *corev1.Pod, places ...queue.Place) {
	p.t.Helper()
	eventually(p.t, func() queue.Place { state, _ := p.queue.Get(pod.UID); return state.Place }).
		Should(gomega.BeElementOf(places))
}

// ended waits until the started preemptions have ended, including their reports to the queue and
// the metrics.
func (p *environment) ended() {
	p.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.evictor.running.Wait()
	}()
	eventually(p.t, ended).Should(gomega.BeClosed())
}

// expectEvent waits for the next Event, which must have this text.
func (p *environment) expectEvent(text string) {
	p.t.Helper()
	var got string
	eventually(p.t, p.recorder.Events).Should(gomega.Receive(&got))
	if got != text {
		p.t.Errorf("the Event is %q, not %q", got, text)
	}
}

// exists reports whether the API server has the pod, and is not deleting it.
func (p *environment) exists(pod *corev1.Pod) bool {
	p.t.Helper()
	now, err := p.client.CoreV1().Pods(pod.Namespace).Get(p.ctx, pod.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		must(p.t, err)
	}
	return err == nil && now.UID == pod.UID && now.DeletionTimestamp == nil
}

// deletes reports whether a request deletes a pod.
func deletes(r *http.Request, pod *corev1.Pod) bool {
	return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/pods/"+pod.Name)
}

// stop makes the matching API calls wait until release is called. The first of them closes reached.
func (p *environment) stop(which func(*http.Request) bool) (reached <-chan struct{}, release func()) {
	at, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p.calls.set(func(r *http.Request) error {
		if !which(r) {
			return nil
		}
		once.Do(func() { close(at) })
		select {
		case <-open:
			return nil
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
	})
	return at, sync.OnceFunc(func() { close(open) })
}

var errForbidden = errors.New("nobody may delete this")

// spoiledCalls is a client transport that fails or delays calls to the API server.
type spoiledCalls struct {
	next http.RoundTripper

	mu    sync.Mutex // guards spoil
	spoil func(*http.Request) error
}

// set replaces the treatment of calls from now on; nil: calls pass.
func (s *spoiledCalls) set(spoil func(*http.Request) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoil = spoil
}

func (s *spoiledCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	spoil := s.spoil
	s.mu.Unlock()
	if spoil != nil {
		if err := spoil(r); err != nil {
			return nil, err
		}
	}
	return s.next.RoundTrip(r)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, actual any) gomega.AsyncAssertion {
	t.Helper()
	return gomega.NewWithT(t).Eventually(actual).WithTimeout(time.Minute).WithPolling(5 * time.Millisecond)
}
