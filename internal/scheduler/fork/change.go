// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fork

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// Snapshot returns the nodes and pods of the fork, with all changes. It is valid until the next
// change.
func (f *Fork) Snapshot() (*cache.Snapshot, error) {
	if err := f.refresh(); err != nil {
		return nil, err
	}
	return f.snapshot, nil
}

// Assumed returns the UIDs of the pods that are assumed: decided, but not yet bound.
func (f *Fork) Assumed() sets.Set[types.UID] { return f.cache.AssumedPods() }

// IsAssumed reports whether a pod is assumed: decided, but not yet bound.
func (f *Fork) IsAssumed(pod *corev1.Pod) bool {
	assumed, err := f.cache.IsAssumedPod(pod)
	return err == nil && assumed
}

// Pod returns the pod as it is on its node, or nil if it is on none.
func (f *Fork) Pod(pod *corev1.Pod) *corev1.Pod { return f.cache.PodOf(pod.UID) }

// SetNode adds a node, or replaces the one of the same name. Pods stay on it.
func (f *Fork) SetNode(node *corev1.Node) { f.cache.AddNode(f.logger, node) }

// AddNodeLike adds a node like another one, with copies of the pods that stay with it: each
// new node gets these from the start. All names begin with the prefix. remove takes back what was
// added, also after an error.
func (f *Fork) AddNodeLike(like fwk.NodeInfo, prefix string) (node *corev1.Node, remove func(), err error) {
	node = like.Node().DeepCopy()
	node.Name, node.UID = prefix+node.Name, types.UID(prefix+string(node.UID))
	if _, ok := node.Labels[corev1.LabelHostname]; ok {
		node.Labels[corev1.LabelHostname] = node.Name
	}
	f.SetNode(node)
	var added []*corev1.Pod
	remove = func() {
		for _, pod := range added {
			_ = f.RemovePod(pod) // it was added
		}
		_ = f.RemoveNode(node)
	}
	for _, info := range like.GetPods() {
		pod := info.GetPod()
		if !podfields.StaysWithNode(pod) {
			continue
		}
		pod = pod.DeepCopy()
		pod.Name, pod.UID, pod.Spec.NodeName = prefix+pod.Name, types.UID(prefix+string(pod.UID)), node.Name
		if err := f.SetPod(pod); err != nil {
			return node, remove, err
		}
		added = append(added, pod)
	}
	return node, remove, nil
}

// RemoveNode removes a node. Its pods come back with it.
func (f *Fork) RemoveNode(node *corev1.Node) error { return f.cache.RemoveNode(f.logger, node) }

// SetPod adds a pod to the node that its spec names, or replaces it.
func (f *Fork) SetPod(pod *corev1.Pod) error { return f.cache.AddPod(f.logger, pod) }

// RemovePod takes a pod off its node. Its volumes stay bound and its claims allocated, as they do
// when a pod has only just ended; see FreeDevices.
func (f *Fork) RemovePod(pod *corev1.Pod) error { return f.cache.RemovePod(f.logger, pod) }

// Empty takes all pods off all nodes, and all nominations from nodes, until restore is called.
// Meanwhile, the devices of claims that are reserved for pods are free.
func (f *Fork) Empty() (restore func(), err error) {
	nodes, err := f.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	full, empty := f.cache, cache.New()
	for _, node := range nodes {
		empty.AddNode(f.logger, node.Node())
	}
	allocateAgain, err := f.devices.Free(func(types.UID) bool { return true })
	if err != nil {
		return nil, err
	}
	nominateAgain := f.nominator.Suspend()
	f.cache = empty
	return func() {
		f.cache = full
		nominateAgain()
		allocateAgain()
	}, nil
}

// FreeDevices makes the devices of claims free that are reserved only for some of these pods, as
// they are some time after the pods have ended, until restore is called.
func (f *Fork) FreeDevices(pods []*corev1.Pod) (restore func(), err error) {
	if !slices.ContainsFunc(pods, usesDevices) {
		return func() {}, nil
	}
	ended := sets.New[types.UID]()
	for _, pod := range pods {
		ended.Insert(pod.UID)
	}
	return f.devices.Free(ended.Has)
}

// usesDevices reports whether devices may be reserved for a pod.
func usesDevices(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// SuspendNominations takes all nominations from nodes, until restore is called.
func (f *Fork) SuspendNominations() (restore func()) { return f.nominator.Suspend() }

// nominate nominates a pod to a node, if there is one.
func (f *Fork) nominate(pod *corev1.Pod, node string) {
	if node == "" {
		return
	}
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		f.logger.V(4).Info("Some of the pod's affinity terms are ignored", "err", err)
	}
	f.nominator.AddNominatedPod(f.logger, info,
		&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
}
