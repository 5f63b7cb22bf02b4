// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/changelog"
)

// Nominator holds the nominated nodes of pods. Preemption nominates a node when it makes room
// there; other components may write one into the pod's status. Pods of lower or equal priority are
// scheduled as if nominated pods were running on their nodes.
//
// A nomination may be newer than the pod's status, which is patched later. That is why there are
// rules against staleness (pkg/scheduler/backend/queue/nominator.go upstream): an update of the pod
// that does not change the node in its status does not touch a nomination made in memory, nor does
// one to the node of an earlier nomination; any other replaces it. Upstream keeps such a nomination
// only while the status names no node at all. A pod is not nominated if it is terminating, since it
// is not scheduled any more, or if the informer cache does not have it, has another pod of that
// name, or has it as assigned.
//
// All methods are safe for concurrent use. NominatedPodsForNode is called per node and pod, from
// many goroutines: it takes no lock while nothing is nominated, and never the queue's.
//
// Methods that need Queue.mu end in QueueLocked; they take mu themselves. Methods that need mu end
// in Locked.
type Nominator struct {
	// queue is Queue.mu. AddNominatedPod and UpdateNominatedPod take it before mu, since their
	// PodInfo may be a queued one, which the queue writes to.
	queue sync.Locker
	// pods reads the informer cache. nil disables the check.
	pods corev1listers.PodLister

	mu sync.RWMutex // guards the fields below
	// byNode lists the nominations of each node in the order in which they were made. changed holds
	// the number of the last change of each list; last is the latest number. Numbers are never
	// reused.
	byNode  map[string][]*nomination
	changed map[string]uint64
	last    uint64
	byPod   map[types.UID]*nomination
	// log lists the nodes whose lists have changed.
	log changelog.Log[string]
	// served holds the scheduler names that have a profile. Pods of other names are not nominated.
	served sets.Set[string]

	// size is len(byPod). Written under mu, read without.
	size atomic.Int64
}

// nomination is a pod and its nominated node. It is immutable.
type nomination struct {
	node string
	// earlier are the nodes of the nominations that this one replaced before the pod's status named
	// them, in order. The status may still come to name them, each once.
	earlier []string
	// info belongs to the nomination. Its resources are computed, so that copies of it are cheap to
	// add to a node.
	info *schedframework.PodInfo
}

var _ fwk.PodNominator = &Nominator{}

func newNominator(queue sync.Locker, pods corev1listers.PodLister) *Nominator {
	return &Nominator{
		queue: queue, pods: pods,
		byNode: map[string][]*nomination{}, changed: map[string]uint64{}, byPod: map[types.UID]*nomination{},
	}
}

// AddNominatedPod nominates the pod for the node in nominating, which may be empty, or for the node
// in the pod's status if nominating is nil. It replaces an earlier nomination.
func (n *Nominator) AddNominatedPod(logger klog.Logger, pod fwk.PodInfo, nominating *fwk.NominatingInfo) {
	n.queue.Lock()
	defer n.queue.Unlock()
	n.addQueueLocked(logger, pod, nominating)
}

// UpdateNominatedPod records a new version of a pod.
func (n *Nominator) UpdateNominatedPod(logger klog.Logger, oldPod *corev1.Pod, newPod fwk.PodInfo) {
	n.queue.Lock()
	defer n.queue.Unlock()
	n.updateQueueLocked(logger, oldPod, newPod)
}

// DeleteNominatedPodIfExists removes the pod's nomination, if it has one.
func (n *Nominator) DeleteNominatedPodIfExists(pod *corev1.Pod) {
	if n.size.Load() == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.countLocked()
	n.removeLocked(pod.UID)
}

// Empty reports whether no pod is nominated.
func (n *Nominator) Empty() bool { return n.size.Load() == 0 }

// NodeOf returns the node for which a pod is nominated, "" if it is not.
func (n *Nominator) NodeOf(pod types.UID) string {
	if n.Empty() {
		return ""
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if nm := n.byPod[pod]; nm != nil {
		return nm.node
	}
	return ""
}

// NominatedPodsForNode returns the pods nominated for the node. The caller owns the list and the
// PodInfos, but must not modify the pods.
func (n *Nominator) NominatedPodsForNode(nodeName string) []fwk.PodInfo {
	if n.size.Load() == 0 {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	nominated := n.byNode[nodeName]
	if len(nominated) == 0 {
		return nil
	}
	pods := make([]fwk.PodInfo, len(nominated))
	for i, nm := range nominated {
		info := *nm.info
		pods[i] = &info
	}
	return pods
}

// addQueueLocked is AddNominatedPod for callers that hold Queue.mu.
func (n *Nominator) addQueueLocked(logger klog.Logger, info fwk.PodInfo, nominating *fwk.NominatingInfo) {
	pod := info.GetPod()
	node := pod.Status.NominatedNodeName
	if nominating.Mode() == fwk.ModeOverride {
		node = nominating.NominatedNodeName
	}
	if node == "" {
		n.DeleteNominatedPodIfExists(pod)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.countLocked()
	var earlier []string
	if nominating.Mode() == fwk.ModeOverride {
		earlier = n.unseenLocked(pod, node)
	}
	n.putLocked(logger, info, node, earlier)
}

// unseenLocked returns the nodes that the status of a pod may come to name before it names the node
// for which the pod is to be nominated.
func (n *Nominator) unseenLocked(pod *corev1.Pod, node string) []string {
	known := n.byPod[pod.UID]
	switch {
	case known == nil || known.node == pod.Status.NominatedNodeName:
		return nil
	case known.node == node:
		return known.earlier
	}
	earlier := slices.DeleteFunc(slices.Clone(known.earlier), func(other string) bool { return other == known.node })
	return append(earlier, known.node)
}

// updateQueueLocked is UpdateNominatedPod for callers that hold Queue.mu.
func (n *Nominator) updateQueueLocked(logger klog.Logger, oldPod *corev1.Pod, info fwk.PodInfo) {
	node := info.GetPod().Status.NominatedNodeName
	if node == "" && n.size.Load() == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.countLocked()
	var earlier []string
	if known := n.byPod[oldPod.UID]; known != nil {
		// The update may be older than the status patch of a nomination made in memory.
		switch reached := slices.Index(known.earlier, node); {
		case node == oldPod.Status.NominatedNodeName:
			node, earlier = known.node, known.earlier
		case reached >= 0:
			node, earlier = known.node, known.earlier[reached+1:]
		}
	}
	n.removeLocked(oldPod.UID)
	n.putLocked(logger, info, node, earlier)
}

// refreshQueueLocked replaces the pod of a nomination by a newer version and keeps the node.
func (n *Nominator) refreshQueueLocked(logger klog.Logger, info *schedframework.PodInfo) {
	if n.size.Load() == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.countLocked()
	if known := n.byPod[info.Pod.UID]; known != nil {
		n.putLocked(logger, info, known.node, known.earlier)
	}
}

// putLocked nominates the pod in place of an earlier nomination, if the pod may be nominated.
func (n *Nominator) putLocked(logger klog.Logger, info fwk.PodInfo, node string, earlier []string) {
	pod := info.GetPod()
	n.removeLocked(pod.UID)
	if node == "" || pod.DeletionTimestamp != nil || !n.served.Has(pod.Spec.SchedulerName) {
		return
	}
	if reason := gone(n.pods, pod); reason != "" {
		logger.V(4).Info("The pod is not nominated", "pod", klog.KObj(pod), "node", node, "reason", reason)
		return
	}
	own := &schedframework.PodInfo{
		Pod:                        pod,
		RequiredAffinityTerms:      info.GetRequiredAffinityTerms(),
		RequiredAntiAffinityTerms:  info.GetRequiredAntiAffinityTerms(),
		PreferredAffinityTerms:     info.GetPreferredAffinityTerms(),
		PreferredAntiAffinityTerms: info.GetPreferredAntiAffinityTerms(),
	}
	own.CalculateResource()
	nm := &nomination{node: node, earlier: earlier, info: own}
	n.byPod[pod.UID] = nm
	n.setNodeLocked(node, append(n.byNode[node], nm))
}

// countLocked sets size at the end of a change. Until then, readers without the lock see the number
// before it: a pod whose nomination is replaced is nominated all the time.
func (n *Nominator) countLocked() { n.size.Store(int64(len(n.byPod))) }

// removeLocked removes the pod's nomination, if it has one.
func (n *Nominator) removeLocked(uid types.UID) {
	nm := n.byPod[uid]
	if nm == nil {
		return
	}
	delete(n.byPod, uid)
	n.setNodeLocked(nm.node, slices.DeleteFunc(n.byNode[nm.node], func(other *nomination) bool { return other == nm }))
}

// setNodeLocked sets the nominations of a node.
func (n *Nominator) setNodeLocked(node string, nominated []*nomination) {
	n.log.Add(node, maxNominationLog)
	if len(nominated) == 0 {
		delete(n.byNode, node)
		delete(n.changed, node)
		return
	}
	n.last++
	n.byNode[node], n.changed[node] = nominated, n.last
}

// serveQueueLocked sets the scheduler names that have a profile. It removes the nominations of pods
// of all other names and returns them.
func (n *Nominator) serveQueueLocked(names sets.Set[string]) (ended []*nomination) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.countLocked()
	n.served = names
	for uid, nm := range n.byPod {
		if !names.Has(nm.info.Pod.Spec.SchedulerName) {
			n.removeLocked(uid)
			ended = append(ended, nm)
		}
	}
	return ended
}

// nominated returns the pod with the nominated node in its status, where it may not be written yet.
func (n *nomination) nominated() *corev1.Pod {
	pod := *n.info.Pod
	pod.Status.NominatedNodeName = n.node
	return &pod
}
