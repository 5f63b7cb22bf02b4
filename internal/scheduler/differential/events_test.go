// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/ptr"
)

// happen changes something in the cluster.
func (c *contest) happen() {
	c.t.Helper()
	c.count["events"]++
	node, someNode := anyOf(c, c.nodes)
	pod, somePod := anyOf(c, c.placed)
	switch event := c.IntN(100); {
	case event < 8:
		c.addNode(c.node())
	case event < 12 && len(c.nodes) > 3 && !c.holdsGroup(node.Name):
		c.removeNode(node.Name) // its pods stay, for now
	case event < 35 && someNode:
		c.updateNode(c.changed(node))
	case event < 45 && somePod && !c.sharesPort(pod):
		c.removePod(pod)
	case event < 62 && somePod:
		c.updatePod(c.changedPod(pod))
	case event < 72 && someNode:
		c.place(c.newPod(), node.Name)
	case event < 85:
		if a, ok := anyOf(c, c.assumed); ok {
			c.confirm(a)
		}
	case event < 90:
		if a, ok := anyOf(c, c.assumed); ok && !c.sharesPort(a.pod) {
			c.forget(a)
		}
	case event < 95 && someNode:
		nominated := node.Name
		if c.chance(25) {
			nominated = ""
		}
		if waiting, ok := anyOf(c, c.queued); ok && c.chance(60) {
			c.enqueue(waiting, nominated)
		} else {
			c.enqueue(c.newPod(), nominated)
		}
	case event < 97:
		if waiting, ok := anyOf(c, c.queued); ok {
			c.dequeue(waiting)
			c.must(c.objects.Remove(waiting))
		}
	case event < 99 && c.volumes && c.chance(80):
		c.changeCapacity()
	default:
		c.put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: pick(c.generator, namespaces), Labels: map[string]string{"tier": oneOf(c.generator, "front", "back")},
		}})
	}
}

// changeCapacity changes an object that reports the capacity of nodes, or deletes it.
func (c *contest) changeCapacity() {
	capacities := map[string]*storagev1.CSIStorageCapacity{}
	listed, err := c.objects.Storage().V1().CSIStorageCapacities().Lister().List(labels.Everything())
	c.must(err)
	for _, capacity := range listed {
		capacities[capacity.Name] = capacity
	}
	capacity, ok := anyOf(c, capacities)
	switch {
	case !ok:
	case c.chance(20):
		c.must(c.objects.Remove(capacity))
	default:
		capacity = capacity.DeepCopy()
		capacity.Capacity = resource.NewQuantity(int64(c.IntN(12))<<30, resource.BinarySI)
		c.put(capacity)
	}
}

// anyOf picks an element of a map, which depends only on the seed.
func anyOf[K cmp.Ordered, V any](c *contest, from map[K]V) (picked V, ok bool) {
	if len(from) == 0 {
		return picked, false
	}
	return from[pick(c.generator, slices.Sorted(maps.Keys(from)))], true
}

// changed returns a newer version of a node, with a relevant change, or none.
func (c *contest) changed(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	node.ResourceVersion += "1"
	switch c.IntN(6) {
	case 0:
		c.label(node)
		delete(node.Labels, "cores")
	case 1:
		c.taint(node)
	case 2:
		c.allocate(node)
	case 3:
		c.pull(node)
	case 4:
		node.Status.DeclaredFeatures = node.Status.DeclaredFeatures[:len(node.Status.DeclaredFeatures)/2]
	default:
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return node
}

// changedPod returns a newer version of a pod on a node, with a relevant change, or none.
func (c *contest) changedPod(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.ResourceVersion += "1"
	switch c.IntN(4) {
	case 0:
		pod.Labels = map[string]string{"app": pick(c.generator, apps), "version": pick(c.generator, versions)}
	case 1:
		terminate(pod, c.chance(50))
	case 2: // a resize that the kubelet has not carried out yet, or has
		container := &pod.Spec.Containers[0]
		before := container.Resources.Requests.DeepCopy()
		container.Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(50*(1+c.IntN(40))),
			resource.DecimalSI)
		if c.chance(50) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: container.Name, AllocatedResources: before,
				Resources: &corev1.ResourceRequirements{Requests: before},
			}}
		}
	default:
		pod.Status.Phase, pod.Status.Message = corev1.PodRunning, "still there"
	}
	return pod
}

// afterwards does with a decision roughly what a scheduling loop would do.
func (c *contest) afterwards(pod *corev1.Pod, d decision) {
	c.t.Helper()
	switch {
	case d.Host != "" && c.chance(75):
		c.assume(pod, d.Host, c.theirs.Last.State, d.State)
	case d.Host != "":
		c.dequeue(pod)
		c.must(c.objects.Remove(pod))
	case d.Nominating != nil && d.Nominating.NominatedNodeName != "":
		c.enqueue(pod, d.Nominating.NominatedNodeName)
		c.evict(d.Nominating.NominatedNodeName)
	case c.chance(30):
		c.enqueue(pod, "")
	default:
		c.dequeue(pod)
		c.must(c.objects.Remove(pod))
	}
}

// evict makes the victims of livesched's preemption on a node terminate, or deletes them.
func (c *contest) evict(node string) {
	c.t.Helper()
	gone := c.chance(50)
	for _, victim := range c.ours.preemption.found[node] {
		pod, ok := c.placed[victim.UID]
		switch {
		case !ok: // assumed: it is rejected or deleted in its binding cycle
			if a := c.assumed[victim.UID]; a != nil && !c.sharesPort(a.pod) {
				c.forget(a)
			}
		case gone && !c.sharesPort(pod):
			c.removePod(pod)
		case pod.DeletionTimestamp == nil:
			pod = pod.DeepCopy()
			pod.ResourceVersion += "1"
			terminate(pod, true)
			pod.DeletionGracePeriodSeconds = ptr.To(int64(30))
			c.updatePod(pod)
		}
	}
}

// sharesPort reports whether another pod on the pod's node has one of its host ports. Such a pod
// must not be removed: afterwards the port is free in kube-scheduler and taken in livesched
// (docs/compare/kube-scheduler.md).
func (c *contest) sharesPort(pod *corev1.Pod) bool {
	used := map[int32]bool{}
	for _, port := range schedutil.GetHostPorts(pod) {
		used[port.HostPort] = true
	}
	shares := func(other *corev1.Pod) bool {
		return other.UID != pod.UID && other.Spec.NodeName == pod.Spec.NodeName &&
			slices.ContainsFunc(schedutil.GetHostPorts(other),
				func(port corev1.ContainerPort) bool { return used[port.HostPort] })
	}
	for _, other := range c.placed {
		if shares(other) {
			return true
		}
	}
	for _, other := range c.assumed {
		if shares(other.pod) {
			return true
		}
	}
	return false
}
