// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/livesched/livesched/test/leaks"
)

// recorder is an event handler that records its events.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) note(what string, obj any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, what+" "+obj.(client.Object).GetName())
}

func (r *recorder) OnAdd(obj any, isInInitialList bool) {
	if isInInitialList {
		r.note("list", obj)
		return
	}
	r.note("add", obj)
}
func (r *recorder) OnUpdate(_, obj any) { r.note("update", obj) }
func (r *recorder) OnDelete(obj any)    { r.note("delete", obj) }

func (r *recorder) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func TestScopesShareOneInformer(t *testing.T) {
	source, cache, mapper := newTestSource(t)
	cache.server(podKind).Add(newPod("a"))
	one, other := source.NewScope(), source.NewScope()
	defer one.Close()
	defer other.Close()

	for _, scope := range []*Scope{one, other, one} {
		lister := scope.Core().V1().Pods().Lister()
		waitForSync(t, scope)
		if pod, err := lister.Pods("default").Get("a"); err != nil || pod.Name != "a" {
			t.Fatalf("got %v, %v", pod, err)
		}
	}
	if got := cache.requests[podKind]; got != 1 {
		t.Errorf("the cache was asked %d times, want once", got)
	}
	if got := mapper.asked[podKind.GroupKind()]; got != 1 {
		t.Errorf("the mapper was asked %d times, want once", got)
	}
	if one.InformerFor(&corev1.Pod{}, nil) != one.InformerFor(&corev1.Pod{}, nil) {
		t.Error("a scope returned two informers for one type")
	}
}

func TestHandlersEndWithTheirScope(t *testing.T) {
	source, cache, _ := newTestSource(t)
	cache.server(podKind).Add(newPod("a"))
	longLived, scope := source.NewScope(), source.NewScope()
	defer longLived.Close()
	stays, first, second := &recorder{}, &recorder{}, &recorder{}

	if _, err := longLived.Core().V1().Pods().Informer().AddEventHandler(stays); err != nil {
		t.Fatal(err)
	}
	waitForSync(t, longLived)
	// A synced informer has listed. Once it has received an event, all its goroutines run.
	cache.server(podKind).Modify(newPod("a"))
	eventually(t, "the watch has begun", func() bool { return slices.Contains(stays.got(), "update a") })
	before := goleak.IgnoreCurrent()

	informer := scope.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(first); err != nil {
		t.Fatal(err)
	}
	if _, err := informer.AddEventHandlerWithResyncPeriod(second, time.Hour); err != nil {
		t.Fatal(err)
	}
	waitForSync(t, scope)
	if got := source.Handlers(); got != 3 {
		t.Errorf("%d handlers alive, want 3", got)
	}

	scope.Close()
	scope.Close()
	if got := source.Handlers(); got != 1 {
		t.Errorf("%d handlers alive after Close, want the one of the other scope", got)
	}
	cache.server(podKind).Add(newPod("b"))
	eventually(t, "the other scope's handler sees pod b", func() bool { return slices.Contains(stays.got(), "add b") })
	for _, r := range []*recorder{first, second} {
		if diff := cmp.Diff([]string{"list a"}, r.got()); diff != "" {
			t.Errorf("events of a handler of the closed scope (-want +got):\n%s", diff)
		}
	}
	leaks.Verify(t, before)

	if _, err := informer.AddEventHandler(first); !errors.Is(err, ErrClosed) {
		t.Errorf("adding a handler after Close: %v, want ErrClosed", err)
	}
	if _, err := informer.GetIndexer().ByIndex(toolscache.NamespaceIndex, "default"); err != nil {
		t.Errorf("reading after Close: %v", err)
	}
}

func TestAHandlerCanBeRemovedBeforeItsScopeEnds(t *testing.T) {
	source, cache, _ := newTestSource(t)
	cache.server(podKind).Add(newPod("a"))
	scope, other := source.NewScope(), source.NewScope()
	defer other.Close()
	informer := scope.Core().V1().Pods().Informer()
	removed, stays := &recorder{}, &recorder{}
	registration, err := informer.AddEventHandler(removed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := informer.AddEventHandler(stays); err != nil {
		t.Fatal(err)
	}
	waitForSync(t, scope)

	// Another scope cannot remove the handler, although both share the informer.
	if err := other.Core().V1().Pods().Informer().RemoveEventHandler(registration); err != nil {
		t.Fatal(err)
	}
	if got := source.Handlers(); got != 2 {
		t.Errorf("%d handlers alive, want 2", got)
	}
	for range 2 {
		if err := informer.RemoveEventHandler(registration); err != nil {
			t.Fatal(err)
		}
	}
	if got := source.Handlers(); got != 1 {
		t.Errorf("%d handlers alive, want 1", got)
	}
	cache.server(podKind).Add(newPod("b"))
	eventually(t, "the handler that stays sees pod b", func() bool { return slices.Contains(stays.got(), "add b") })
	if diff := cmp.Diff([]string{"list a"}, removed.got()); diff != "" {
		t.Errorf("events of the removed handler (-want +got):\n%s", diff)
	}
	scope.Close()
	if got := source.Handlers(); got != 0 {
		t.Errorf("%d handlers alive after Close, want none", got)
	}
}

func TestIgnoredHandlersAreNotAdded(t *testing.T) {
	source, cache, _ := newTestSource(t)
	cache.server(podKind).Add(newPod("a"))
	scope := source.NewScope()
	t.Cleanup(scope.Close)
	informer := scope.Core().V1().Pods().Informer()
	var ignored, heard recorder
	scope.IgnoreHandlers(true)
	registration, err := informer.AddEventHandler(&ignored)
	if err != nil {
		t.Fatal(err)
	}
	if !registration.HasSynced() || source.Handlers() != 0 {
		t.Errorf("an ignored handler counts: synced %v, %d handlers", registration.HasSynced(), source.Handlers())
	}
	scope.IgnoreHandlers(false)
	if _, err := informer.AddEventHandler(&heard); err != nil {
		t.Fatal(err)
	}
	waitForSync(t, scope)
	if err := informer.RemoveEventHandler(registration); err != nil {
		t.Fatal(err)
	}
	if want := []string{"list a"}; !slices.Equal(heard.got(), want) {
		t.Errorf("the other handler got %v, want %v", heard.got(), want)
	}
	if len(ignored.got()) > 0 || source.Handlers() != 1 {
		t.Errorf("the ignored handler got %v, and there are %d handlers", ignored.got(), source.Handlers())
	}
}

func TestAnUnservedKindIsEmptyAndMissing(t *testing.T) {
	scope, cache, mapper := newTestScope(t)
	before := goleak.IgnoreCurrent()
	budgets := scope.Policy().V1().PodDisruptionBudgets()
	if _, err := budgets.Informer().AddEventHandler(&recorder{}); err != nil {
		t.Fatal(err)
	}
	leaks.Verify(t, before)
	waitForSync(t, scope)

	if err := scope.Err(); err != nil {
		t.Errorf("a missing kind is an error: %v", err)
	}
	if diff := cmp.Diff([]schema.GroupVersionKind{budgetKind.GroupVersionKind}, scope.Missing()); diff != "" {
		t.Errorf("missing kinds (-want +got):\n%s", diff)
	}
	if list, err := budgets.Lister().List(labels.Everything()); err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	if _, err := budgets.Lister().PodDisruptionBudgets("default").Get("a"); err == nil {
		t.Error("found an object of a kind that is not served")
	}
	if got := cache.requests[budgetKind]; got != 0 {
		t.Errorf("the cache was asked %d times, want never", got)
	}

	// The scope remembers the result; the next scope requests the kind again.
	asked := mapper.asked[budgetKind.GroupKind()]
	scope.Policy().V1().PodDisruptionBudgets().Informer()
	if mapper.asked[budgetKind.GroupKind()] != asked {
		t.Error("the same scope asked the mapper again")
	}
	mapper.RESTMapper.(*meta.DefaultRESTMapper).Add(budgetKind.GroupVersionKind, meta.RESTScopeNamespace)
	cache.server(budgetKind).Add(
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
	next := scope.source.NewScope()
	defer next.Close()
	lister := next.Policy().V1().PodDisruptionBudgets().Lister()
	waitForSync(t, next)
	if _, err := lister.PodDisruptionBudgets("default").Get("a"); err != nil {
		t.Errorf("the next scope does not see the kind that is served by now: %v", err)
	}
	if missing := next.Missing(); len(missing) != 0 {
		t.Errorf("missing for the next scope: %v", missing)
	}
}

func TestADiscoveryErrorIsAnErrorOfTheScope(t *testing.T) {
	refused := errors.New("connection refused")
	scope, _, mapper := newTestScope(t)
	mapper.fails[podKind.GroupKind()] = &apiutil.ErrResourceDiscoveryFailed{podKind.GroupVersion(): refused}

	informer := scope.Core().V1().Pods().Informer()
	if !informer.HasSynced() {
		t.Error("the caller would wait for an informer that there is not")
	}
	err := scope.WaitForSync(t.Context())
	if !errors.Is(err, refused) || !strings.Contains(err.Error(), "v1 Pod") {
		t.Errorf("WaitForSync: %v, want the mapper's error with the kind", err)
	}
	if err := scope.Err(); !errors.Is(err, refused) {
		t.Errorf("Err: %v, want the mapper's error", err)
	}
	if result := scope.WaitForCacheSyncWithContext(t.Context()); !errors.Is(result.Err, refused) {
		t.Errorf("WaitForCacheSyncWithContext: %v, want the mapper's error", result.Err)
	}
	if missing := scope.Missing(); len(missing) != 0 {
		t.Errorf("missing: %v, want none: discovery has failed", missing)
	}
}

func TestATypeOutsideTheSchemeIsAnErrorOfTheScope(t *testing.T) {
	scope, _, _ := newTestScope(t)
	type unknown struct{ corev1.Pod }
	informer := scope.InformerFor(&unknown{}, nil)
	if list := informer.GetStore().List(); len(list) != 0 {
		t.Errorf("list: %v", list)
	}
	if err := scope.WaitForSync(t.Context()); err == nil || !strings.Contains(err.Error(), "informers.unknown") {
		t.Errorf("WaitForSync: %v, want an error with the type", err)
	}
}

func TestACacheRestrictedToNamespacesIsAnError(t *testing.T) {
	source, _, _ := newTestSource(t)
	source.cache = storelessCache{source.cache}
	scope := source.NewScope()
	defer scope.Close()
	scope.Core().V1().Pods().Lister()
	if err := scope.WaitForSync(t.Context()); err == nil || !strings.Contains(err.Error(), "namespaces") {
		t.Errorf("WaitForSync: %v, want an error that says what is wrong with the cache", err)
	}
}

// storelessCache returns informers like those of controller-runtime for several namespaces.
type storelessCache struct{ ctrlcache.Cache }

func (c storelessCache) GetInformer(ctx context.Context, obj client.Object,
	options ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, obj, options...)
	return struct{ ctrlcache.Informer }{informer}, err
}

func TestAClosedScopeGivesEmptyInformers(t *testing.T) {
	scope, cache, _ := newTestScope(t)
	scope.Close()
	if list, err := scope.Core().V1().Pods().Lister().List(labels.Everything()); err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	if _, err := scope.Core().V1().Pods().Informer().AddEventHandler(&recorder{}); !errors.Is(err, ErrClosed) {
		t.Errorf("AddEventHandler: %v, want ErrClosed", err)
	}
	if err := scope.WaitForSync(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("WaitForSync: %v, want ErrClosed", err)
	}
	if len(cache.requests) != 0 {
		t.Errorf("the cache was asked for %v", cache.requests)
	}
}
