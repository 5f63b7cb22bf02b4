// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changeBudgets creates, changes or deletes a PodDisruptionBudget.
func (w *World) changeBudgets(r *rand.Rand) {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("budget-%d", r.IntN(4))}}
	known := w.cluster.budgets["/registry/poddisruptionbudgets/"+budget.Namespace+"/"+budget.Name]
	if known != nil && r.IntN(3) == 0 {
		w.log.add("delete budget %s", budget.Name)
		w.must(w.cluster.objects.Delete(w.ctx, budget))
		return
	}
	if known != nil {
		budget = known.DeepCopy()
	}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}
	if app := one(r, []string{"", "a", "b", "c"}); app != "" {
		budget.Spec.Selector.MatchLabels = map[string]string{"app": app}
	}
	if n := intstr.FromInt32(int32(r.IntN(4))); r.IntN(2) == 0 {
		budget.Spec.MinAvailable = &n
	} else {
		budget.Spec.MaxUnavailable = &n
	}
	w.log.add("budget %s", budget.Name)
	if known != nil {
		w.must(w.cluster.objects.Update(w.ctx, budget))
		return
	}
	w.must(w.cluster.objects.Create(w.ctx, budget))
}

// disruption is what the disruption controller has to do: the budgets whose status is due.
type disruption struct{ due map[types.NamespacedName]bool }

// budgetChanged lets the disruption controller see a change of a budget.
func (w *World) budgetChanged(before, after *policyv1.PodDisruptionBudget) {
	if after != nil && (before == nil || before.Generation != after.Generation) {
		w.checkBudget(after)
	}
}

// checkBudgets lets the disruption controller see a change of a pod.
func (w *World) checkBudgets(pod *corev1.Pod) {
	for _, budget := range sorted(w.cluster.budgets) {
		if budget.Namespace == pod.Namespace && selects(budget.Spec.Selector, pod.Labels) {
			w.checkBudget(budget)
		}
	}
}

func selects(selector *metav1.LabelSelector, of map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(of))
}

// checkBudget writes the status of a budget after some time.
func (w *World) checkBudget(budget *policyv1.PodDisruptionBudget) {
	key := client.ObjectKeyFromObject(budget)
	due := w.cluster.disruption.due
	if due[key] {
		return
	}
	due[key] = true
	w.after(w.kubeletDelay(), func() {
		delete(due, key)
		if now := w.cluster.budgets["/registry/poddisruptionbudgets/"+key.String()]; now != nil {
			w.writeBudget(now.DeepCopy())
		}
	})
}

// writeBudget writes the status of a budget, as the disruption controller does.
func (w *World) writeBudget(budget *policyv1.PodDisruptionBudget) {
	var expected, healthy int32
	for _, pod := range w.cluster.pods {
		if pod.Namespace != budget.Namespace || !selects(budget.Spec.Selector, pod.Labels) {
			continue
		}
		expected++
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			healthy++
		}
	}
	desired := expected - ptr.Deref(budget.Spec.MaxUnavailable, intstr.IntOrString{}).IntVal
	if budget.Spec.MinAvailable != nil {
		desired = budget.Spec.MinAvailable.IntVal
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation,
		ExpectedPods: expected, CurrentHealthy: healthy, DesiredHealthy: max(0, desired),
		DisruptionsAllowed: max(0, healthy-max(0, desired))}
	w.must(w.cluster.objects.Status().Update(w.ctx, budget))
}
