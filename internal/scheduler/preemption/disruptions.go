// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	policylisters "k8s.io/client-go/listers/policy/v1"
)

// budgetLister lists disruption budgets. The plugin takes an empty selector for one that selects no
// pod. By policy/v1 it selects all pods of the namespace, so the budget gets another selector that
// does.
type budgetLister struct {
	policylisters.PodDisruptionBudgetLister
}

// everyPod selects all pods, as none has a label with this key.
var everyPod = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
	{Key: "livesched.io/no-pod-has-this-label", Operator: metav1.LabelSelectorOpDoesNotExist},
}}

// List lists budgets of all namespaces, sorted by name. Upstream stops at the first budget that a
// pod violates, and counts the pod only against the ones before it: the same budgets in another
// order may lead to other victims.
func (b budgetLister) List(selector labels.Selector) ([]*policyv1.PodDisruptionBudget, error) {
	budgets, err := b.PodDisruptionBudgetLister.List(selector)
	if err != nil {
		return nil, err
	}
	for i, budget := range budgets { // the list is the caller's, its objects are not
		if s := budget.Spec.Selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			changed := *budget
			changed.Spec.Selector = everyPod
			budgets[i] = &changed
		}
	}
	SortBudgets(budgets)
	return budgets, nil
}

// SortBudgets sorts disruption budgets by namespace and name.
func SortBudgets(budgets []*policyv1.PodDisruptionBudget) {
	slices.SortFunc(budgets, func(a, b *policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// disruptions are evictions that are planned but not begun, by the UIDs of the disruption budgets
// that they count against. The status of a budget does not show them.
type disruptions map[types.UID]int32

// add counts the eviction of pods.
func (d disruptions) add(pods []*corev1.Pod, budgets []*policyv1.PodDisruptionBudget) {
	for _, budget := range budgets {
		for range disruptedBy(budget, pods) {
			d[budget.UID]++
		}
	}
}

// disruptedBy returns the pods whose eviction counts against a budget.
func disruptedBy(budget *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (disrupted []*corev1.Pod) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil { // the API server refuses such a budget
		return nil
	}
	for _, pod := range pods {
		_, counted := budget.Status.DisruptedPods[pod.Name]
		if pod.Namespace == budget.Namespace && selector.Matches(labels.Set(pod.Labels)) && !counted {
			disrupted = append(disrupted, pod)
		}
	}
	return disrupted
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
