// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/secureserving"
)

// VisibilityGroupVersion is the group under which the API server passes requests on to livesched:
// that of an APIService. The API server itself serves livesched.io, for profiles and policies, and
// it serves a group and version from one place.
var VisibilityGroupVersion = schema.GroupVersion{Group: "visibility.livesched.io", Version: "v1alpha1"}

// visibilityPath is Path of the group.
var visibilityPath = "/apis/" + VisibilityGroupVersion.String() + "/"

// Visibility returns a handler that answers requests of the group as next, which includes the
// guard, answers those of livesched.io: whoever has the right there gets the answer.
func Visibility(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, is := strings.CutPrefix(r.URL.Path, visibilityPath)
		if is && strings.Trim(rest, "/") != "" {
			r = r.Clone(r.Context())
			raw := ""
			if r.URL.RawPath != "" { // it has an escaped character
				raw = Path + strings.TrimPrefix(r.URL.RawPath, visibilityPath)
			}
			r.URL = &url.URL{Path: Path + rest, RawPath: raw, RawQuery: r.URL.RawQuery}
		}
		next.ServeHTTP(w, r)
	})
}

// Discovery returns the handlers by path that the API server needs to know what the group has. Any
// user of the API server may see that.
func Discovery() map[string]http.Handler {
	version := metav1.GroupVersionForDiscovery{GroupVersion: VisibilityGroupVersion.String(),
		Version: VisibilityGroupVersion.Version}
	group := &metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"},
		Name: VisibilityGroupVersion.Group, Versions: []metav1.GroupVersionForDiscovery{version},
		PreferredVersion: version}
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: VisibilityGroupVersion.String(), APIResources: visibilityResources()}
	withoutVersion, withVersion := "/apis/"+VisibilityGroupVersion.Group, strings.TrimSuffix(visibilityPath, "/")
	noOpenAPI := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "livesched has no OpenAPI document: `kubectl explain` knows no resources of "+
			VisibilityGroupVersion.Group, http.StatusNotFound)
	})
	return map[string]http.Handler{
		withoutVersion: answering(group), withoutVersion + "/{$}": answering(group),
		withVersion: answering(list), withVersion + "/{$}": answering(list),
		"/openapi/": noOpenAPI,
	}
}

// answering returns a handler that answers GET requests with an object.
func answering(object any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
			return
		}
		secureserving.WriteObject(w, object)
	})
}

// visibilityResources returns the resources as discovery lists them. Their objects belong to
// livesched.io.
func visibilityResources() (all []metav1.APIResource) {
	for _, r := range []struct{ name, singular, kind string }{
		{Capacities, "capacity", "Capacity"},
		{Decisions, "decision", "Decision"},
		{LoadSamples, "loadsample", "LoadSample"},
		{NodeAllocations, "nodeallocation", "NodeAllocation"},
		{PendingKinds, "pendingkind", "PendingKind"},
		{PodExplanations, "podexplanation", "PodExplanation"},
		{Queues, "queue", "Queue"},
		{Simulations, "simulation", "Simulation"},
		{Snapshots, "snapshot", "Snapshot"},
	} {
		all = append(all, metav1.APIResource{Name: r.name, SingularName: r.singular, Kind: r.kind,
			Namespaced: !withoutNamespace.Has(r.name), Verbs: metav1.Verbs{verbs[r.name]},
			Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version})
	}
	return all
}
