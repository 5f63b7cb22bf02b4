// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
)

func byNode(obj any) ([]string, error)  { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }
func byPhase(obj any) ([]string, error) { return []string{string(obj.(*corev1.Pod).Status.Phase)}, nil }
func byNothing(any) ([]string, error)   { return nil, nil }

func TestIndexers(t *testing.T) {
	source, cache, _ := newTestSource(t)
	pod := newPod("a")
	pod.Spec.NodeName = "n"
	cache.server(podKind).Add(pod)

	// Plugins add indexers through the informer (NodeVolumeLimits) and through its indexer
	// (VolumeBinding).
	ways := map[string]func(toolscache.SharedIndexInformer, toolscache.Indexers) error{
		"informer": toolscache.SharedIndexInformer.AddIndexers,
		"indexer": func(i toolscache.SharedIndexInformer, x toolscache.Indexers) error {
			return i.GetIndexer().AddIndexers(x)
		},
	}
	for name, add := range ways {
		t.Run("the same index can be added again through the "+name, func(t *testing.T) {
			for range 3 {
				scope := source.NewScope()
				informer := scope.Core().V1().Pods().Informer()
				waitForSync(t, scope)
				if err := add(informer,
					toolscache.Indexers{"node": byNode,
						toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}); err != nil {
					t.Fatal(err)
				}
				if found, err := informer.GetIndexer().ByIndex("node", "n"); err != nil || len(found) != 1 {
					t.Errorf("found %v, %v", found, err)
				}
				scope.Close()
			}
		})
		t.Run("another function under the same name is refused through the "+name+", and nothing is added",
			func(t *testing.T) {
				scope := source.NewScope()
				defer scope.Close()
				informer := scope.Core().V1().Pods().Informer()
				if err := add(informer, toolscache.Indexers{"node": byNode}); err != nil {
					t.Fatal(err)
				}
				if err := add(informer, toolscache.Indexers{"node": byPhase, "phase": byPhase}); err == nil {
					t.Error("no error")
				}
				if informer.GetIndexer().GetIndexers()["phase"] != nil {
					t.Error("the other index was added")
				}
			})
	}

	t.Run("what GetIndexers returns is a copy", func(t *testing.T) {
		scope := source.NewScope()
		defer scope.Close()
		indexer := scope.Core().V1().Pods().Informer().GetIndexer()
		indexer.GetIndexers()["nothing"] = byNothing
		if indexer.GetIndexers()["nothing"] != nil {
			t.Error("the store's own map was changed")
		}
	})

	t.Run("scopes of concurrent builds do not race", func(t *testing.T) {
		var builds sync.WaitGroup
		for range 8 {
			builds.Go(func() {
				scope := source.NewScope()
				defer scope.Close()
				informer := scope.Core().V1().Pods().Informer()
				for i := range 50 {
					name := "concurrent " + strconv.Itoa(i)
					if err := informer.GetIndexer().AddIndexers(toolscache.Indexers{name: byPhase}); err != nil {
						t.Error(err)
					}
					if informer.GetIndexer().GetIndexers()[name] == nil {
						t.Errorf("index %q is not there", name)
					}
				}
			})
		}
		for i := range 50 {
			changed := pod.DeepCopy()
			changed.Labels = map[string]string{"i": strconv.Itoa(i)}
			cache.server(podKind).Modify(changed)
		}
		builds.Wait()
	})
}

func TestASharedInformerCannotBeChangedThroughAScope(t *testing.T) {
	scope, cache, _ := newTestScope(t)
	cache.server(podKind).Add(newPod("a"))
	shared := scope.Core().V1().Pods().Informer()
	waitForSync(t, scope)

	for name, informer := range map[string]toolscache.SharedIndexInformer{
		"shared": shared,
		"empty":  scope.Policy().V1().PodDisruptionBudgets().Informer(),
	} {
		for what, err := range map[string]error{
			"SetTransform":         informer.SetTransform(func(any) (any, error) { return nil, nil }),
			"SetWatchErrorHandler": informer.SetWatchErrorHandler(func(*toolscache.Reflector, error) {}),
			"SetWatchErrorHandlerWithContext": informer.SetWatchErrorHandlerWithContext(
				toolscache.DefaultWatchErrorHandler),
			"GetStore().Add":       informer.GetStore().Add(newPod("b")),
			"GetStore().Update":    informer.GetStore().Update(newPod("a")),
			"GetIndexer().Delete":  informer.GetIndexer().Delete(newPod("a")),
			"GetIndexer().Replace": informer.GetIndexer().Replace(nil, "1"),
			"GetIndexer().Resync":  informer.GetIndexer().Resync(),
		} {
			if !errors.Is(err, errShared) {
				t.Errorf("%s informer, %s: %v, want a refusal", name, what, err)
			}
		}
	}

	version := shared.LastSyncResourceVersion()
	shared.GetStore().Bookmark("999999")
	shared.Run(nil)
	shared.RunWithContext(t.Context())
	scope.Start(nil)
	scope.StartWithContext(t.Context())
	scope.Shutdown()
	if shared.IsStopped() || shared.LastSyncResourceVersion() != version || len(shared.GetStore().ListKeys()) != 1 {
		t.Errorf("stopped: %v, version %q, was %q, keys %v", shared.IsStopped(), shared.LastSyncResourceVersion(),
			version, shared.GetStore().ListKeys())
	}
	if got := shared.GetStore().LastStoreSyncResourceVersion(); got == "999999" {
		t.Error("the store's resource version was changed")
	}
}

func TestGate(t *testing.T) {
	events := &recorder{}
	g := &gate{handler: events}
	deliver := func() {
		g.OnAdd(newPod("a"), true)
		g.OnAdd(newPod("a"), false)
		g.OnUpdate(newPod("a"), newPod("a"))
		g.OnDelete(newPod("a"))
	}
	deliver()
	if got := len(events.got()); got != 4 {
		t.Fatalf("%d events through an open gate, want 4", got)
	}
	g.closed.Store(true)
	deliver()
	if got := len(events.got()); got != 4 {
		t.Errorf("%d events came through a closed gate", got-4)
	}
}

// TestEventsQueuedBeforeCloseAreNotDelivered closes the scope of a handler that hangs. The handler
// must not receive the events that were queued before.
func TestEventsQueuedBeforeCloseAreNotDelivered(t *testing.T) {
	scope, cache, _ := newTestScope(t)
	entered, proceed := make(chan string, 10), make(chan struct{})
	handler := toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		entered <- obj.(*corev1.Pod).Name
		<-proceed
	}}
	informer := scope.Core().V1().Pods().Informer()
	waitForSync(t, scope)
	if _, err := informer.AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	cache.server(podKind).Add(newPod("a"))
	<-entered
	cache.server(podKind).Add(newPod("b"))
	eventually(t, "pod b is in the store", func() bool { return len(informer.GetStore().ListKeys()) == 2 })

	scope.Close()
	close(proceed)
	// The listener ends with the informer; only then is it certain that no event follows.
	cache.mu.Lock()
	cache.stopLocked(podKind)
	cache.mu.Unlock()
	select {
	case name := <-entered:
		t.Errorf("pod %s was delivered after Close", name)
	default:
	}
}

func TestEmptyInformer(t *testing.T) {
	empty := newEmptyInformer(budgetKind)
	first, err := empty.AddEventHandlerWithOptions(&recorder{}, toolscache.HandlerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := empty.AddEventHandlerWithOptions(&recorder{}, toolscache.HandlerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if first == second {
		t.Error("two registrations are the same")
	}
	for name, checker := range map[string]toolscache.DoneChecker{
		"informer":     empty.HasSyncedChecker(),
		"registration": first.HasSyncedChecker(),
		"controller":   empty.GetController().HasSyncedChecker(),
	} {
		if !toolscache.IsDone(checker) || checker.Name() == "" {
			t.Errorf("%s: done %v, name %q", name, toolscache.IsDone(checker), checker.Name())
		}
	}
	if !empty.HasSynced() || !first.HasSynced() || !empty.GetController().HasSynced() {
		t.Error("not synced")
	}
	if empty.IsStopped() || empty.LastSyncResourceVersion() != "" {
		t.Error("stopped, or has a resource version")
	}
	if err := empty.RemoveEventHandler(first); err != nil {
		t.Error(err)
	}
	if err := empty.AddIndexers(toolscache.Indexers{"node": byNode}); err != nil {
		t.Error(err)
	}
	if found, err := empty.GetIndexer().ByIndex("node", "n"); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestWatchedInformerRemembersTheLastListError(t *testing.T) {
	forbidden := errors.New("pods is forbidden")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lw := &toolscache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		return nil, forbidden
	}}
	informer := newWatchedInformer(toolscache.ToListWatcherWithWatchListSemantics(lw, noWatchList{}), &corev1.Pod{}, 0,
		toolscache.Indexers{})
	if err := lastWatchError(informer); err != nil {
		t.Errorf("error before the first list: %v", err)
	}
	told := make(chan error, 10)
	if err := informer.SetWatchErrorHandler(func(_ *toolscache.Reflector, err error) { told <- err }); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { informer.RunWithContext(ctx) })
	if err := <-told; !errors.Is(err, forbidden) {
		t.Errorf("the handler that was set got %v", err)
	}
	if err := lastWatchError(informer); !errors.Is(err, forbidden) {
		t.Errorf("remembered %v", err)
	}
	if err := lastWatchError(newEmptyInformer(podKind)); err != nil {
		t.Errorf("error of an informer that remembers none: %v", err)
	}
}

func TestCacheOptions(t *testing.T) {
	options := CacheOptions(scheme.Scheme, false)
	if options.SyncPeriod == nil || *options.SyncPeriod != 0 {
		t.Errorf("resync period %v, want zero, which is not the default", options.SyncPeriod)
	}
	if len(options.DefaultNamespaces) != 0 {
		t.Errorf("restricted to namespaces %v", options.DefaultNamespaces)
	}
	pod := newPod("a")
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	stripped, err := options.DefaultTransform(pod)
	if err != nil || len(stripped.(*corev1.Pod).ManagedFields) != 0 {
		t.Errorf("got %v, %v, want a pod without managed fields", stripped, err)
	}
	for _, trim := range []bool{false, true} {
		bound := newPod("b")
		bound.Spec.NodeName, bound.Spec.Containers = "node", []corev1.Container{{Command: []string{"run"}}}
		if _, err := CacheOptions(scheme.Scheme, trim).DefaultTransform(bound); err != nil ||
			(bound.Spec.Containers[0].Command == nil) != trim {
			t.Errorf("trimBoundPods %v: %v, command %q", trim, err, bound.Spec.Containers[0].Command)
		}
	}
	for obj, by := range options.ByObject {
		if _, ok := obj.(*corev1.Pod); !ok || by.Field.String() != "status.phase!=Succeeded,status.phase!=Failed" {
			t.Errorf("%T is selected by %s", obj, by.Field)
		}
	}
}
