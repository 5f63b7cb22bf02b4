// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"
	"time"

	"github.com/emicklei/go-restful/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	customserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	"k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// customStorages makes the storage of custom resources.
type customStorages struct{ *storages }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (s customStorages) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return s.options(resource, resource.Group+"/"+resource.Resource, unstructured.UnstructuredJSONScheme), nil
}

// custom returns a handler that serves custom resources, and what a container serves. Their
// definitions do not change.
func (s *storages) custom(container *restful.Container, roots interface{ AddGroup(metav1.APIGroup) },
	crds []*apiextensionsv1.CustomResourceDefinition) (http.Handler, error) {
	factory := externalversions.NewSharedInformerFactory(fake.NewClientset(), 0)
	informer := factory.Apiextensions().V1().CustomResourceDefinitions()
	served := map[schema.GroupVersion]lister{}
	for i, crd := range crds {
		established := establish(crd)
		established.UID = types.UID(fmt.Sprint("crd-", i))
		if err := informer.Informer().GetStore().Add(established); err != nil {
			return nil, err
		}
		for _, version := range crd.Spec.Versions {
			gv := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
			served[gv] = append(served[gv], resourcesOf(established)...)
		}
	}
	discover(container, roots, served)
	return customserver.NewCustomResourceDefinitionHandler(nil, nil, informer, others(served, container),
		customStorages{s}, nil, nil, nil, nil, 1, nil, time.Minute, minRequestTimeout, nil, maxRequestBytes)
}

// others returns a handler of requests for what is no custom resource. The groups of custom
// resources have nothing else.
func others(served map[schema.GroupVersion]lister, container *restful.Container) http.HandlerFunc {
	groups := sets.New[string]()
	for gv := range served {
		groups.Insert(gv.Group)
	}
	return func(w http.ResponseWriter, req *http.Request) {
		if info, ok := request.RequestInfoFrom(req.Context()); ok && groups.Has(info.APIGroup) {
			http.NotFound(w, req)
			return
		}
		container.ServeHTTP(w, req)
	}
}

// establish returns a definition as it is once the API server serves it.
func establish(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	crd = crd.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.AcceptedNames = crd.Spec.Names
	for _, condition := range []apiextensionsv1.CustomResourceDefinitionConditionType{
		apiextensionsv1.NamesAccepted, apiextensionsv1.Established,
	} {
		crd.Status.Conditions = append(crd.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: condition, Status: apiextensionsv1.ConditionTrue})
	}
	return crd
}

// resourcesOf returns a custom resource as the discovery has it.
func resourcesOf(crd *apiextensionsv1.CustomResourceDefinition) lister {
	names, namespaced := crd.Spec.Names, crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	verbs := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	return lister{
		{Name: names.Plural, SingularName: names.Singular, Kind: names.Kind, Namespaced: namespaced, Verbs: verbs},
		{Name: names.Plural + "/status", Kind: names.Kind, Namespaced: namespaced,
			Verbs: metav1.Verbs{"get", "patch", "update"}},
	}
}

// discover adds groups with one version each to the discovery.
func discover(container *restful.Container, roots interface{ AddGroup(metav1.APIGroup) },
	served map[schema.GroupVersion]lister) {
	for gv, resources := range served {
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		versions := []metav1.GroupVersionForDiscovery{version}
		group := metav1.APIGroup{Name: gv.Group, Versions: versions, PreferredVersion: version}
		roots.AddGroup(group)
		container.Add(discovery.NewAPIGroupHandler(legacyscheme.Codecs, group).WebService())
		service := new(restful.WebService).Path("/apis/" + gv.String())
		discovery.NewAPIVersionHandler(legacyscheme.Codecs, gv, resources).AddToWebService(service)
		container.Add(service)
	}
}

// lister implements discovery.APIResourceLister.
type lister []metav1.APIResource

func (l lister) ListAPIResources() []metav1.APIResource { return l }
