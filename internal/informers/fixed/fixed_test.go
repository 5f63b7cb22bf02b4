// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fixed_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/informers/fixed"
	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// newScope returns a scope of informers that have two pods, in two namespaces, and a node.
func newScope(t *testing.T) (*informers.Source, *informers.Scope) {
	t.Helper()
	source, err := fixed.NewSource([]client.Object{
		&corev1.Pod{ObjectMeta: named("ml", "train")}, &corev1.Pod{ObjectMeta: named("web", "shop")},
		&corev1.Node{ObjectMeta: named("", "n1")},
	})
	if err != nil {
		t.Fatal(err)
	}
	scope := source.NewScope()
	t.Cleanup(scope.Close)
	return source, scope
}

func waitForSync(t *testing.T, scope *informers.Scope) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := scope.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
}

// namesOf returns the sorted names of objects.
func namesOf[T any](t *testing.T, objects []T) []string {
	t.Helper()
	var names []string
	for _, object := range objects {
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, accessor.GetName())
	}
	slices.Sort(names)
	return names
}

func expect(t *testing.T, what string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestListersHaveTheObjectsOfTheirKind(t *testing.T) {
	source, scope := newScope(t)
	pods, nodes, claims := scope.Core().V1().Pods().Lister(), scope.Core().V1().Nodes().Lister(),
		scope.Core().V1().PersistentVolumeClaims().Lister()
	waitForSync(t, scope)

	all, err := pods.List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "pods", []string{"shop", "train"}, namesOf(t, all))
	ofML, err := pods.Pods("ml").List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "pods of the namespace ml", []string{"train"}, namesOf(t, ofML))
	if _, err := nodes.Get("n1"); err != nil {
		t.Error(err)
	}
	none, err := claims.List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "claims", nil, namesOf(t, none))
	if missing := scope.Missing(); len(missing) > 0 {
		t.Errorf("%v are missing, but a kind without objects is not", missing)
	}
	objects, _ := source.Objects(corev1.SchemeGroupVersion.WithKind("Pod"))
	expect(t, "objects of the source", []string{"shop", "train"}, namesOf(t, objects))
}

func TestAHandlerGetsTheObjectsBeforeItHasSynced(t *testing.T) {
	_, scope := newScope(t)
	var mu sync.Mutex
	var added []string
	registration, err := scope.Core().V1().Pods().Informer().
		AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(object any, isInInitialList bool) {
				mu.Lock()
				defer mu.Unlock()
				if !isInInitialList {
					t.Error("the object counts as new")
				}
				added = append(added, object.(*corev1.Pod).Name)
			},
		})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		t.Fatal("the handler has not synced")
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(added)
	expect(t, "objects of the handler", []string{"shop", "train"}, added)
}

func TestKindsThatAreNotOfClientGoAreMissing(t *testing.T) {
	_, scope := newScope(t)
	if _, err := scope.Dynamic(schema.GroupVersionResource{Group: "example.com", Version: "v1",
		Resource: "widgets"}); err != nil {
		t.Fatal(err)
	}
	waitForSync(t, scope)
	var groups []string
	for _, kind := range scope.Missing() {
		groups = append(groups, kind.Group)
	}
	expect(t, "groups of missing kinds", []string{"example.com"}, groups)
}

func TestAnObjectWithoutAKindIsRefused(t *testing.T) {
	widget := &unstructured.Unstructured{}
	widget.SetName("w")
	if _, err := fixed.NewSource([]client.Object{widget}); err == nil {
		t.Error("the object was added")
	}
}
