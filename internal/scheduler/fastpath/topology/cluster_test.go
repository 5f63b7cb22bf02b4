// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	fakeclient "k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

var quiet = klog.Logger{}

// cluster is a cache with its snapshot, and the stores of informers that never run: the test writes
// to them as watches would.
type cluster struct {
	t testing.TB
	*generator
	cache    *cache.Cache
	snapshot *cache.Snapshot
	factory  informers.SharedInformerFactory
	version  int

	nodes []string
	pods  []*corev1.Pod
	// maxNodes and maxPods bound its growth.
	maxNodes, maxPods int
	// shapes are pods of a class, by class id.
	shapes []*schedframework.PodInfo
}

func newCluster(t testing.TB, g *generator) *cluster {
	return &cluster{
		t: t, generator: g, cache: cache.New(), snapshot: cache.NewSnapshot(),
		factory:  informers.NewSharedInformerFactory(fakeclient.NewClientset(), 0),
		shapes:   []*schedframework.PodInfo{nil},
		maxNodes: 16, maxPods: 90,
	}
}

func (c *cluster) must(err error) {
	if err != nil {
		c.t.Helper()
		c.t.Fatal(err)
	}
}

func (c *cluster) refresh() { c.must(c.cache.UpdateSnapshot(quiet, c.snapshot)) }

// store puts an object into an informer's store, as a watch does: with a new resource version.
func (c *cluster) store(indexer toolscache.Indexer, object metav1.Object) {
	c.version++
	object.SetResourceVersion(fmt.Sprint(c.version))
	c.must(indexer.Update(object))
}

// drop removes an object from an informer's store, if it is there.
func (c *cluster) drop(indexer toolscache.Indexer, object metav1.Object) {
	c.version++
	object.SetResourceVersion(fmt.Sprint(c.version))
	c.must(indexer.Delete(object))
}

func (c *cluster) addNode(node *corev1.Node) {
	c.cache.AddNode(quiet, node)
	c.nodes = append(c.nodes, node.Name)
}

// place puts a pod on a node: as the result of a decision, with a class that the change log names,
// or as a pod that another scheduler has bound.
func (c *cluster) place(pod *corev1.Pod, node string, classed bool) {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	c.pods = append(c.pods, pod)
	if !classed {
		c.must(c.cache.AddPod(quiet, pod))
		return
	}
	info, err := schedframework.NewPodInfo(pod)
	c.must(err)
	info.CalculateResource()
	c.shapes = append(c.shapes, info)
	c.must(c.cache.AssumePodOfClass(quiet, pod, cache.Class{ID: cache.ClassID(len(c.shapes) - 1), Like: info}))
}

// order returns the slots of all nodes, in the order of the snapshot's list.
func (c *cluster) order() []cache.Slot {
	list, err := c.snapshot.NodeInfos().List()
	c.must(err)
	slots := make([]cache.Slot, len(list))
	for i, info := range list {
		slots[i], _ = c.snapshot.SlotOf(info.Node().Name)
	}
	return slots
}

// step changes something.
func (c *cluster) step() {
	switch n := c.IntN(100); {
	case n < 40 && len(c.pods) < c.maxPods && len(c.nodes) > 0:
		c.place(c.pod(), pick(c.generator, c.nodes), c.chance(60))
	case n < 65 && len(c.pods) > 0:
		c.removePod(c.IntN(len(c.pods)))
	case n < 78 && len(c.pods) > 0:
		c.changePod(c.IntN(len(c.pods)))
	case n < 82 && len(c.nodes) < c.maxNodes:
		c.addNode(c.node(c.name("node")))
	case n < 85 && len(c.nodes) > 3:
		c.removeNode(c.IntN(len(c.nodes)))
	case n < 90 && len(c.nodes) > 0:
		name := pick(c.generator, c.nodes)
		c.cache.UpdateNode(quiet, nil, c.node(name))
	default:
		c.others()
	}
}

func (c *cluster) removePod(i int) {
	c.must(c.cache.RemovePod(quiet, c.pods[i]))
	c.pods[i] = c.pods[len(c.pods)-1]
	c.pods = c.pods[:len(c.pods)-1]
}

// changePod confirms, relabels or terminates a pod.
func (c *cluster) changePod(i int) {
	old := c.pods[i]
	pod := old.DeepCopy()
	switch c.IntN(3) {
	case 0:
		pod.Status.Phase = corev1.PodRunning
	case 1:
		pod.Labels = c.labels()
	case 2:
		pod.DeletionTimestamp = &metav1.Time{}
	}
	c.pods[i] = pod
	c.must(c.cache.UpdatePod(quiet, old, pod))
}

// removeNode removes a node; its pods are deleted later, as with the watch of pods.
func (c *cluster) removeNode(i int) {
	c.must(c.cache.RemoveNode(quiet, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.nodes[i]}}))
	c.nodes[i] = c.nodes[len(c.nodes)-1]
	c.nodes = c.nodes[:len(c.nodes)-1]
}

// others changes a namespace, a service or a controller.
func (c *cluster) others() {
	core, apps1 := c.factory.Core().V1(), c.factory.Apps().V1()
	namespace := pick(c.generator, namespaceNames[:3])
	rc, rs, sts := c.controllers(namespace, pick(c.generator, apps))
	put := c.store
	if c.chance(30) {
		put = c.drop
	}
	switch c.IntN(6) {
	case 0:
		put(core.Namespaces().Informer().GetIndexer(), c.namespace(namespace))
	case 1, 2:
		put(core.Services().Informer().GetIndexer(), c.service(namespace, pick(c.generator, apps)))
	case 3:
		put(core.ReplicationControllers().Informer().GetIndexer(), rc)
	case 4:
		put(apps1.ReplicaSets().Informer().GetIndexer(), rs)
	case 5:
		put(apps1.StatefulSets().Informer().GetIndexer(), sts)
	}
}
