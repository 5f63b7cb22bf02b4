// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/klog/v2/ktesting"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/objects"
)

var (
	podKind     = kind{corev1.SchemeGroupVersion.WithKind("Pod"), typedForm}
	nodeKind    = kind{corev1.SchemeGroupVersion.WithKind("Node"), typedForm}
	budgetKind  = kind{policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), typedForm}
	podResource = corev1.SchemeGroupVersion.WithResource("pods")
)

// fakeCache is a cache of real informers on fake API servers, one for each kind.
type fakeCache struct {
	ctrlcache.Cache // nil: methods that are not overridden panic
	t               *testing.T

	mu       sync.Mutex // guards the rest
	servers  map[kind]*fcache.FakeControllerSource
	running  map[kind]*runningInformer
	never    map[kind]bool // kinds whose list hangs
	requests map[kind]int  // calls of GetInformer
	removed  map[kind]int  // calls of RemoveInformer
}

type runningInformer struct {
	informer toolscache.SharedIndexInformer
	stop     context.CancelFunc
	stopped  chan struct{}
}

func newFakeCache(t *testing.T) *fakeCache {
	c := &fakeCache{
		t:        t,
		servers:  map[kind]*fcache.FakeControllerSource{},
		running:  map[kind]*runningInformer{},
		never:    map[kind]bool{},
		requests: map[kind]int{},
		removed:  map[kind]int{},
	}
	t.Cleanup(c.stop)
	return c
}

// stop ends all informers and fake servers.
func (c *fakeCache) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range slices.Collect(maps.Keys(c.running)) {
		c.stopLocked(k)
	}
	for k, server := range c.servers {
		server.Shutdown()
		delete(c.servers, k)
	}
}

func (c *fakeCache) server(k kind) *fcache.FakeControllerSource {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.serverLocked(k)
}

func (c *fakeCache) serverLocked(k kind) *fcache.FakeControllerSource {
	if c.servers[k] == nil {
		c.servers[k] = fcache.NewFakeControllerSource()
	}
	return c.servers[k]
}

func (c *fakeCache) GetInformer(_ context.Context, obj client.Object,
	_ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	k, err := kindOf(obj, scheme.Scheme)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[k]++
	if c.running[k] == nil {
		var lw toolscache.ListerWatcher = c.serverLocked(k)
		ctx, stop := context.WithCancel(c.t.Context())
		if c.never[k] {
			lw = hangingListWatch(ctx)
		}
		informer := newWatchedInformer(lw, obj,
			0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		running := &runningInformer{informer: informer, stop: stop, stopped: make(chan struct{})}
		go func() {
			defer close(running.stopped)
			informer.RunWithContext(ctx)
		}()
		c.running[k] = running
	}
	return c.running[k].informer, nil
}

func (c *fakeCache) RemoveInformer(_ context.Context, obj client.Object) error {
	k, err := kindOf(obj, scheme.Scheme)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed[k]++
	c.stopLocked(k)
	return nil
}

func (c *fakeCache) stopLocked(k kind) {
	c.running[k].stop()
	<-c.running[k].stopped
	delete(c.running, k)
}

// hangingListWatch returns a ListerWatcher whose list hangs until ctx ends.
func hangingListWatch(ctx context.Context) toolscache.ListerWatcher {
	return toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}, noWatchList{})
}

// noWatchList is a client whose server cannot stream lists.
type noWatchList struct{}

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// fakeMapper knows pods and nodes, fails for the kinds in fails, and counts calls.
type fakeMapper struct {
	meta.RESTMapper
	mu    sync.Mutex // guards the rest
	fails map[schema.GroupKind]error
	asked map[schema.GroupKind]int
}

func newFakeMapper() *fakeMapper {
	known := meta.NewDefaultRESTMapper(nil)
	known.Add(podKind.GroupVersionKind, meta.RESTScopeNamespace)
	known.Add(nodeKind.GroupVersionKind, meta.RESTScopeRoot)
	return &fakeMapper{RESTMapper: known, fails: map[schema.GroupKind]error{}, asked: map[schema.GroupKind]int{}}
}

func (m *fakeMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.mu.Lock()
	m.asked[gk]++
	err := m.fails[gk]
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return m.RESTMapper.RESTMapping(gk, versions...)
}

func newTestSource(t *testing.T) (*Source, *fakeCache, *fakeMapper) {
	logger, _ := ktesting.NewTestContext(t)
	cache, mapper := newFakeCache(t), newFakeMapper()
	return NewSource(cache, mapper, scheme.Scheme, logger), cache, mapper
}

func newTestScope(t *testing.T) (*Scope, *fakeCache, *fakeMapper) {
	source, cache, mapper := newTestSource(t)
	scope := source.NewScope()
	t.Cleanup(scope.Close)
	return scope, cache, mapper
}

func newPod(name string) *corev1.Pod {
	return objects.Stored(metav1.NamespaceDefault, name)
}

// waitForSync fails the test if the scope does not sync.
func waitForSync(t *testing.T, scope *Scope) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := scope.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	// A reflector stores its first list before it sets the resource version.
	source := scope.source
	eventually(t, "informers that have synced have a resource version", func() bool {
		source.mu.Lock()
		defer source.mu.Unlock()
		for _, shared := range source.shared {
			if i := shared.informer; i != nil && i.HasSynced() && i.LastSyncResourceVersion() == "" {
				return false
			}
		}
		return true
	})
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}
