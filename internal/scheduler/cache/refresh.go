// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// Only the functions in this file modify a snapshot. The caller holds Cache.mu, and no other
// goroutine uses the snapshot.

// beginRefresh starts a new refresh.
func (s *Snapshot) beginRefresh() {
	s.refreshes++
	s.renumberSignatures()
}

func (s *Snapshot) logChange(slot Slot, kind ChangeKind, class ClassID) {
	s.log.add(Change{Slot: slot, Kind: kind, Pod: class}, len(s.infos))
	s.bumpVersion(slot)
}

// bumpVersion gives a slot another version.
func (s *Snapshot) bumpVersion(slot Slot) {
	s.version++
	s.versions[slot] = s.version
}

// takeSlot returns the slot that became free last, or a new one.
func (s *Snapshot) takeSlot() Slot {
	if last := len(s.free) - 1; last >= 0 {
		slot := s.free[last]
		s.free = s.free[:last]
		return slot
	}
	s.infos = append(s.infos, nil)
	s.versions = append(s.versions, 0)
	return Slot(len(s.infos) - 1)
}

// addNode adds a node with the pods on it.
func (s *Snapshot) addNode(n *node) Slot {
	slot := s.takeSlot()
	info := newNodeInfo(n.obj, n.pods)
	info.ImageStates = s.images.add(n.obj.Status.Images)
	s.infos[slot] = info
	s.slots[n.name] = slot
	s.tree.put(slot, n)
	s.orderChanged()
	s.relabel(slot, n.obj)
	s.countPods(slot)
	s.logChange(slot, NodeAdded, 0)
	return slot
}

// removeNode removes the node in a slot. Its NodeInfo does not change, as it may still be
// referenced.
func (s *Snapshot) removeNode(slot Slot) {
	info := s.infos[slot]
	s.uncountPods(slot)
	s.images.remove(info.ImageStates)
	s.unlabel(slot)
	s.tree.remove(slot)
	s.orderChanged()
	s.infos[slot] = nil
	delete(s.slots, info.Node().Name)
	s.free = append(s.free, slot)
	s.logChange(slot, NodeRemoved, 0)
}

// rebuildNode computes the NodeInfo of a node again, in place.
func (s *Snapshot) rebuildNode(n *node) {
	slot := n.slot
	info := s.infos[slot]
	s.uncountPods(slot)
	images := s.countImages(info, n.obj)
	*info = *newNodeInfo(n.obj, n.pods)
	info.ImageStates = images
	s.countPods(slot)
	s.reorder(slot, n)
	s.relabel(slot, n.obj)
	s.logChange(slot, NodeObject, 0)
}

// apply applies one change. After an error the node must be rebuilt.
func (s *Snapshot) apply(logger klog.Logger, d *delta) error {
	slot := d.node.slot
	info := s.infos[slot]
	switch d.kind {
	case podPlaced:
		s.placePod(slot, d.info, d.class)
	case podTaken:
		return s.takePod(logger, slot, d.info.Pod, d.class)
	case podReplaced:
		i := replacePod(info, d.old, d.info)
		if i < 0 {
			return fmt.Errorf("pod %v is not on it", klog.KObj(d.info.Pod))
		}
		s.resignPod(slot, i, d.info)
		s.bumpVersion(slot)
		if !d.old.Pod.Status.StartTime.Equal(d.info.Pod.Status.StartTime) {
			s.starts.add(Change{Slot: slot}, 0)
		}
	case nodeChanged:
		s.setNode(d.node)
		s.logChange(slot, NodeObject, 0)
	case nodeRefreshed:
		// As the log has no entry, NodeInfo.Generation must not change either.
		generation := info.Generation
		s.setNode(d.node)
		info.Generation = generation
	}
	return nil
}

// placePod adds a pod to the node in a slot, as the last one. The pod is not there yet.
func (s *Snapshot) placePod(slot Slot, pod *schedframework.PodInfo, class ClassID) {
	s.infos[slot].AddPodInfo(pod)
	s.countPod(pod.Pod, 1)
	s.signPod(slot, pod, class)
	s.sortByPods(slot)
	s.logChange(slot, PodAdded, class)
}

// takePod removes a pod from the node in a slot. The last pod of the node takes its place.
func (s *Snapshot) takePod(logger klog.Logger, slot Slot, pod *corev1.Pod, class ClassID) error {
	info := s.infos[slot]
	i := s.indexOf(slot, pod)
	if err := info.RemovePod(logger, pod); err != nil {
		return err
	}
	s.unsignPod(slot, i)
	restorePorts(info, pod)
	s.countPod(pod, -1)
	s.sortByPods(slot)
	s.logChange(slot, PodRemoved, class)
	return nil
}

// indexOf returns the index of a pod on the node in a slot, -1 if it is not there.
func (s *Snapshot) indexOf(slot Slot, pod *corev1.Pod) int {
	return slices.IndexFunc(s.infos[slot].Pods, func(on fwk.PodInfo) bool { return on.GetPod().UID == pod.UID })
}

// swapLast swaps the last pod of the node in a slot with the i-th one.
func (s *Snapshot) swapLast(slot Slot, i int) {
	pods := s.infos[slot].Pods
	last := len(pods) - 1
	pods[i], pods[last] = pods[last], pods[i]
	if x := s.signatures; x != nil {
		on := x.on[slot]
		on[i], on[last] = on[last], on[i]
	}
}

// setNode sets the newest object of a node.
func (s *Snapshot) setNode(n *node) {
	slot := n.slot
	info := s.infos[slot]
	info.ImageStates = s.countImages(info, n.obj)
	info.SetNode(n.obj)
	s.reorder(slot, n)
	s.relabel(slot, n.obj)
}

// countImages counts the images of a newer object of a node, and returns the node's ImageStates.
func (s *Snapshot) countImages(info *schedframework.NodeInfo, node *corev1.Node) map[string]*fwk.ImageStateSummary {
	if podfields.SameImages(info.Node().Status.Images, node.Status.Images) {
		return info.ImageStates
	}
	s.images.remove(info.ImageStates)
	return s.images.add(node.Status.Images)
}

// reorder moves a node to its position in the order of nodes, after its zone may have changed.
func (s *Snapshot) reorder(slot Slot, n *node) {
	if s.tree.put(slot, n) {
		s.orderChanged()
	}
}

// countPods adds the pods of a node to the indexes over all nodes.
func (s *Snapshot) countPods(slot Slot) {
	for _, pod := range s.infos[slot].Pods {
		s.countPod(pod.GetPod(), 1)
	}
	s.signPods(slot)
	s.sortByPods(slot)
}

// uncountPods reverts countPods.
func (s *Snapshot) uncountPods(slot Slot) {
	for _, pod := range s.infos[slot].Pods {
		s.countPod(pod.GetPod(), -1)
	}
	s.unsignPods(slot)
	s.enter(slot, false, false)
}

// countPod adds a pod to the counts over all nodes if by is 1, and removes it if by is -1.
func (s *Snapshot) countPod(pod *corev1.Pod, by int) {
	s.pvcs.count(pod, by)
	addTo(s.priorities, corev1helpers.PodPriority(pod), by)
}

// sortByPods updates the slot's membership in the sets of nodes with affinity.
func (s *Snapshot) sortByPods(slot Slot) {
	info := s.infos[slot]
	s.enter(slot, len(info.PodsWithAffinity) > 0, len(info.PodsWithRequiredAntiAffinity) > 0)
}

func (s *Snapshot) enter(slot Slot, affinity, requiredAntiAffinity bool) {
	if s.withAffinity.set(slot, affinity) {
		s.listWithAffinity.Store(nil)
	}
	if s.withRequiredAntiAffinity.set(slot, requiredAntiAffinity) {
		s.listWithRequiredAntiAffinity.Store(nil)
	}
}

// replacePod replaces a PodInfo in all lists of a NodeInfo, and returns its index in Pods, -1 if it
// is not there.
func replacePod(info *schedframework.NodeInfo, old, pod *schedframework.PodInfo) int {
	for _, pods := range [...][]fwk.PodInfo{info.PodsWithAffinity, info.PodsWithRequiredAntiAffinity} {
		if i := slices.Index(pods, fwk.PodInfo(old)); i >= 0 {
			pods[i] = pod
		}
	}
	i := slices.Index(info.Pods, fwk.PodInfo(old))
	if i >= 0 {
		info.Pods[i] = pod
	}
	return i
}

// restorePorts adds the host ports again that other pods share with a removed pod. A NodeInfo does
// not count the users of a port, and frees it with the first one. Pods with the same port share a
// node if a pod is re-created before the deletion of the old one is seen, or if another component
// than a scheduler assigned them.
func restorePorts(info *schedframework.NodeInfo, removed *corev1.Pod) {
	if len(schedutil.GetHostPorts(removed)) == 0 {
		return
	}
	for _, pod := range info.Pods {
		for _, port := range schedutil.GetHostPorts(pod.GetPod()) {
			info.UsedPorts.Add(port.HostIP, string(port.Protocol), port.HostPort)
		}
	}
}
