// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/livesched/livesched/internal/mapkey"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// nodeRelabeled is the event that may help a group whose pods must share the value of a label.
var nodeRelabeled = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}

// relabelHint returns the hint of podgroup.TopologyGate: a node that gets another value of the
// label which a group requires may make one of its domains large enough. That the node loses the
// label may help, too: it may have been the one that held the group to a domain without room.
func relabelHint(groups *podgroup.Registry) fwk.QueueingHintFn {
	return func(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		oldNode, newNode, err := schedutil.As[*corev1.Node](oldObj, newObj)
		if err != nil {
			return fwk.Queue, err
		}
		if oldNode == nil || newNode == nil {
			return fwk.Queue, nil // the event does not say what has changed
		}
		if groups.RequiredTopologyChanged(podgroup.KeyOf(pod), oldNode.Labels, newNode.Labels) {
			return fwk.Queue, nil
		}
		return fwk.QueueSkip, nil
	}
}

// relabelKey is the HintKey of relabelHint: all pods are alike, unless the label that a group
// requires changes.
func relabelKey(groups *podgroup.Registry) HintKey {
	return HintKey{
		Write: func(*mapkey.Writer, *corev1.Pod) bool { return true },
		Differs: func(oldObj, newObj any) bool {
			oldNode, wasNode := oldObj.(*corev1.Node)
			newNode, isNode := newObj.(*corev1.Node)
			return wasNode && isNode && groups.AnyRequiredTopologyChanged(oldNode.Labels, newNode.Labels)
		},
	}
}
