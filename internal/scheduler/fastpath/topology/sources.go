// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// Sources holds what the plugins of a profile read besides the pod. All classes of an instance
// share one. It belongs to the goroutine of the scheduling loop.
type Sources struct {
	snapshot   *cache.Snapshot
	factory    informers.SharedInformerFactory
	features   feature.Features
	namespaces corelisters.NamespaceLister
	// nsStore is the store behind namespaces.
	nsStore toolscache.Store
	// probe is the pod that podOf returns.
	probe corev1.Pod
	// owners is nil until default constraints need it. As with upstream's plugin, services and
	// controllers are not watched for profiles that do not need them.
	owners *owners
}

// ErrTopologies is returned for pods that terms with too many topology keys concern.
var ErrTopologies = errors.New("too many topology keys")

// NewSources returns the sources of a profile. It takes the snapshot that decisions are made on,
// the synced informers that the profile's plugins got from their handle, and the feature gates that
// the plugins were made with.
func NewSources(snapshot *cache.Snapshot, factory informers.SharedInformerFactory, features feature.Features) *Sources {
	namespaces := factory.Core().V1().Namespaces()
	return &Sources{
		snapshot: snapshot, factory: factory, features: features,
		namespaces: namespaces.Lister(), nsStore: namespaces.Informer().GetStore(),
	}
}

// podOf returns a pod that selectors and terms cannot distinguish from the pods of a signature. It
// is valid until the next call.
func (s *Sources) podOf(signature *cache.Signature) *corev1.Pod {
	s.probe.Namespace, s.probe.Labels = signature.Namespace, signature.Labels
	return &s.probe
}

// owners gives access to the objects that the selectors of default constraints are derived from.
type owners struct {
	services               corelisters.ServiceLister
	replicationControllers corelisters.ReplicationControllerLister
	replicaSets            appslisters.ReplicaSetLister
	statefulSets           appslisters.StatefulSetLister

	serviceStore toolscache.Store
	// read are the namespaces whose services have been added to Mentions since the services were at
	// version readAt, and Mentions.forgotten was forgotten.
	read      sets.Set[string]
	readAt    string
	forgotten int
	// controllerStores holds the stores of controllers by kind.
	controllerStores map[string]toolscache.Store
}

func newOwners(factory informers.SharedInformerFactory) *owners {
	core, apps := factory.Core().V1(), factory.Apps().V1()
	return &owners{
		services:               core.Services().Lister(),
		replicationControllers: core.ReplicationControllers().Lister(),
		replicaSets:            apps.ReplicaSets().Lister(),
		statefulSets:           apps.StatefulSets().Lister(),
		serviceStore:           core.Services().Informer().GetStore(),
		controllerStores: map[string]toolscache.Store{
			"ReplicationController": core.ReplicationControllers().Informer().GetStore(),
			"ReplicaSet":            apps.ReplicaSets().Informer().GetStore(),
			"StatefulSet":           apps.StatefulSets().Informer().GetStore(),
		},
	}
}

// series identifies the pods that belong together with a pod: the pods of its services and its
// controller.
type series struct {
	*owners
	pod      *corev1.Pod
	selector labels.Selector
	// controllers is the store that holds the pod's controller under key. It is nil if the pod has
	// no controller, or one of a kind that does not matter.
	controllers toolscache.Store
	key         string
	// servicesAt and controller are the state from which the selector was made.
	servicesAt string
	controller any
}

// currentOwners returns the owners. The first call starts watching them.
func (s *Sources) currentOwners() *owners {
	if s.owners == nil {
		s.owners = newOwners(s.factory)
	}
	return s.owners
}

func (s *Sources) newSeries(pod *corev1.Pod) *series {
	r := &series{owners: s.currentOwners(), pod: pod}
	if owner := podfields.ControllerOf(pod); owner != nil {
		r.controllers, r.key = r.controllerStores[owner.Kind], pod.Namespace+"/"+owner.Name
	}
	// Read the versions before the selector, so that a change in between is detected later.
	r.servicesAt, r.controller = version(r.serviceStore), r.currentController()
	r.selector = r.current()
	return r
}

func (s *series) current() labels.Selector {
	return helper.DefaultSelector(s.pod, s.services, s.replicationControllers, s.replicaSets, s.statefulSets)
}

// changed reports whether the selector of the series has changed.
func (s *series) changed() bool {
	servicesAt, controller := version(s.serviceStore), s.currentController()
	if servicesAt != "" && servicesAt == s.servicesAt && controller == s.controller {
		return false
	}
	if !reflect.DeepEqual(s.current(), s.selector) {
		return true
	}
	s.servicesAt, s.controller = servicesAt, controller
	return false
}

// currentController returns the pod's controller, or nil if it does not exist. The same object
// means that the controller has not changed.
func (s *series) currentController() any {
	if s.controllers == nil {
		return nil
	}
	controller, _, err := s.controllers.GetByKey(s.key)
	if err != nil {
		return nil
	}
	return controller
}

// version returns the resource version of everything that a store holds. It returns "" if the store
// does not know it, as while client-go's feature gate AtomicFIFO is off; callers must then
// recompute what they derived from the store.
func version(store toolscache.Store) string { return store.LastStoreSyncResourceVersion() }
