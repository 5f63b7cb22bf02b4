// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"net"
	"time"

	etcdkubernetes "go.etcd.io/etcd/client/v3/kubernetes"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/kubernetes/pkg/kubelet/client"
	appsrest "k8s.io/kubernetes/pkg/registry/apps/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	nodestore "k8s.io/kubernetes/pkg/registry/core/node/storage"
	volumestore "k8s.io/kubernetes/pkg/registry/core/persistentvolume/storage"
	claimstore "k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim/storage"
	podstore "k8s.io/kubernetes/pkg/registry/core/pod/storage"
	replicationcontrollerstore "k8s.io/kubernetes/pkg/registry/core/replicationcontroller/storage"
	corerest "k8s.io/kubernetes/pkg/registry/core/rest"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"
	eventsrest "k8s.io/kubernetes/pkg/registry/events/rest"
	policyrest "k8s.io/kubernetes/pkg/registry/policy/rest"
	resourcerest "k8s.io/kubernetes/pkg/registry/resource/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"
)

// eventTTL is how long Events are said to live. None expires.
const eventTTL = time.Hour

// storages makes the storage of resources in etcd.
type storages struct {
	client *etcdkubernetes.Client
	// loopback sends requests to the server itself, as the registries of some resources do.
	loopback kubernetes.Interface
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (s *storages) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (
	generic.RESTOptions, error) {
	version, err := storageVersion(resource, example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	mediaTypes := legacyscheme.Codecs.SupportedMediaTypes()
	info, _ := runtime.SerializerInfoForMediaType(mediaTypes, runtime.ContentTypeProtobuf)
	codec := legacyscheme.Codecs.CodecForVersions(info.Serializer, legacyscheme.Codecs.UniversalDeserializer(),
		runtime.NewMultiGroupVersioner(version), runtime.NewMultiGroupVersioner(
			schema.GroupVersion{Group: resource.Group, Version: runtime.APIVersionInternal}))
	prefix := kubeapiserver.SpecialDefaultResourcePrefixes[resource]
	if prefix == "" {
		prefix = resource.Resource
	}
	return s.options(resource, prefix, codec), nil
}

// storageVersion returns the first version of a group that has the kind of an object.
func storageVersion(resource schema.GroupResource, example runtime.Object) (schema.GroupVersion, error) {
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(example)
	if err != nil {
		return schema.GroupVersion{}, err
	}
	for _, version := range legacyscheme.Scheme.PrioritizedVersionsForGroup(resource.Group) {
		if legacyscheme.Scheme.Recognizes(version.WithKind(kinds[0].Kind)) {
			return version, nil
		}
	}
	return schema.GroupVersion{}, fmt.Errorf("no version of the group %s has %s", resource.Group, kinds[0].Kind)
}

// options returns where and how objects are stored. Some errors contain their prefix.
func (s *storages) options(resource schema.GroupResource, prefix string, codec runtime.Codec) generic.RESTOptions {
	config := &storagebackend.ConfigForResource{GroupResource: resource,
		Config: storagebackend.Config{Prefix: "/registry", Codec: codec}}
	return generic.RESTOptions{StorageConfig: config, Decorator: s.decorate, EnableGarbageCollection: true,
		DeleteCollectionWorkers: 1, ResourcePrefix: prefix}
}

// decorate is a generic.StorageDecorator: it returns the storage of a resource.
func (s *storages) decorate(config *storagebackend.ConfigForResource, prefix string,
	_ func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object, _ storage.AttrFunc,
	_ storage.IndexerFuncs, _ *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
	versioner := storage.APIObjectVersioner{}
	store, err := etcd3.New(s.client, noCompactor{}, config.Codec, newFunc, newListFunc, config.Prefix, prefix,
		config.GroupResource, identity.NewEncryptCheckTransformer(), etcd3.NewDefaultLeaseManagerConfig(),
		etcd3.NewDefaultDecoder(config.Codec, versioner), versioner)
	return store, func() {}, err
}

// noCompactor implements etcd3.Compactor: the world compacts.
type noCompactor struct{}

func (noCompactor) CompactRevision() int64 { return 0 }

// provider is what each built-in group has.
type provider interface {
	NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (
		genericapiserver.APIGroupInfo, error)
}

// builtIn returns the built-in groups.
func (s *storages) builtIn() ([]genericapiserver.APIGroupInfo, error) {
	enabled := controlplane.DefaultAPIResourceConfigSource()
	// Nothing of it is served unless the feature gate GenericWorkload is on.
	enabled.EnableVersions(schedulingv1beta1.SchemeGroupVersion)
	core, err := s.core(enabled)
	if err != nil {
		return nil, err
	}
	groups := []genericapiserver.APIGroupInfo{core}
	for _, provider := range []provider{
		appsrest.StorageProvider{}, coordinationrest.RESTStorageProvider{},
		eventsrest.RESTStorageProvider{TTL: eventTTL}, policyrest.RESTStorageProvider{},
		resourcerest.RESTStorageProvider{NamespaceClient: s.loopback.CoreV1().Namespaces(),
			Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer()},
		schedulingrest.RESTStorageProvider{}, storagerest.RESTStorageProvider{},
	} {
		group, err := provider.NewRESTStorage(enabled, s)
		if err != nil {
			return nil, err
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// core returns the group without a name.
func (s *storages) core(enabled serverstorage.APIResourceConfigSource) (genericapiserver.APIGroupInfo, error) {
	generic := corerest.GenericConfig{EventTTL: eventTTL}
	info, err := generic.NewRESTStorage(enabled, s)
	if err != nil {
		return info, err
	}
	nodes, err1 := nodestore.NewStorage(s, client.KubeletClientConfig{}, nil)
	pods, err2 := podstore.NewStorage(s, nil, nil, s.loopback.PolicyV1(), authorizerfactory.NewAlwaysAllowAuthorizer())
	volumes, volumeStatus, err3 := volumestore.NewREST(s)
	claims, claimStatus, err4 := claimstore.NewREST(s)
	controllers, err5 := replicationcontrollerstore.NewStorage(s)
	services, serviceStatus, err6 := s.services(pods.Pod)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return info, err
	}
	storage := info.VersionedResourcesStorageMap["v1"]
	for name, one := range map[string]rest.Storage{
		"nodes": nodes.Node, "nodes/status": nodes.Status,
		"pods": pods.Pod, "pods/status": pods.Status, "pods/binding": pods.Binding, "bindings": pods.LegacyBinding,
		"pods/eviction": pods.Eviction, "pods/resize": pods.Resize,
		"pods/ephemeralcontainers": pods.EphemeralContainers,
		"persistentvolumes":        volumes, "persistentvolumes/status": volumeStatus,
		"persistentvolumeclaims": claims, "persistentvolumeclaims/status": claimStatus,
		"replicationcontrollers": controllers.Controller, "replicationcontrollers/status": controllers.Status,
		"replicationcontrollers/scale": controllers.Scale,
		"services":                     services, "services/status": serviceStatus,
	} {
		storage[name] = one
	}
	return info, nil
}

// services returns the storage of Services. Their addresses and ports are random, as those of a
// real server are, so that a run with Services that are not headless does not repeat.
func (s *storages) services(pods servicestore.PodStorage) (*servicestore.REST, *servicestore.StatusREST, error) {
	addresses, err := ipallocator.NewInMemory(&net.IPNet{IP: net.IPv4(10, 96, 0, 0).To4(), Mask: net.CIDRMask(16, 32)})
	if err != nil {
		return nil, nil, err
	}
	ports, err := portallocator.NewInMemory(options.DefaultServiceNodePortRange)
	if err != nil {
		return nil, nil, err
	}
	families := map[api.IPFamily]ipallocator.Interface{api.IPv4Protocol: addresses}
	store, status, _, err := servicestore.NewREST(s, api.IPv4Protocol, families, ports, nil, pods, nil)
	return store, status, err
}
