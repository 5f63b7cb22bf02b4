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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// recorder is an event handler that notes what it got.
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
	if one.Core().V1().Pods().Informer() != one.Core().V1().Pods().Informer() {
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
		t.Errorf("%d handlers alive after Close, want that of the other scope", got)
	}
	cache.server(podKind).Add(newPod("b"))
	eventually(t, "the other scope's handler sees pod b", func() bool { return slices.Contains(stays.got(), "add b") })
	for _, r := range []*recorder{first, second} {
		if diff := cmp.Diff([]string{"list a"}, r.got()); diff != "" {
			t.Errorf("events of a handler of the closed scope (-want +got):\n%s", diff)
		}
	}
	goleak.VerifyNone(t, before)

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

	// Another scope cannot remove what is not its own, although the informer underneath is the same.
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

func TestAKindThatIsNotServedIsEmptyAndMissing(t *testing.T) {
	scope, cache, mapper := newTestScope(t)
	before := goleak.IgnoreCurrent()
	budgets := scope.Policy().V1().PodDisruptionBudgets()
	if _, err := budgets.Informer().AddEventHandler(&recorder{}); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
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

	// The answer is remembered for this scope, and not for the next.
	asked := mapper.asked[budgetKind.GroupKind()]
	scope.Policy().V1().PodDisruptionBudgets().Informer()
	if mapper.asked[budgetKind.GroupKind()] != asked {
		t.Error("the same scope asked the mapper again")
	}
	mapper.RESTMapper.(*meta.DefaultRESTMapper).Add(budgetKind.GroupVersionKind, meta.RESTScopeNamespace)
	cache.server(budgetKind).Add(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
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

func TestDiscoveryThatFailsFailsTheScope(t *testing.T) {
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
		t.Errorf("missing: %v, want none: nobody knows", missing)
	}
}

func TestATypeThatTheSchemeLacksFailsTheScope(t *testing.T) {
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

func TestACacheRestrictedToNamespacesIsRefused(t *testing.T) {
	source, _, _ := newTestSource(t)
	source.cache = storelessCache{source.cache}
	scope := source.NewScope()
	defer scope.Close()
	scope.Core().V1().Pods().Lister()
	if err := scope.WaitForSync(t.Context()); err == nil || !strings.Contains(err.Error(), "namespaces") {
		t.Errorf("WaitForSync: %v, want an error that says what is wrong with the cache", err)
	}
}

// storelessCache returns informers of the kind that controller-runtime makes for several namespaces.
type storelessCache struct{ ctrlcache.Cache }

func (c storelessCache) GetInformer(ctx context.Context, obj client.Object, options ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
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

func TestForResource(t *testing.T) {
	scope, cache, _ := newTestScope(t)
	cache.server(podKind).Add(newPod("a"))

	t.Run("a resource of the scheme has typed objects and shares its informer", func(t *testing.T) {
		generic, err := scope.ForResource(podResource)
		if err != nil {
			t.Fatal(err)
		}
		waitForSync(t, scope)
		obj, err := generic.Lister().ByNamespace("default").Get("a")
		if _, ok := obj.(*corev1.Pod); !ok || err != nil {
			t.Errorf("got %T, %v, want a pod", obj, err)
		}
		if generic.Informer() != scope.Core().V1().Pods().Informer() {
			t.Error("not the informer that the typed accessor returns")
		}
	})

	t.Run("a resource of the scheme that is not served is missing under its kind", func(t *testing.T) {
		generic, err := scope.ForResource(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"))
		if err != nil {
			t.Fatal(err)
		}
		if objs, err := generic.Lister().List(labels.Everything()); err != nil || len(objs) != 0 {
			t.Errorf("list: %v, %v", objs, err)
		}
		if !slices.Contains(scope.Missing(), budgetKind.GroupVersionKind) {
			t.Errorf("missing: %v", scope.Missing())
		}
	})

	t.Run("a resource outside the scheme is an error", func(t *testing.T) {
		if _, err := scope.ForResource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}); err == nil {
			t.Error("no error")
		}
	})

	t.Run("discovery that fails is an error", func(t *testing.T) {
		source, _, mapper := newTestSource(t)
		refused := errors.New("connection refused")
		source.mapper = failingKindFor{mapper, refused}
		if _, err := source.NewScope().ForResource(podResource); !errors.Is(err, refused) {
			t.Errorf("got %v, want the mapper's error", err)
		}
	})
}

type failingKindFor struct {
	meta.RESTMapper
	err error
}

func (m failingKindFor) KindFor(schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return schema.GroupVersionKind{}, m.err
}

func TestDynamic(t *testing.T) {
	foos := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}
	foo := kind{foos.GroupVersion().WithKind("Foo"), unstructuredForm}

	t.Run("a custom resource has unstructured objects", func(t *testing.T) {
		scope, cache, mapper := newTestScope(t)
		mapper.RESTMapper.(*meta.DefaultRESTMapper).Add(foo.GroupVersionKind, meta.RESTScopeNamespace)
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(foo.GroupVersionKind)
		obj.SetNamespace("default")
		obj.SetName("a")
		cache.server(foo).Add(obj)

		informer, err := scope.Dynamic(foos)
		if err != nil {
			t.Fatal(err)
		}
		events := &recorder{}
		if _, err := informer.AddEventHandler(events); err != nil {
			t.Fatal(err)
		}
		waitForSync(t, scope)
		if diff := cmp.Diff([]string{"list a"}, events.got()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if stored, ok, err := informer.GetStore().GetByKey("default/a"); !ok || err != nil {
			t.Errorf("got %v, %v, %v", stored, ok, err)
		} else if _, ok := stored.(*unstructured.Unstructured); !ok {
			t.Errorf("stored a %T, want an unstructured object", stored)
		}
	})

	t.Run("a custom resource that is not served is missing under its resource's name", func(t *testing.T) {
		scope, _, _ := newTestScope(t)
		if _, err := scope.Dynamic(foos); err != nil {
			t.Fatal(err)
		}
		waitForSync(t, scope)
		want := []schema.GroupVersionKind{foos.GroupVersion().WithKind("foos")}
		if diff := cmp.Diff(want, scope.Missing()); diff != "" {
			t.Errorf("missing (-want +got):\n%s", diff)
		}
	})
}

func TestInformersOfMetadataOnly(t *testing.T) {
	scope, cache, _ := newTestScope(t)
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	obj.SetGroupVersionKind(podKind.GroupVersionKind)
	cache.server(kind{podKind.GroupVersionKind, metadataForm}).Add(obj)

	informer := scope.InformerFor(obj, nil)
	waitForSync(t, scope)
	stored, ok, err := informer.GetStore().GetByKey("default/a")
	if _, metadata := stored.(*metav1.PartialObjectMetadata); !metadata || !ok || err != nil {
		t.Errorf("got %T, %v, %v", stored, ok, err)
	}
	if typed := scope.Core().V1().Pods().Informer(); typed == informer {
		t.Error("typed objects and metadata come from one informer")
	}
}

func TestEveryGroupOfTheFactoryLeadsToTheScope(t *testing.T) {
	scope, _, _ := newTestScope(t)
	var factory clientinformers.SharedInformerFactory = scope
	factory.Admissionregistration().V1().ValidatingWebhookConfigurations().Lister()
	factory.Internal().V1alpha1().StorageVersions().Lister()
	factory.Apps().V1().ReplicaSets().Lister()
	factory.Autoscaling().V2().HorizontalPodAutoscalers().Lister()
	factory.Batch().V1().Jobs().Lister()
	factory.Certificates().V1().CertificateSigningRequests().Lister()
	factory.Coordination().V1().Leases().Lister()
	factory.Core().V1().Services().Lister()
	factory.Discovery().V1().EndpointSlices().Lister()
	factory.Events().V1().Events().Lister()
	factory.Extensions().V1beta1().Ingresses().Lister()
	factory.Flowcontrol().V1().FlowSchemas().Lister()
	factory.Networking().V1().Ingresses().Lister()
	factory.Node().V1().RuntimeClasses().Lister()
	factory.Policy().V1().PodDisruptionBudgets().Lister()
	factory.Rbac().V1().Roles().Lister()
	factory.Resource().V1().ResourceClaims().Lister()
	factory.Scheduling().V1().PriorityClasses().Lister()
	factory.Storage().V1().StorageClasses().Lister()
	factory.Storagemigration().V1beta1().StorageVersionMigrations().Lister()

	if err := scope.Err(); err != nil {
		t.Fatal(err)
	}
	missing := scope.Missing() // the fake mapper knows none of them
	if len(missing) != 20 {
		t.Errorf("%d kinds came to the scope, want 20: %v", len(missing), missing)
	}
	if factory.InformerName() != nil {
		t.Error("the informers have a name in metrics")
	}
	for objectType, synced := range factory.WaitForCacheSync(t.Context().Done()) {
		if !synced {
			t.Errorf("%s has not synced", objectType)
		}
	}
}

func TestKindInScheme(t *testing.T) {
	for resource, want := range map[string]string{
		"v1/pods":                                   "Pod",
		"v1/endpoints":                              "Endpoints",
		"networking.k8s.io/v1/ingresses":            "Ingress",
		"storage.k8s.io/v1/storageclasses":          "StorageClass",
		"storage.k8s.io/v1/csidrivers":              "CSIDriver",
		"scheduling.k8s.io/v1alpha2/foos":           "",
		"example.com/v1/pods":                       "",
		"storage.k8s.io/v1/csistorages":             "",
		"policy/v1/poddisruptionbudgets":            "PodDisruptionBudget",
		"resource.k8s.io/v1/resourceclaims":         "ResourceClaim",
		"networking.k8s.io/v1/networkpolicies":      "NetworkPolicy",
		"storage.k8s.io/v1/csistoragecapacities":    "CSIStorageCapacity",
		"resource.k8s.io/v1beta2/devicetaintrules":  "DeviceTaintRule",
		"admissionregistration.k8s.io/v1/podlists":  "",
		"scheduling.k8s.io/v1alpha2/podgroups":      "PodGroup",
		"resource.k8s.io/v1/resourceclaimtemplates": "ResourceClaimTemplate",
	} {
		t.Run(resource, func(t *testing.T) {
			gv, name := resource[:strings.LastIndex(resource, "/")], resource[strings.LastIndex(resource, "/")+1:]
			version, err := schema.ParseGroupVersion(gv)
			if err != nil {
				t.Fatal(err)
			}
			gvk, ok := kindInScheme(version.WithResource(name), scheme.Scheme)
			if ok != (want != "") || gvk.Kind != want {
				t.Errorf("got %q, %v, want %q", gvk.Kind, ok, want)
			}
		})
	}
}

func TestWaitForSyncNamesWhatIsNotReady(t *testing.T) {
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
	want := []UnsyncedKind{{GroupVersionKind: nodeKind.GroupVersionKind}, {GroupVersionKind: podKind.GroupVersionKind, Listed: true}}
	if diff := cmp.Diff(want, unsynced.Kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if want := "informers did not sync: v1 Node, v1 Pod (its event handlers are behind): the build took too long"; err.Error() != want {
		t.Errorf("message %q, want %q", err, want)
	}
	if result := scope.WaitForCacheSyncWithContext(ctx); !errors.Is(result.Err, gaveUp) || !strings.Contains(result.AsError().Error(), "*v1.Node") {
		t.Errorf("WaitForCacheSyncWithContext: %v", result)
	}
}

func TestAnInformerThatNeverSyncedLeavesWithItsLastUser(t *testing.T) {
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

	// The next build finds a working one.
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
	goleak.VerifyNone(t, before)
}

func TestAnInformerThatOthersStoppedIsReplaced(t *testing.T) {
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

	scope.Close() // the build that asked was given up
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
