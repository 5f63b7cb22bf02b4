// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is Kubernetes' API server without sockets: the handlers, registries, strategies
// and validation of kube-apiserver and of its server of custom resources, on an etcd in memory.
//
//	Transport (http.RoundTripper) -> handlers -> registries -> storage -> etcd.Etcd
//
// Package conformance compares its answers, and the events of its watches, with those of a real
// kube-apiserver. The two differ on purpose:
//
//   - There is no admission. A Pod gets no priority from its PriorityClass, no tolerations of
//     not-ready nodes, and no service account, and a Node no taint. Volumes, claims and PodGroups
//     get no finalizers, a PodGroup no priority, and a claim no default class. Objects can be
//     created in namespaces that end or do not exist, and no quota or webhook refuses them.
//   - There is no authentication, authorization or flow control: each client has all rights.
//   - There is no watch cache. Lists and watches of resourceVersion 0 have the latest state, where
//     a real server may answer with an older one. Lists with a limit obey it at resourceVersion 0,
//     and one with a selector may say that it continues though nothing that it selects is left. A
//     watch fails if the changes since its resourceVersion have been compacted, where a cache may
//     still have them, or may not have them yet. A resourceVersion of the future fails at once,
//     and not after three seconds. A get with a resourceVersion that is no number is a bad request.
//   - Events do not expire. The resources of networks, jobs, autoscaling, admission and access
//     control are not served, nor OpenAPI, nor the aggregated discovery.
//   - Nothing but a client makes objects: no namespace, PriorityClass or Service exists at first.
//   - Types that clients cannot apply, such as Binding, have managedFields without keys of lists.
//
// It runs in a bubble of testing/synctest.
package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/emicklei/go-restful/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/livesched/livesched/test/world/etcd"
)

// minRequestTimeout is how long a watch lasts at least, if its client does not say.
const minRequestTimeout = 30 * time.Minute

// maxRequestBytes is how long the body of a request can be.
const maxRequestBytes = 3 << 20

// Server is an API server. Any goroutine may send requests to it.
type Server struct {
	// resources serves requests for resources, and others the discovery and the like.
	resources, others http.Handler
	infos             request.RequestInfoFactory
	version           version.Info
}

// New returns an API server with the built-in resources that schedulers and their users need, and
// with custom resources. ctx ends its watches.
func New(ctx context.Context, etcd *etcd.Etcd, crds ...*apiextensionsv1.CustomResourceDefinition) (*Server, error) {
	s := &Server{
		infos: request.RequestInfoFactory{
			APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
		},
		version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.2"},
	}
	loopback, err := kubernetes.NewForConfig(&rest.Config{Host: "http://loopback", Transport: &Transport{s}})
	if err != nil {
		return nil, err
	}
	storages := &storages{client: etcd.Client(ctx), loopback: loopback}
	container := restful.NewContainer()
	container.Router(restful.CurlyRouter{})
	container.RecoverHandler(func(reason any, _ http.ResponseWriter) { panic(reason) })
	container.ServiceErrorHandler(serviceError)
	container.ServeMux = http.NewServeMux()
	builtIn, err := storages.builtIn()
	if err != nil {
		return nil, err
	}
	legacy := discovery.NewLegacyRootAPIHandler(addresses{}, legacyscheme.Codecs,
		genericapiserver.DefaultLegacyAPIPrefix)
	container.Add(legacy.WebService())
	roots := discovery.NewRootAPIsHandler(addresses{}, legacyscheme.Codecs)
	container.Add(roots.WebService())
	equivalents := runtime.NewEquivalentResourceRegistry()
	for i := range builtIn {
		group, err := install(container, &builtIn[i], equivalents)
		if err != nil {
			return nil, err
		}
		if group.Name != "" {
			roots.AddGroup(group)
			container.Add(discovery.NewAPIGroupHandler(legacyscheme.Codecs, group).WebService())
		}
	}
	container.Handle("/version", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		responsewriters.WriteRawJSON(http.StatusOK, s.version, w)
	}))
	for _, path := range []string{"/readyz", "/livez", "/healthz"} {
		container.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { fmt.Fprint(w, "ok") }))
	}
	s.others = container
	resources, err := storages.custom(container, roots, crds)
	if err != nil {
		return nil, err
	}
	s.resources = filters.WithWarningRecorder(resources)
	return s, nil
}

// serviceError answers a request that no route serves as a kube-apiserver does.
func serviceError(err restful.ServiceError, req *restful.Request, response *restful.Response) {
	status := apierrors.NewGenericServerResponse(err.Code, "", schema.GroupResource{}, "", err.Message, 0, false)
	responsewriters.ErrorNegotiated(status, legacyscheme.Codecs, schema.GroupVersion{}, response, req.Request)
}

// install serves the versions of a group, and returns the group for the discovery.
func install(container *restful.Container, info *genericapiserver.APIGroupInfo,
	equivalents runtime.EquivalentResourceRegistry) (metav1.APIGroup, error) {
	var group metav1.APIGroup
	for _, gv := range info.PrioritizedVersions {
		storage := info.VersionedResourcesStorageMap[gv.Version]
		if len(storage) == 0 {
			continue
		}
		root := genericapiserver.APIGroupPrefix
		if gv.Group == "" {
			root = genericapiserver.DefaultLegacyAPIPrefix
		}
		served := map[string][]string{}
		for version, resources := range info.VersionedResourcesStorageMap {
			for resource := range resources {
				one := schema.GroupVersion{Group: gv.Group, Version: version}
				served[resource] = append(served[resource], one.String())
			}
		}
		version := &endpoints.APIGroupVersion{
			Storage: storage, Root: root, GroupVersion: gv, AllServedVersionsByResource: served,
			OptionsExternalVersion: info.OptionsExternalVersion, MetaGroupVersion: info.MetaGroupVersion,
			Serializer: info.NegotiatedSerializer, ParameterCodec: info.ParameterCodec,
			Typer: info.Scheme, Convertor: info.Scheme, ConvertabilityChecker: info.Scheme,
			Creater:   info.Scheme, //nolint:misspell // upstream's name
			Defaulter: info.Scheme, Namer: runtime.Namer(meta.NewAccessor()),
			UnsafeConvertor:            runtime.UnsafeObjectConvertor(info.Scheme),
			TypeConverter:              newTypeConverter(info.Scheme),
			EquivalentResourceRegistry: equivalents,
			MinRequestTimeout:          minRequestTimeout,
			MaxRequestBodyBytes:        maxRequestBytes,
			Authorizer:                 authorizerfactory.NewAlwaysAllowAuthorizer(), // of updates that create
		}
		if _, _, err := version.InstallREST(container); err != nil {
			return group, fmt.Errorf("serving %s: %w", gv, err)
		}
		group.Name = gv.Group
		group.Versions = append(group.Versions,
			metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
	}
	if len(group.Versions) > 0 {
		group.PreferredVersion = group.Versions[0]
	}
	return group, nil
}

// addresses implements discovery.Addresses.
type addresses struct{}

func (addresses) ServerAddressByClientCIDRs(net.IP) []metav1.ServerAddressByClientCIDR { return nil }

// ServeHTTP answers a request of a client with all rights.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	info, err := s.infos.NewRequestInfo(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx := request.WithRequestInfo(req.Context(), info)
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "system:admin", Groups: []string{user.SystemPrivilegedGroup}})
	ctx = request.WithReceivedTimestamp(ctx, time.Now())
	ctx = audit.WithAuditContext(ctx) // handlers of patches need one, though nothing is audited
	handler := s.others
	if info.IsResourceRequest {
		handler = s.resources
	}
	handler.ServeHTTP(w, req.WithContext(ctx))
}
