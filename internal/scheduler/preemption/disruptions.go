// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// disruptions are evictions that are planned but not begun, by the UIDs of the disruption budgets
// that they count against. The status of a budget does not show them.
type disruptions map[types.UID]int32

// add counts the eviction of pods.
func (d disruptions) add(pods []*corev1.Pod, budgets []*policyv1.PodDisruptionBudget) {
	for _, budget := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || selector.Empty() { // as upstream reads it, such a budget is about no pod
			continue
		}
		for _, pod := range pods {
			_, disrupted := budget.Status.DisruptedPods[pod.Name]
			if pod.Namespace == budget.Namespace && selector.Matches(labels.Set(pod.Labels)) && !disrupted {
				d[budget.UID]++
			}
		}
	}
}

// remaining returns budgets that allow what the evictions leave of them.
func (d disruptions) remaining(budgets []*policyv1.PodDisruptionBudget) []*policyv1.PodDisruptionBudget {
	if len(d) == 0 {
		return budgets
	}
	left := slices.Clone(budgets)
	for i, budget := range left {
		if n := d[budget.UID]; n > 0 {
			changed := *budget // shallow: nothing below its status is changed
			changed.Status.DisruptionsAllowed -= n
			changed.ResourceVersion += fmt.Sprintf("-%d", n) // another version to budgetsSum
			left[i] = &changed
		}
	}
	return left
}
