// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"errors"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Sources is what the plugins of a profile read besides the pod. One does for all the classes of a profile's
// generation. It belongs to the goroutine of the scheduling loop.
type Sources struct {
	snapshot   *cache.Snapshot
	factory    informers.SharedInformerFactory
	features   feature.Features
	namespaces corelisters.NamespaceLister
	// nsStore is what namespaces reads from.
	nsStore toolscache.Store
	// owners is nil until default constraints ask for it. As upstream's plugin, who needs them not has them not watched.
	owners *owners
}

// errTopologies is returned for pods with more topology keys than a snapshot keeps up.
var errTopologies = errors.New("too many topology keys")

// NewSources returns the sources of a profile: the snapshot that decisions are made on, the informers that the
// profile's plugins got from their handle, which have synced, and the feature gates that they were made with.
func NewSources(snapshot *cache.Snapshot, factory informers.SharedInformerFactory, features feature.Features) *Sources {
	namespaces := factory.Core().V1().Namespaces()
	return &Sources{
		snapshot: snapshot, factory: factory, features: features,
		namespaces: namespaces.Lister(), nsStore: namespaces.Informer().GetStore(),
	}
}

// owners is where the selectors of default constraints come from.
type owners struct {
	services     corelisters.ServiceLister
	serviceStore toolscache.Store
	controllers  corelisters.ReplicationControllerLister
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
}

func newOwners(factory informers.SharedInformerFactory) *owners {
	services := factory.Core().V1().Services()
	return &owners{
		services: services.Lister(), serviceStore: services.Informer().GetStore(),
		controllers:  factory.Core().V1().ReplicationControllers().Lister(),
		replicaSets:  factory.Apps().V1().ReplicaSets().Lister(),
		statefulSets: factory.Apps().V1().StatefulSets().Lister(),
	}
}

// series is the pods that belong together with a pod: those of its services and its controller.
type series struct {
	*owners
	pod      *corev1.Pod
	selector labels.Selector
	// services and owner are the state that the selector was made from.
	servicesAt string
	owner      any
}

func (s *Sources) newSeries(pod *corev1.Pod) *series {
	if s.owners == nil {
		s.owners = newOwners(s.factory)
	}
	r := &series{owners: s.owners, pod: pod}
	// In this order: what changes meanwhile is found to have changed.
	r.servicesAt, r.owner = version(r.serviceStore), r.controller()
	r.selector = r.current()
	return r
}

func (r *series) current() labels.Selector {
	return helper.DefaultSelector(r.pod, r.services, r.controllers, r.replicaSets, r.statefulSets)
}

// changed says whether the pods of the series are others by now.
func (r *series) changed() bool {
	servicesAt, owner := version(r.serviceStore), r.controller()
	if servicesAt != "" && servicesAt == r.servicesAt && owner == r.owner {
		return false
	}
	if !reflect.DeepEqual(r.current(), r.selector) {
		return true
	}
	r.servicesAt, r.owner = servicesAt, owner
	return false
}

// controller returns the pod's controller, nil if there is none or it is of a kind that is not looked at. That it is
// the same object means that nothing in it has changed.
func (r *series) controller() any {
	owner := metav1.GetControllerOfNoCopy(r.pod)
	if owner == nil {
		return nil
	}
	var object any
	var err error
	switch owner.Kind {
	case "ReplicationController":
		object, err = r.controllers.ReplicationControllers(r.pod.Namespace).Get(owner.Name)
	case "ReplicaSet":
		object, err = r.replicaSets.ReplicaSets(r.pod.Namespace).Get(owner.Name)
	case "StatefulSet":
		object, err = r.statefulSets.StatefulSets(r.pod.Namespace).Get(owner.Name)
	}
	if err != nil {
		return nil
	}
	return object
}

// version is the resource version of all that a store holds. It is "" if the store does not know, as it does while
// client-go's feature gate AtomicFIFO is off; what came of the store has to be worked out again then.
func version(store toolscache.Store) string { return store.LastStoreSyncResourceVersion() }
