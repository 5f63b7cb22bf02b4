// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

// serve makes the fake API server serve a kind.
func serve(mapper *fakeMapper, k kind) {
	mapper.RESTMapper.(*meta.DefaultRESTMapper).Add(k.GroupVersionKind, meta.RESTScopeNamespace)
}

func newBudget(name string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		Labels: map[string]string{"app": name}}}
}

func TestAKindThatIsServedLaterReachesThoseThatWait(t *testing.T) {
	scope, cache, mapper := newTestScope(t)
	source := scope.source
	budgets := scope.Policy().V1().PodDisruptionBudgets()
	informer, lister := budgets.Informer(), budgets.Lister()
	byApp := toolscache.Indexers{"app": func(obj any) ([]string, error) {
		return []string{obj.(*policyv1.PodDisruptionBudget).Labels["app"]}, nil
	}}
	if err := informer.AddIndexers(byApp); err != nil {
		t.Fatal(err)
	}
	events, removed := &recorder{}, &recorder{}
	registration, err := informer.AddEventHandler(events)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := informer.AddEventHandler(removed)
	if err != nil {
		t.Fatal(err)
	}
	if err := informer.RemoveEventHandler(gone); err != nil {
		t.Fatal(err)
	}
	waitForSync(t, scope)
	source.Probe(t.Context())
	if len(scope.Missing()) != 1 || len(source.Completed()) != 0 {
		t.Fatalf("missing: %v", scope.Missing())
	}

	cache.server(budgetKind).Add(newBudget("a"))
	serve(mapper, budgetKind)
	source.Probe(t.Context())
	if missing := scope.Missing(); len(missing) != 0 || len(source.Completed()) != 1 {
		t.Errorf("still missing: %v; told %d times that they are there", missing, len(source.Completed()))
	}
	if list, err := lister.List(labels.Everything()); err != nil || len(list) != 1 {
		t.Errorf("the lister that was made before has %v, %v", list, err)
	}
	if found, err := informer.GetIndexer().ByIndex("app", "a"); err != nil || len(found) != 1 {
		t.Errorf("the index that was added before has %v, %v", found, err)
	}
	eventually(t, "the handler that was added before gets the object", func() bool { return len(events.got()) == 1 })
	cache.server(budgetKind).Add(newBudget("b"))
	eventually(t, "the handler follows the changes", func() bool { return len(events.got()) == 2 })
	later := &recorder{}
	if _, err := informer.AddEventHandler(later); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new handler gets the objects", func() bool { return len(later.got()) == 2 })
	if got := removed.got(); len(got) != 0 {
		t.Errorf("the handler that was removed got %v", got)
	}

	if err := informer.RemoveEventHandler(registration); err != nil {
		t.Fatal(err)
	}
	cache.server(budgetKind).Delete(newBudget("a"))
	eventually(t, "the other handler sees the deletion", func() bool { return len(later.got()) == 3 })
	if got := events.got(); len(got) != 2 {
		t.Errorf("the handler that was removed then got %v", got)
	}
	asked := mapper.asked[budgetKind.GroupKind()]
	source.Probe(t.Context())
	if got := mapper.asked[budgetKind.GroupKind()]; got != asked {
		t.Errorf("nothing is missing, and the API server was asked %d times", got-asked)
	}
	scope.Close()
	if n := source.Handlers(); n != 0 {
		t.Errorf("%d handlers are left", n)
	}
}

func TestAResourceWhoseKindWasUnknownIsFound(t *testing.T) {
	foos := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}
	foo := kind{foos.GroupVersion().WithKind("Foo"), unstructuredForm}
	scope, cache, mapper := newTestScope(t)
	informer, err := scope.Dynamic(foos)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(foo.GroupVersionKind)
	obj.SetNamespace("default")
	obj.SetName("a")
	cache.server(foo).Add(obj)
	serve(mapper, foo)
	scope.source.Probe(t.Context())
	if diff := cmp.Diff([]string{"default/a"}, informer.GetStore().ListKeys()); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	scope.Close()
	if shared := scope.source.shared[foo]; shared == nil || shared.users != 0 {
		t.Errorf("the shared informer after the scope was closed: %+v", shared)
	}
}

func TestAProbeLeavesAlone(t *testing.T) {
	t.Run("a scope that was closed", func(t *testing.T) {
		scope, cache, mapper := newTestScope(t)
		scope.Policy().V1().PodDisruptionBudgets().Informer()
		scope.Close()
		serve(mapper, budgetKind)
		scope.source.Probe(t.Context())
		if got := cache.requests[budgetKind]; got != 0 {
			t.Errorf("the cache was asked %d times", got)
		}
	})
	t.Run("kinds while the API server does not answer", func(t *testing.T) {
		scope, _, mapper := newTestScope(t)
		scope.Policy().V1().PodDisruptionBudgets().Informer()
		serve(mapper, budgetKind)
		mapper.fails[budgetKind.GroupKind()] = errors.New("connection refused")
		scope.source.Probe(t.Context())
		if len(scope.Missing()) != 1 {
			t.Errorf("missing: %v", scope.Missing())
		}
	})
	t.Run("kinds that cannot be listed", func(t *testing.T) {
		scope, cache, mapper := newTestScope(t)
		informer := scope.Policy().V1().PodDisruptionBudgets().Informer()
		serve(mapper, budgetKind)
		cache.never[budgetKind] = true
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		scope.source.Probe(cancelled)
		if len(scope.Missing()) != 1 || !informer.HasSynced() {
			t.Errorf("missing: %v, synced: %v", scope.Missing(), informer.HasSynced())
		}
		if got := cache.removed[budgetKind]; got != 1 {
			t.Errorf("the informer was removed %d times, want once", got)
		}
		cache.never[budgetKind] = false
		scope.source.Probe(t.Context())
		if len(scope.Missing()) != 0 {
			t.Errorf("missing: %v", scope.Missing())
		}
	})
}
