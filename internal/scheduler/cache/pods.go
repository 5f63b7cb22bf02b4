// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// ClassID identifies a class of pods: pods that are equal in everything that decides their
// placement and their effect on others, except labels that binding sets (SetByBinding). The fast
// path assigns the ids, and must not reuse one while the change log may still mention it. 0 means
// that the class is unknown.
type ClassID uint64

// Class holds what all pods of a class have in common.
type Class struct {
	ID ClassID
	// Like is the PodInfo of any pod of the class. Its terms, and its resources if they are
	// computed (CalculateResource), are copied. So it must belong to a pod of the same namespace
	// with the same requests and (anti-)affinity.
	Like *schedframework.PodInfo
}

// AssumePod adds a pod to the node that its spec names, before it is bound at the API server. The
// pod stays until it is confirmed (AddPod), forgotten or removed.
//
// The cache keeps the pod and the terms of info, but not info itself, and computes the pod's
// resources again, since a PodInfo from the queue may have those from before an update. The pod
// need not be a deep copy of the informer's object: a shallow copy with spec.nodeName set suffices,
// as nothing modifies the shared parts.
//
// AssumePod returns [ErrKnownPod] if the pod is in the cache, and [ErrIncompletePod] if it has no
// UID or no node.
func (c *Cache) AssumePod(_ klog.Logger, info fwk.PodInfo) error {
	return c.assume(info.GetPod(), info, Class{})
}

// AssumePodOfClass is AssumePod for a pod whose class is known. It need not compute the resources,
// and the change log names the class when the pod is added and, unless the pod has changed, when it
// is removed.
func (c *Cache) AssumePodOfClass(_ klog.Logger, pod *corev1.Pod, class Class) error {
	return c.assume(pod, nil, class)
}

// assumedInfo returns the PodInfo of a pod that is assumed. It is a copy of class.Like if the class
// is known, and has the terms of info otherwise.
func assumedInfo(pod *corev1.Pod, info fwk.PodInfo, class Class) *schedframework.PodInfo {
	var assumed schedframework.PodInfo
	if class.Like != nil {
		assumed = *class.Like
	} else {
		assumed.RequiredAffinityTerms, assumed.RequiredAntiAffinityTerms = info.GetRequiredAffinityTerms(),
			info.GetRequiredAntiAffinityTerms()
		assumed.PreferredAffinityTerms, assumed.PreferredAntiAffinityTerms = info.GetPreferredAffinityTerms(),
			info.GetPreferredAntiAffinityTerms()
	}
	assumed.Pod = pod
	// A PodInfo computes its resources on first use. That must happen before it is shared.
	assumed.CalculateResource()
	return &assumed
}

func (c *Cache) assume(pod *corev1.Pod, info fwk.PodInfo, class Class) error {
	if err := checkAssigned(pod); err != nil {
		return err
	}
	assumed := assumedInfo(pod, info, class)

	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.pods[pod.UID]; ok {
		return podError(ErrKnownPod, pod, "it cannot be assumed")
	}
	c.changes++
	c.addPodLocked(podState{info: assumed, class: class.ID, assumed: true})
	return nil
}

// ForgetPod removes an assumed pod from the node that its spec names. It does nothing if the pod is
// not in the cache, because it was deleted in the meantime. It returns [ErrNotAssumed], and the pod
// stays, if the API server has confirmed the pod or the pod is assumed on another node.
func (c *Cache) ForgetPod(_ klog.Logger, pod *corev1.Pod) error {
	if err := checkIdentity(pod); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	state, ok := c.pods[pod.UID]
	switch {
	case !ok:
		return nil
	case state.node.name != pod.Spec.NodeName:
		return podError(ErrNotAssumed, pod,
			fmt.Sprintf("it is on node %q, not on %q", state.node.name, pod.Spec.NodeName))
	case !state.assumed:
		return podError(ErrNotAssumed, pod, fmt.Sprintf("it was confirmed on node %q", state.node.name))
	}
	c.changes++
	c.removePodLocked(state)
	return nil
}

// AddPod adds an assigned pod from the API server. It confirms an assumed pod on the node that the
// API server reports, which may differ from the assumed one.
func (c *Cache) AddPod(logger klog.Logger, pod *corev1.Pod) error {
	return c.setPod(logger, pod)
}

// UpdatePod updates an assigned pod. Like AddPod it follows newPod: an assumed pod is confirmed, a
// pod on another node moves, an unknown pod is added. oldPod only serves to detect that newPod is
// another pod of the same name, which replaces it.
func (c *Cache) UpdatePod(logger klog.Logger, oldPod, newPod *corev1.Pod) error {
	if oldPod.UID != newPod.UID {
		c.mu.Lock()
		if state, ok := c.pods[oldPod.UID]; ok {
			c.changes++
			c.removePodLocked(state)
		}
		c.mu.Unlock()
	}
	return c.setPod(logger, newPod)
}

// setPod stores an assigned pod as the API server reports it.
func (c *Cache) setPod(logger klog.Logger, pod *corev1.Pod) error {
	if err := checkAssigned(pod); err != nil {
		return err
	}
	c.mu.RLock()
	known := c.pods[pod.UID]
	c.mu.RUnlock()
	// Parse and compare without the lock, on immutable objects.
	next, like := c.nextPodInfo(logger, known.info, pod)
	c.storePod(logger, pod, known, next, like)
	return nil
}

// storePod stores next, the PodInfo of pod. next and like were computed from known.
func (c *Cache) storePod(logger klog.Logger, pod *corev1.Pod, known podState, next *schedframework.PodInfo,
	like likeness) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.pods[pod.UID]; now.info != known.info {
		known = now // assumed, forgotten or updated in between
		next, like = c.nextPodInfo(logger, known.info, pod)
	}
	if known.info == nil || known.node.name != pod.Spec.NodeName || like == unlike || like == ofSameClass &&
		!known.assumed {
		c.changes++
	}
	switch {
	case known.info == nil:
		c.addPodLocked(podState{info: next})
	case known.node.name != pod.Spec.NodeName:
		logger.Info("Pod was reported on a different node", "pod", klog.KObj(pod), "assumed", known.assumed,
			"node", known.node.name, "currentNode", pod.Spec.NodeName)
		c.removePodLocked(known)
		c.addPodLocked(podState{info: next, class: classIf(like, known.class)})
	case like == same:
		c.replacePodLocked(known, next)
	default:
		c.removePodLocked(known)
		c.addPodLocked(podState{info: next, class: classIf(like, known.class)})
	}
}

// classIf returns class unless the pod has changed too much to still belong to it.
func classIf(like likeness, class ClassID) ClassID {
	if like == unlike {
		return 0
	}
	return class
}

// nextPodInfo returns the PodInfo of pod, and how much pod is like old to plugins.
func (c *Cache) nextPodInfo(logger klog.Logger, old *schedframework.PodInfo,
	pod *corev1.Pod) (*schedframework.PodInfo, likeness) {
	if old == nil {
		return c.newPodInfo(logger, pod), unlike
	}
	like := likenessOf(old.Pod, pod)
	if like == unlike ||
		!podfields.SameRequestInputs(old.Pod, pod) &&
			!sameResources(old.CalculateResource(), (&schedframework.PodInfo{Pod: pod}).CalculateResource()) {
		return c.newPodInfo(logger, pod), unlike
	}
	// All objects that a pod has in its life share one copy of terms and resources.
	copied := *old
	copied.Pod = pod
	return &copied, like
}

// newPodInfo parses a pod, unless a pod of its template is known. It leaves out terms that cannot
// be parsed, as kube-scheduler does: older API servers admitted terms that are invalid today.
func (c *Cache) newPodInfo(logger klog.Logger, pod *corev1.Pod) *schedframework.PodInfo {
	if info := c.podInfos.find(pod); info != nil {
		return info
	}
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		logger.V(2).Info("Some of the pod's affinity terms are ignored", "pod", klog.KObj(pod), "err", err)
	}
	info.CalculateResource()
	c.podInfos.learn(info)
	return info
}

// RemovePod removes a deleted pod, whether it was assumed or confirmed, from the node that it is
// on, even if the object is older and names another node or none. It returns [ErrUnknownPod] if the
// pod is not in the cache.
func (c *Cache) RemovePod(logger klog.Logger, pod *corev1.Pod) error {
	if err := checkIdentity(pod); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	state, ok := c.pods[pod.UID]
	if !ok {
		return podError(ErrUnknownPod, pod, "it cannot be removed")
	}
	if pod.Spec.NodeName != "" && state.node.name != pod.Spec.NodeName {
		logger.Info("Removed a pod from a different node than its object names", "pod", klog.KObj(pod),
			"node", state.node.name, "objectNode", pod.Spec.NodeName)
	}
	c.changes++
	c.removePodLocked(state)
	return nil
}

// IsAssumedPod reports whether a pod is assumed and not yet confirmed.
func (c *Cache) IsAssumedPod(pod *corev1.Pod) (bool, error) {
	if err := checkIdentity(pod); err != nil {
		return false, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.pods[pod.UID].assumed, nil
}

// classOf returns the class of a pod in the cache, or 0 if it is unknown.
func (c *Cache) classOf(pod *corev1.Pod) ClassID {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.pods[pod.UID].class
}

// PodOf is GetPod by the UID, and returns nil if the pod is not in the cache.
func (c *Cache) PodOf(uid types.UID) *corev1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if state, ok := c.pods[uid]; ok {
		return state.info.Pod
	}
	return nil
}

// AssumedPods returns the UIDs of the pods that are assumed and not yet confirmed.
func (c *Cache) AssumedPods() sets.Set[types.UID] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.assumedLocked()
}

func (c *Cache) assumedLocked() sets.Set[types.UID] {
	assumed := sets.New[types.UID]()
	if c.assumed == 0 {
		return assumed
	}
	for uid, state := range c.pods {
		if state.assumed {
			assumed.Insert(uid)
		}
	}
	return assumed
}

// GetPod returns the cache's object of a pod. The object of an assumed pod has its node set. The
// node may have been removed. GetPod returns [ErrUnknownPod] if the pod is not in the cache.
func (c *Cache) GetPod(pod *corev1.Pod) (*corev1.Pod, error) {
	if err := checkIdentity(pod); err != nil {
		return nil, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	state, ok := c.pods[pod.UID]
	if !ok {
		return nil, podError(ErrUnknownPod, pod, "")
	}
	return state.info.Pod, nil
}
