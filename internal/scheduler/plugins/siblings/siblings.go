// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package siblings has the common parts of the plugins that spread a pod's siblings: the pods of
// its namespace that a selector selects. PreScore determines the selector, and Score counts the
// siblings node by node.
package siblings

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
)

type state struct{ labels.Selector }

// Clone implements fwk.StateData. Selectors are immutable.
func (s state) Clone() fwk.StateData { return s }

// Remember stores the selector of a pod's siblings for Count.
func Remember(cycle fwk.CycleState, key fwk.StateKey, selector labels.Selector) {
	cycle.Write(key, state{selector})
}

// Count returns the number of siblings on a node, without terminating ones.
func Count(cycle fwk.CycleState, key fwk.StateKey, pod *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := cycle.Read(key)
	if err != nil {
		return 0, fwk.AsStatus(fmt.Errorf("reading %q from the cycle state: %w", key, err))
	}
	selector, ok := data.(state)
	if !ok {
		return 0, fwk.AsStatus(fmt.Errorf("the cycle state has a %T for %q", data, key))
	}
	var count int64
	for _, info := range nodeInfo.GetPods() {
		other := info.GetPod()
		if other.Namespace == pod.Namespace && other.DeletionTimestamp == nil &&
			selector.Matches(labels.Set(other.Labels)) {
			count++
		}
	}
	return count, nil
}

// Score returns the score of a node or zone with count siblings: the maximum if there are none,
// down to 0 for most siblings.
func Score(count, most int64) float64 {
	if most == 0 {
		return float64(fwk.MaxScore)
	}
	return float64(fwk.MaxScore) * (float64(most-count) / float64(most))
}
