// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	ownmetrics "github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/leaks"
	"github.com/livesched/livesched/test/objects"
)

func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{})   // the tests provoke errors in plenty; those that matter have a logger of their own
	utilruntime.ErrorHandlers = nil // kube-scheduler's queue uses them; one of them sleeps
	ownmetrics.Register()
	leaks.Main(m)
}

// The events that the plugins of the tests register for: plugin "A" for nodes, "B" for claims.
var (
	nodeAdded  = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	claimAdded = fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add}
	classAdded = fwk.ClusterEvent{Resource: fwk.StorageClass, ActionType: fwk.Add}
)

// fixture is a queue with a clock, and the profile "default" with back-offs of 1 to 10 seconds.
type fixture struct {
	*Queue
	*WithT
	t        *testing.T
	clock    *clocktesting.FakeClock
	settings *Settings
}

func newFixture(t *testing.T, change ...func(*ProfileSettings)) *fixture {
	return newFixtureOf(t, nil, change...)
}

func newFixtureOf(t *testing.T, pods corev1listers.PodLister, change ...func(*ProfileSettings)) *fixture {
	t.Helper()
	c := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	f := &fixture{
		Queue:    New(Config{Clock: c, PodLister: pods}),
		WithT:    NewWithT(t),
		t:        t,
		clock:    c,
		settings: &Settings{Profiles: map[string]*ProfileSettings{"default": profileOf(change...)}},
	}
	f.Reconfigure(logger, f.settings, nil)
	return f
}

// profileOf is a profile with the plugins A and B.
func profileOf(change ...func(*ProfileSettings)) *ProfileSettings {
	p := &ProfileSettings{
		InitialBackoff: time.Second,
		MaxBackoff:     10 * time.Second,
		Hints:          HintMap{nodeAdded: {{Plugin: "A"}}, claimAdded: {{Plugin: "B"}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func preEnqueueOf(plugins ...fwk.PreEnqueuePlugin) func(*ProfileSettings) {
	return func(p *ProfileSettings) { p.PreEnqueue = plugins }
}

var logger = klog.Logger{}

// pop pops a pod. It fails the test if there is none, where Pop would block.
func (f *fixture) pop() *schedframework.QueuedPodInfo {
	f.t.Helper()
	c := f.Counts()
	f.Expect(c.Active+c.Backoff).NotTo(BeZero(), "nothing to pop in %+v", c)
	return f.next()
}

// next pops a pod, and waits until there is one. It returns nil once the queue is closed.
func (f *fixture) next() *schedframework.QueuedPodInfo {
	p := f.Pop(logger).Pod
	return p
}

// place returns the place of a pod, "Nowhere" if it is not in the queue.
func (f *fixture) place(pod *corev1.Pod) Place {
	s, _ := f.Get(pod.UID)
	return s.Place
}

// reject pops a pod and requeues it as rejected by plugins.
func (f *fixture) reject(plugins ...string) *corev1.Pod {
	f.t.Helper()
	p := f.pop()
	return f.giveBack(p, plugins, nil)
}

func (f *fixture) giveBack(p *schedframework.QueuedPodInfo, unschedulable, pending []string) *corev1.Pod {
	f.t.Helper()
	p.ClearRejectorPlugins()
	p.UnschedulablePlugins, p.PendingPlugins = sets.New(unschedulable...), sets.New(pending...)
	pod := p.Pod
	kept, err := f.Requeue(logger, p, nil)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(kept).To(BeTrue())
	return pod
}

// step lets time pass as if Run ran, and the leader's handler of failures.
func (f *fixture) step(d time.Duration) {
	f.clock.Step(d)
	f.TendHeldGroups(logger)
	f.retryDueGroups(logger)
	f.flushBackoff(logger)
}

func (f *fixture) flushNow() { f.flushUnschedulable(logger) }

func (f *fixture) event(event fwk.ClusterEvent) { f.Move(logger, event, nil, nil, nil) }

func newPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	return objects.Stored("ns", name, append([]func(*corev1.Pod){scheduler("default")}, change...)...)
}

func priority(p int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Priority = ptr.To(p) }
}
func scheduler(n string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.SchedulerName = n }
}
func uid(uid types.UID) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.UID = uid } }
func onNode(n string) func(*corev1.Pod)   { return func(pod *corev1.Pod) { pod.Spec.NodeName = n } }

// resize sets the reason for which the resize of a pod is pending. "": it is not.
func resize(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = nil
		if reason != "" {
			pod.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}}
		}
	}
}
func nominated(n string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.NominatedNodeName = n }
}

// controlledBy sets the controller of a pod, which is also its UID.
func controlledBy(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Name: name, UID: types.UID(name), Controller: ptr.To(true)}}
	}
}

func label(k, v string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{k: v} }
}
func gates(g ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = nil
		for _, name := range g {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
		}
	}
}

// changed is a newer version of a pod.
// preEnqueuer is a PreEnqueue plugin whose result the test sets.
type preEnqueuer struct {
	name   string
	answer func(*corev1.Pod) *fwk.Status
	calls  int
}

func (p *preEnqueuer) Name() string { return p.name }

func (p *preEnqueuer) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	p.calls++
	return p.answer(pod)
}

var refusal = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not yet")

// door is a PreEnqueue plugin that is open or shut.
type door struct {
	preEnqueuer
	status *fwk.Status
}

func newDoor(name string, status *fwk.Status) *door {
	d := &door{status: status}
	d.preEnqueuer = preEnqueuer{name: name, answer: func(*corev1.Pod) *fwk.Status { return d.status }}
	return d
}

// store is an informer's cache of pods.
type store struct{ cache.Indexer }

func newStore(pods ...*corev1.Pod) *store {
	s := &store{cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	for _, pod := range pods {
		s.set(pod)
	}
	return s
}

func (s *store) set(pod *corev1.Pod) {
	if err := s.Add(pod); err != nil {
		panic(err)
	}
}

func (s *store) unset(pod *corev1.Pod) {
	if err := s.Indexer.Delete(pod); err != nil {
		panic(err)
	}
}

func (s *store) lister() corev1listers.PodLister { return corev1listers.NewPodLister(s.Indexer) }
