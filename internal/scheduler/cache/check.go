// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// checkLocked compares a snapshot that has been refreshed with a recount of the cache.
func (c *Cache) checkLocked(s *Snapshot) error {
	shown, pods, assumed := 0, 0, 0
	for name, n := range c.nodes {
		pods += len(n.pods)
		slot, exists := s.slots[name]
		switch {
		case exists != (n.obj != nil), n.obj == nil && len(n.pods) == 0:
			return fmt.Errorf("node %s with %d pods: the snapshot shows it: %v", name, len(n.pods), exists)
		case !exists:
			continue
		}
		shown++
		if err := s.checkNode(n, slot); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
	}
	for _, p := range c.pods {
		if p.assumed {
			assumed++
		}
		if !slices.Contains(p.node.pods, p.info) {
			return fmt.Errorf("pod %s is not on node %s", p.info.Pod.UID, p.node.name)
		}
	}
	if shown != len(s.slots) || pods != len(c.pods) || assumed != c.assumed {
		return fmt.Errorf("%d nodes of %d, %d pods of %d, and %d assumed pods of %d", shown, len(s.slots), pods,
			len(c.pods), assumed, c.assumed)
	}
	return nil
}

// checkNode compares what the snapshot shows in a slot with a recount of the node's pods.
func (s *Snapshot) checkNode(n *node, slot Slot) error {
	info, ordered := s.infos[slot], s.source.feed.snapshot == s
	cpu, memory, affinity, antiAffinity := int64(0), int64(0), 0, 0
	for i, pod := range n.pods {
		if ordered && (i >= len(info.Pods) || info.Pods[i] != fwk.PodInfo(pod)) {
			return fmt.Errorf("pod %s is not in its place: the snapshot has %v, the cache %v", pod.Pod.UID,
				placesOf(info.Pods), placesOf(n.pods))
		}
		requested := pod.CalculateResource().Resource
		cpu, memory = cpu+requested.GetMilliCPU(), memory+requested.GetMemory()
		if a := pod.Pod.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
			affinity++
			if a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
				antiAffinity++
			}
		}
	}
	if info.Node() != n.obj || len(info.Pods) != len(n.pods) || info.Requested.MilliCPU != cpu ||
		info.Requested.Memory != memory ||
		len(info.PodsWithAffinity) != affinity || len(info.PodsWithRequiredAntiAffinity) != antiAffinity ||
		s.withAffinity.Has(slot) != (affinity > 0) || s.withRequiredAntiAffinity.Has(slot) != (antiAffinity > 0) {
		return fmt.Errorf("got %+v, want %d pods, %d with affinity and %d with required anti-affinity, and requests "+
			"of %dm and %d bytes",
			info, len(n.pods), affinity, antiAffinity, cpu, memory)
	}
	return nil
}

// placesOf names pods in their order, with the objects that stand for them: a newer object may have
// taken the place of one.
func placesOf[P fwk.PodInfo](pods []P) (places []string) {
	for _, pod := range pods {
		places = append(places, fmt.Sprintf("%s (%p)", pod.GetPod().Name, any(pod)))
	}
	return places
}
