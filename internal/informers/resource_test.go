// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
)

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
		if generic.Informer() != scope.InformerFor(&corev1.Pod{}, nil) {
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
		if _, err := scope.ForResource(schema.GroupVersionResource{Group: "example.com", Version: "v1",
			Resource: "foos"}); err == nil {
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
		if objects, version := scope.source.Objects(foo.GroupVersionKind); len(objects) != 1 || version == "" {
			t.Errorf("the source has %v at %q", objects, version)
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
		"scheduling.k8s.io/v1beta1/foos":            "",
		"example.com/v1/pods":                       "",
		"storage.k8s.io/v1/csistorages":             "",
		"policy/v1/poddisruptionbudgets":            "PodDisruptionBudget",
		"resource.k8s.io/v1/resourceclaims":         "ResourceClaim",
		"networking.k8s.io/v1/networkpolicies":      "NetworkPolicy",
		"storage.k8s.io/v1/csistoragecapacities":    "CSIStorageCapacity",
		"resource.k8s.io/v1beta2/devicetaintrules":  "DeviceTaintRule",
		"admissionregistration.k8s.io/v1/podlists":  "",
		"scheduling.k8s.io/v1beta1/podgroups":       "PodGroup",
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
