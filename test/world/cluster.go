// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/testcluster"
)

// cluster is what the API server has, for the actors and for the invariants. Its clients reach the
// API server without a network.
type cluster struct {
	world   *World
	kube    kubernetes.Interface
	objects client.Client
	// kinds are what the world follows. Their objects are in the maps below, by key in etcd, as of
	// a revision of etcd.
	kinds    []kind
	revision int64
	// oldest is the first revision that etcd still has.
	oldest     int64
	pods       map[string]*corev1.Pod
	namespaces map[string]*corev1.Namespace
	nodes      map[string]*corev1.Node
	budgets    map[string]*policyv1.PodDisruptionBudget
	services   map[string]*corev1.Service

	// groups are PodGroups of scheduler-plugins, and podGroups those of Kubernetes.
	groups    map[string]*unstructured.Unstructured
	podGroups map[string]*schedulingv1beta1.PodGroup

	classes map[string]*resourcev1.DeviceClass
	slices  map[string]*resourcev1.ResourceSlice
	claims  map[string]*resourcev1.ResourceClaim

	storageClasses map[string]*storagev1.StorageClass
	csiNodes       map[string]*storagev1.CSINode
	csiDrivers     map[string]*storagev1.CSIDriver
	capacities     map[string]*storagev1.CSIStorageCapacity
	volumes        map[string]*corev1.PersistentVolume
	volumeClaims   map[string]*corev1.PersistentVolumeClaim

	preemptions preemptions
	disruption  disruption
	gangs       *gangs
	// shrunk is when nodes have got less, by their names, and filled when somebody else has bound
	// pods there. foreign are these pods.
	shrunk, filled map[string]time.Time
	// boundLate is when pods were bound for a process that did not lead any more, by their
	// namespaces and names.
	boundLate map[string]time.Time
	foreign   map[types.UID]bool
	// resized is when pods have changed what they request.
	resized map[types.UID]time.Time
	// again are the pods that are created again once they are gone.
	again map[types.UID]bool
	// moved is when nodes have come or changed their zones, by their names, and doomed when claims
	// for volumes were deleted.
	moved, doomed map[string]time.Time
	// profiles and policies are those of livesched. aborted are the last roll-outs that were
	// aborted, by the UIDs of the profiles.
	profiles, policies map[string]*unstructured.Unstructured
	aborted            map[types.UID]abortedRollout
	versions           *versions
	// allocatedAt has the revisions at which claims were allocated last.
	allocatedAt map[types.UID]int64
	// attaching are the claims whose devices the driver attaches.
	attaching map[types.UID]bool
	// compared are the decisions that the shadow had compared at the last rest.
	compared v1alpha1.ShadowStatus
}

// informed returns the objects that a scheduler knows.
func (c *cluster) informed() (objects []runtime.Object) {
	for _, of := range [][]runtime.Object{
		known(c.namespaces), known(c.nodes), known(c.judgedPods()), known(c.budgets), known(c.services),
		known(c.classes), known(c.slices), known(c.claims),
		known(c.storageClasses), known(c.csiNodes), known(c.csiDrivers), known(c.capacities),
		known(c.volumes), known(c.volumeClaims),
	} {
		objects = append(objects, of...)
	}
	return objects
}

func known[T runtime.Object](of map[string]T) (objects []runtime.Object) {
	for _, object := range sorted(of) {
		objects = append(objects, object)
	}
	return objects
}

func newCluster(w *World, config *rest.Config) (*cluster, error) {
	all, err := app.NewScheme()
	if err != nil {
		return nil, err
	}
	c := &cluster{world: w, revision: w.etcd.Revision(), oldest: w.etcd.Revision(),
		pods: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, namespaces: map[string]*corev1.Namespace{},
		budgets:        map[string]*policyv1.PodDisruptionBudget{},
		services:       map[string]*corev1.Service{},
		groups:         map[string]*unstructured.Unstructured{},
		podGroups:      map[string]*schedulingv1beta1.PodGroup{},
		classes:        map[string]*resourcev1.DeviceClass{},
		slices:         map[string]*resourcev1.ResourceSlice{},
		claims:         map[string]*resourcev1.ResourceClaim{},
		storageClasses: map[string]*storagev1.StorageClass{},
		csiNodes:       map[string]*storagev1.CSINode{},
		csiDrivers:     map[string]*storagev1.CSIDriver{},
		capacities:     map[string]*storagev1.CSIStorageCapacity{},
		volumes:        map[string]*corev1.PersistentVolume{},
		volumeClaims:   map[string]*corev1.PersistentVolumeClaim{},
		preemptions:    preemptions{deleted: map[types.UID]bool{}},
		disruption:     disruption{due: map[types.NamespacedName]bool{}},
		shrunk:         map[string]time.Time{},
		boundLate:      map[string]time.Time{},
		filled:         map[string]time.Time{}, foreign: map[types.UID]bool{},
		resized: map[types.UID]time.Time{}, again: map[types.UID]bool{},
		moved: map[string]time.Time{}, doomed: map[string]time.Time{}, allocatedAt: map[types.UID]int64{},
		attaching: map[types.UID]bool{},
		gangs:     newGangs(),
		profiles:  map[string]*unstructured.Unstructured{}, policies: map[string]*unstructured.Unstructured{},
		aborted: map[types.UID]abortedRollout{}, versions: newVersions(),
	}
	c.kinds = []kind{
		follow("/registry/pods/", c.pods, w.podChanged),
		follow("/registry/namespaces/", c.namespaces, nil),
		follow("/registry/minions/", c.nodes, w.nodeChanged),
		follow("/registry/poddisruptionbudgets/", c.budgets, w.budgetChanged),
		follow(servicePrefix, c.services, nil),
		follow(groupPrefix, c.groups, nil),
		follow(podGroupPrefix, c.podGroups, w.podGroupChanged),
		follow("/registry/deviceclasses/", c.classes, nil),
		follow("/registry/resourceslices/", c.slices, nil),
		follow(claimPrefix, c.claims, w.claimChanged),
		follow("/registry/storageclasses/", c.storageClasses, nil),
		follow(csiNodePrefix, c.csiNodes, nil),
		follow(csiDriverKey, c.csiDrivers, nil),
		follow(capacityPrefix, c.capacities, nil),
		follow(volumePrefix, c.volumes, w.volumeChanged),
		follow(profilePrefix, c.profiles, w.profileChanged),
		follow(policyPrefix, c.policies, w.policyChanged),
		follow(volumeClaimPrefix, c.volumeClaims, w.volumeClaimChanged),
	}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.objects, err = client.New(config, client.Options{Scheme: all}); err != nil {
		return nil, err
	}
	for _, name := range []string{metav1.NamespaceDefault, otherNamespace, metav1.NamespaceSystem, ownNamespace} {
		if err := c.objects.Create(w.ctx, newNamespace(name)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// definitions are livesched's custom resources, and the PodGroups. A process reads the files once,
// outside of bubbles: in these, a system call could make another thread run goroutines.
var definitions = sync.OnceValue(readDefinitions)

func readDefinitions() (crds []*apiextensionsv1.CustomResourceDefinition) {
	for _, pattern := range []string{"config/crd/bases/*.yaml", "config/podgroup/scheduling.x-k8s.io_podgroups.yaml"} {
		files, err := filepath.Glob(filepath.Join(testcluster.Root(), pattern))
		if err != nil {
			panic(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				panic(err)
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(text, crd); err != nil {
				panic(err)
			}
			crds = append(crds, crd)
		}
	}
	return crds
}

// observe sees what has changed in etcd, and in the processes.
func (w *World) observe() {
	for _, r := range w.replicas {
		r.look()
	}
	for _, alarm := range slices.Sorted(slices.Values(w.alarms.take())) {
		w.fail("%s", alarm)
	}
	c := w.cluster
	for _, change := range w.etcd.Changes(c.revision) {
		c.revision++
		c.follow(change)
	}
}

// follow follows one change.
func (c *cluster) follow(change *mvccpb.Event) {
	for _, kind := range c.kinds {
		if strings.HasPrefix(string(change.Kv.Key), kind.prefix) {
			kind.follow(change)
		}
	}
}

// kind is a kind of objects that the world follows. Their keys in etcd have a prefix.
type kind struct {
	prefix string
	follow func(change *mvccpb.Event)
}

// follow returns a kind whose objects are kept by key. changed is called after each change, with
// nil for an object that does not exist. It may be nil.
func follow[T any, P interface {
	*T
	client.Object
}](prefix string, objects map[string]P, changed func(before, after P)) kind {
	return kind{prefix, func(change *mvccpb.Event) {
		key := string(change.Kv.Key)
		before, after := objects[key], decode[T, P](change)
		if after == nil {
			delete(objects, key)
		} else {
			objects[key] = after
		}
		if changed != nil {
			changed(before, after)
		}
	}}
}

// decode returns the object after a change, nil if it was deleted.
func decode[T any, P interface {
	*T
	client.Object
}](change *mvccpb.Event) P {
	if change.Type == mvccpb.Event_DELETE {
		return nil
	}
	object := P(new(T))
	if custom, ok := any(object).(*unstructured.Unstructured); ok {
		if err := custom.UnmarshalJSON(change.Kv.Value); err != nil {
			panic(err)
		}
	} else if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(change.Kv.Value, nil, object); err != nil {
		panic(err)
	}
	object.SetResourceVersion(strconv.FormatInt(change.Kv.ModRevision, 10))
	return object
}
