// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// ClassID names a class of pods: those that are equal in all that decides where they go and what
// they mean for others, but for labels that binding sets (SetByBinding). Whoever makes classes
// gives out the ids, and must not give one to another class while the change log may still mention
// it. 0 is no class: nothing is known of the pod.
type ClassID uint32

// Class is what the pods of one class have in common.
type Class struct {
	ID ClassID
	// Like is the PodInfo of any pod of the class. Its terms, and its resources if it has worked
	// them out (CalculateResource), are taken over. So it must be of a pod of the same namespace
	// with the same requests and (anti-)affinity.
	Like *schedframework.PodInfo
}

// AssumePod counts a pod towards the node that its spec names, before the API server knows. It
// stays until it is confirmed (AddPod), forgotten or removed.
//
// The cache keeps the pod and the terms of info, but not info itself, and works out the pod's
// resources anew, since a PodInfo that was in the queue may remember those of before an update. The
// pod need not be a deep copy of the informer's object: a copy of the struct with spec.nodeName set
// will do, as nobody writes to what they share.
//
// It is an [ErrKnownPod] if the pod is in the cache, and an [ErrIncompletePod] if it has no UID or
// no node.
func (c *Cache) AssumePod(_ klog.Logger, info fwk.PodInfo) error {
	return c.assume(&schedframework.PodInfo{
		Pod:                        info.GetPod(),
		RequiredAffinityTerms:      info.GetRequiredAffinityTerms(),
		RequiredAntiAffinityTerms:  info.GetRequiredAntiAffinityTerms(),
		PreferredAffinityTerms:     info.GetPreferredAffinityTerms(),
		PreferredAntiAffinityTerms: info.GetPreferredAntiAffinityTerms(),
	}, 0)
}

// AssumePodOfClass is AssumePod for a pod whose class is known. It saves working out the resources,
// and the change log names the class when the pod comes and, unless it was changed by then, when it
// goes.
func (c *Cache) AssumePodOfClass(_ klog.Logger, pod *corev1.Pod, class Class) error {
	info := *class.Like
	info.Pod = pod
	return c.assume(&info, class.ID)
}

func (c *Cache) assume(info *schedframework.PodInfo, class ClassID) error {
	pod := info.Pod
	if err := checkAssigned(pod); err != nil {
		return err
	}
	// A PodInfo works out its resources when first asked. Nobody may find it doing so once it is
	// shared.
	info.CalculateResource()

	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.pods[pod.UID]; ok {
		return podError(ErrKnownPod, pod, "it cannot be assumed")
	}
	c.placeLocked(podState{info: info, class: class, assumed: true})
	return nil
}

// ForgetPod takes back the assumption of a pod on the node that its spec names. A pod that is not
// in the cache, since it was deleted meanwhile, is forgotten already. One that the API server has
// confirmed, or that is assumed on another node, is an [ErrNotAssumed] and stays.
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
		return podError(ErrNotAssumed, pod, fmt.Sprintf("it is on node %q, not on %q", state.node.name, pod.Spec.NodeName))
	case !state.assumed:
		return podError(ErrNotAssumed, pod, fmt.Sprintf("it was confirmed on node %q", state.node.name))
	}
	c.takeLocked(state)
	return nil
}

// AddPod reports an assigned pod that the API server has. It confirms an assumed pod, on the node
// that the API server says, which may be another than it was assumed on.
func (c *Cache) AddPod(logger klog.Logger, pod *corev1.Pod) error {
	return c.observe(logger, pod)
}

// UpdatePod reports that an assigned pod was changed. Like AddPod it goes by what newPod says: a
// pod that was assumed is confirmed, one on another node moves, one that the cache does not know is
// added. oldPod is looked at only to tell whether newPod is another pod of the same name, which
// takes its place.
func (c *Cache) UpdatePod(logger klog.Logger, oldPod, newPod *corev1.Pod) error {
	if oldPod.UID != newPod.UID {
		c.mu.Lock()
		if state, ok := c.pods[oldPod.UID]; ok {
			c.takeLocked(state)
		}
		c.mu.Unlock()
	}
	return c.observe(logger, newPod)
}

// observe takes an assigned pod for what the API server says of it.
func (c *Cache) observe(logger klog.Logger, pod *corev1.Pod) error {
	if err := checkAssigned(pod); err != nil {
		return err
	}
	c.mu.RLock()
	known := c.pods[pod.UID]
	c.mu.RUnlock()
	// Parsing and comparing happen outside the lock, on immutable objects.
	next, like := c.succeed(logger, known.info, pod)
	c.admitPod(logger, pod, known, next, like)
	return nil
}

// admitPod puts next, the PodInfo of pod, where it belongs. known is what next and like were made
// from.
func (c *Cache) admitPod(logger klog.Logger, pod *corev1.Pod, known podState, next *schedframework.PodInfo, like likeness) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.pods[pod.UID]; now.info != known.info {
		known = now // assumed, forgotten or updated in between
		next, like = c.succeed(logger, known.info, pod)
	}
	switch {
	case known.info == nil:
		c.placeLocked(podState{info: next})
	case known.node.name != pod.Spec.NodeName:
		logger.Info("Pod turned up on another node than it was on", "pod", klog.KObj(pod), "assumed", known.assumed,
			"node", known.node.name, "currentNode", pod.Spec.NodeName)
		c.takeLocked(known)
		c.placeLocked(podState{info: next, class: classIf(like, known.class)})
	case like == same:
		c.replaceLocked(known, next)
	default:
		c.takeLocked(known)
		c.placeLocked(podState{info: next, class: classIf(like, known.class)})
	}
}

// classIf keeps the class of a pod that is still what it was when it got it.
func classIf(like likeness, class ClassID) ClassID {
	if like == unlike {
		return 0
	}
	return class
}

// succeed returns the PodInfo of pod and how much like old it is to every plugin.
func (c *Cache) succeed(logger klog.Logger, old *schedframework.PodInfo, pod *corev1.Pod) (*schedframework.PodInfo, likeness) {
	if old == nil {
		return c.newPodInfo(logger, pod), unlike
	}
	like := likenessOf(old.Pod, pod)
	if like == unlike ||
		!sameRequestInputs(old.Pod, pod) && !sameResources(old.CalculateResource(), (&schedframework.PodInfo{Pod: pod}).CalculateResource()) {
		return c.newPodInfo(logger, pod), unlike
	}
	// Terms and resources are shared, of which there is one copy for all the objects that a pod has
	// in its life.
	copied := *old
	copied.Pod = pod
	return &copied, like
}

// newPodInfo parses a pod, unless one like it is known. Terms that do not parse are left out, as
// kube-scheduler does: the API server lets some through that it would refuse today.
func (c *Cache) newPodInfo(logger klog.Logger, pod *corev1.Pod) *schedframework.PodInfo {
	if info := c.alike.find(pod); info != nil {
		return info
	}
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		logger.V(2).Info("Some of the pod's affinity terms are ignored", "pod", klog.KObj(pod), "err", err)
	}
	info.CalculateResource()
	c.alike.learn(info)
	return info
}

// RemovePod reports that a pod is gone, whether it was assumed or confirmed. It is taken off the
// node it is on, even if the object, being older, names another or none. It is an [ErrUnknownPod]
// if the pod is not in the cache.
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
		logger.Info("Pod removed from another node than its object says", "pod", klog.KObj(pod),
			"node", state.node.name, "objectNode", pod.Spec.NodeName)
	}
	c.takeLocked(state)
	return nil
}

// IsAssumedPod says whether a pod is assumed and not yet confirmed.
func (c *Cache) IsAssumedPod(pod *corev1.Pod) (bool, error) {
	if err := checkIdentity(pod); err != nil {
		return false, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.pods[pod.UID].assumed, nil
}

// GetPod returns the cache's object of a pod, which for an assumed one has its node set. The node
// may be gone. It is an [ErrUnknownPod] if the pod is not in the cache.
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
