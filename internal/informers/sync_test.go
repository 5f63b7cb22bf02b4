// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/test/leaks"
)

func TestWaitForSyncNamesTheInformersThatAreNotReady(t *testing.T) {
	source, cache, _ := newTestSource(t)
	cache.never[nodeKind] = true
	cache.server(podKind).Add(newPod("a"))
	scope := source.NewScope()
	defer scope.Close()
	scope.Core().V1().Nodes().Informer()
	blocked := make(chan struct{})
	defer close(blocked)
	handler := toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-blocked }}
	if _, err := scope.Core().V1().Pods().Informer().AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pods are listed", scope.Core().V1().Pods().Informer().HasSynced)

	gaveUp := errors.New("the build took too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gaveUp)
	err := scope.WaitForSync(ctx)
	var unsynced *SyncError
	if !errors.As(err, &unsynced) || !errors.Is(err, gaveUp) {
		t.Fatalf("got %v, want a SyncError with the context's cause", err)
	}
	want := []UnsyncedKind{{GroupVersionKind: nodeKind.GroupVersionKind},
		{GroupVersionKind: podKind.GroupVersionKind, Listed: true}}
	if diff := cmp.Diff(want, unsynced.Kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	const message = "informers did not sync: v1 Node, v1 Pod (its event handlers are behind): the build took too long"
	if err.Error() != message {
		t.Errorf("message %q, want %q", err, message)
	}
	if result := scope.WaitForCacheSyncWithContext(ctx); !errors.Is(result.Err, gaveUp) ||
		!strings.Contains(result.AsError().Error(), "*v1.Node") {
		t.Errorf("WaitForCacheSyncWithContext: %v", result)
	}
}

// withoutVersion is an informer whose reflector has not set the resource version yet.
type withoutVersion struct{ toolscache.SharedIndexInformer }

func (withoutVersion) LastSyncResourceVersion() string { return "" }

func TestServes(t *testing.T) {
	source, cache, _ := newTestSource(t)
	cache.never[nodeKind] = true
	scope := source.NewScope()
	defer scope.Close()
	missing, err := scope.Dynamic(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"})
	if err != nil || Serves(missing) {
		t.Errorf("a kind that is not served: %v", err)
	}
	eventually(t, "pods are listed", func() bool { return Serves(scope.Core().V1().Pods().Informer()) })
	listed := withoutVersion{scope.Core().V1().Pods().Informer()}
	eventually(t, "pods have synced", listed.HasSynced)
	if !Serves(listed) {
		t.Error("pods are listed, though the reflector has not set the resource version")
	}
	nodes := scope.Core().V1().Nodes().Informer()
	if !Serves(nodes) {
		t.Error("nodes are being listed")
	}
	for want, err := range map[bool]error{true: apierrors.NewInternalError(errors.New("busy")),
		false: apierrors.NewForbidden(schema.GroupResource{}, "", nil)} {
		err = fmt.Errorf("failed to list: %w", err)
		cache.running[nodeKind].informer.(*watchedInformer).lastErr.Store(&err)
		if got := Serves(nodes); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestAnUnsyncedInformerIsRemovedWithItsLastUser(t *testing.T) {
	source, cache, _ := newTestSource(t)
	cache.never[nodeKind] = true
	before := goleak.IgnoreCurrent()

	one, other := source.NewScope(), source.NewScope()
	for _, scope := range []*Scope{one, other} {
		scope.Core().V1().Pods().Informer()
		scope.Core().V1().Nodes().Informer()
	}
	eventually(t, "pods are listed", one.Core().V1().Pods().Informer().HasSynced)

	one.Close()
	if got := cache.removed[nodeKind]; got != 0 {
		t.Fatal("the informer was removed while another scope used it")
	}
	other.Close()
	if got := cache.removed[nodeKind]; got != 1 {
		t.Errorf("the informer that never synced was removed %d times, want once", got)
	}
	if got := cache.removed[podKind]; got != 0 {
		t.Error("the informer that has synced was removed")
	}

	// The next build gets a working informer.
	delete(cache.never, nodeKind)
	cache.server(nodeKind).Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	next := source.NewScope()
	lister := next.Core().V1().Nodes().Lister()
	waitForSync(t, next)
	if _, err := lister.Get("n"); err != nil {
		t.Error(err)
	}
	next.Close()

	cache.stop()
	leaks.Verify(t, before)
}

func TestAStoppedInformerIsReplaced(t *testing.T) {
	source, cache, _ := newTestSource(t)
	cache.server(podKind).Add(newPod("a"))
	first := source.NewScope()
	first.Core().V1().Pods().Informer()
	waitForSync(t, first)
	first.Close()
	if err := cache.RemoveInformer(t.Context(), &corev1.Pod{}); err != nil {
		t.Fatal(err)
	}

	second := source.NewScope()
	defer second.Close()
	events := &recorder{}
	if _, err := second.Core().V1().Pods().Informer().AddEventHandler(events); err != nil {
		t.Fatal(err)
	}
	waitForSync(t, second)
	if diff := cmp.Diff([]string{"list a"}, events.got()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestCloseDoesNotWaitForDiscovery(t *testing.T) {
	source, cache, mapper := newTestSource(t)
	hanging := &hangingMapper{RESTMapper: mapper, asked: make(chan struct{}), answer: make(chan struct{})}
	source.mapper = hanging
	scope := source.NewScope()
	got := make(chan toolscache.SharedIndexInformer)
	go func() { got <- scope.Core().V1().Pods().Informer() }()
	<-hanging.asked

	scope.Close() // the build was abandoned
	close(hanging.answer)
	informer := <-got
	if _, err := informer.AddEventHandler(&recorder{}); !errors.Is(err, ErrClosed) {
		t.Errorf("AddEventHandler: %v, want ErrClosed", err)
	}
	if got := source.Handlers(); got != 0 {
		t.Errorf("%d handlers alive, want none", got)
	}
	source.mu.Lock()
	defer source.mu.Unlock()
	if shared := source.shared[podKind]; shared != nil && shared.users != 0 {
		t.Errorf("the closed scope still uses the informer, which was requested %d times", cache.requests[podKind])
	}
}

type hangingMapper struct {
	meta.RESTMapper
	asked, answer chan struct{}
}

func (m *hangingMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	close(m.asked)
	<-m.answer
	return m.RESTMapper.RESTMapping(gk, versions...)
}
