// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// testEnv is an Environment as the scheduler makes it, with event sources that only count.
type testEnv struct {
	*Environment
	ctx      context.Context
	cache    *cache.Cache
	snapshot *cache.Snapshot
	sources  *countingSources
	scope    *informers.Scope
	queue    *queue.Queue
	client   clientset.Interface
	// handlers is the number of informer handlers before the first build.
	handlers int
}

// newTestEnv makes an Environment whose registry has the test's plugins and the in-tree ones.
func newTestEnv(t *testing.T, outOfTree framework.Registry) *testEnv {
	t.Helper()
	return newTestEnvFor(t, outOfTree, sharedCluster.GetRESTMapper())
}

// newTestEnvFor is newTestEnv for an API server that serves what the mapper knows.
func newTestEnvFor(t *testing.T, outOfTree framework.Registry, mapper meta.RESTMapper) *testEnv {
	t.Helper()
	ctx := quiet(t)
	registry, err := plugins.NewRegistry(outOfTree)
	must(t, err)
	client, err := clientset.NewForConfig(admin)
	must(t, err)
	readOnly := ReadOnly(admin)
	reading, err := clientset.NewForConfig(readOnly)
	must(t, err)
	source := informers.NewSource(sharedCluster.GetCache(), mapper, scheme.Scheme, logr.Discard())
	scope := source.NewScope()
	t.Cleanup(scope.Close)
	e := &testEnv{ctx: ctx, cache: cache.New(), snapshot: cache.NewSnapshot(), sources: &countingSources{},
		client: client, scope: scope}
	// On the test's clock, no back-off ends during the test.
	e.queue = queue.New(queue.Config{PodLister: scope.Core().V1().Pods().Lister(),
		Clock: clocktesting.NewFakeClock(time.Now())})
	e.Environment, err = NewEnvironment(ctx, Dependencies{
		Registry:      registry,
		Client:        client,
		KubeConfig:    admin,
		ReadingClient: reading,
		ReadingConfig: readOnly,
		Informers:     source,
		Scope:         scope,
		Cache:         e.cache,
		Snapshot:      e.snapshot,
		Queue:         e.queue,
		Nominator:     e.queue.Nominator(),
		WaitingPods:   framework.NewWaitingPods(),
		PodsInPreBind: framework.NewPodsInPreBind(),
		Recorder:      func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		EventSources:  e.sources,
	})
	must(t, err)
	t.Cleanup(func() {
		stopped, cancel := context.WithCancel(context.Background())
		cancel() // a failed test may have left a preemption hanging
		e.Durable.Close(stopped)
	})
	must(t, scope.WaitForSync(ctx))
	e.handlers = source.Handlers()
	return e
}

func (e *testEnv) builder() *Builder { return NewBuilder(e.Environment, 0, clock.RealClock{}) }

// build builds a profile of the object and closes it at the end of the test, unless the test did.
func (e *testEnv) build(t *testing.T, object *v1alpha1.SchedulerProfile) *Instance {
	t.Helper()
	p, err := e.builder().Build(e.ctx, e.resolve(t, object))
	must(t, err)
	t.Cleanup(func() {
		if p.refs.Load() > 0 {
			p.Release(logr.Discard())
		}
		<-p.Closed()
	})
	return p
}

// resolve resolves one profile that must be valid.
func (e *testEnv) resolve(t *testing.T, object *v1alpha1.SchedulerProfile) *resolve.Profile {
	t.Helper()
	resolution := resolve.Objects(resolve.Input{Profiles: []v1alpha1.SchedulerProfile{*object},
		Registered: sets.KeySet(e.Registry)})
	result := resolution.ProfileResults[object.Name]
	if !result.Accepted {
		t.Fatalf("the profile of the test is not valid: %s", result.Message)
	}
	return resolution.Profiles[result.SchedulerName]
}

// expectNothingLeft waits until everything that the test's builds acquired has been released.
func (e *testEnv) expectNothingLeft(t *testing.T) {
	t.Helper()
	eventually(t, e.Informers.Handlers).Should(gomega.Equal(e.handlers), "informer handlers")
	eventually(t, e.sources.held).Should(gomega.BeEmpty(), "event sources")
}

// countingSources are event sources that count their users.
type countingSources struct {
	mu  sync.Mutex
	err error
	// users counts the users of each resource.
	users map[fwk.EventResource]int
	// missing are kinds that the API server does not serve.
	missing []schema.GroupVersionKind
}

func (s *countingSources) Missing([]fwk.EventResource) []schema.GroupVersionKind { return s.missing }

func (s *countingSources) Require(_ context.Context, resources []fwk.EventResource) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if s.users == nil {
		s.users = map[fwk.EventResource]int{}
	}
	for _, r := range resources {
		s.users[r]++
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range resources {
			if s.users[r]--; s.users[r] == 0 {
				delete(s.users, r)
			}
		}
	}, nil
}

// held lists the resources that have users.
func (s *countingSources) held() []fwk.EventResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.users))
}

// object is a SchedulerProfile that adds plugins to the default set.
func object(name string, enabled ...string) *v1alpha1.SchedulerProfile {
	p := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", Generation: 1}}
	p.Spec.Plugins = &v1alpha1.Plugins{}
	for _, plugin := range enabled {
		p.Spec.Plugins.MultiPoint.Enabled = append(p.Spec.Plugins.MultiPoint.Enabled, v1alpha1.Plugin{Name: plugin})
	}
	return p
}

func quiet(t *testing.T) context.Context { return klog.NewContext(t.Context(), logr.Discard()) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, actual any) gomega.AsyncAssertion {
	t.Helper()
	return gomega.NewWithT(t).Eventually(actual).WithTimeout(time.Minute).WithPolling(5 * time.Millisecond)
}
