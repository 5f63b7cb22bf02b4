// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	policylisters "k8s.io/client-go/listers/policy/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// TestABudgetWithAnEmptySelectorIsAboutAllPods compares, for pods of two namespaces, what counts
// against budgets with an empty selector, without one, and with another one.
func TestABudgetWithAnEmptySelectorIsAboutAllPods(t *testing.T) {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	for name, selector := range map[string]*metav1.LabelSelector{
		"all": {}, "none": nil, "db": metav1.SetAsLabelSelector(map[string]string{"app": "db"}),
	} {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			UID: types.UID(name)}}
		budget.Spec.Selector = selector
		if err := indexer.Add(budget); err != nil {
			t.Fatal(err)
		}
	}
	budgets, err := budgetLister{policylisters.NewPodDisruptionBudgetLister(indexer)}.List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	if names := []string{budgets[0].Name, budgets[1].Name, budgets[2].Name}; !slices.IsSorted(names) {
		t.Errorf("the budgets are not sorted: %v", names)
	}
	d := disruptions{}
	d.add([]*corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "db"}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "web"}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Labels: map[string]string{"app": "db"}}},
	}, budgets)
	if want := (disruptions{"all": 2, "db": 1}); !maps.Equal(d, want) {
		t.Errorf("got %v, want %v", d, want)
	}
	for _, budget := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || budget.Name != "none" && selector.Empty() {
			t.Errorf("the plugin ignores the budget %s: %v", budget.Name, err)
		}
		if stored, _, _ := indexer.GetByKey("ns/all"); stored.(*policyv1.PodDisruptionBudget).
			Spec.Selector == everyPod {
			t.Error("an object of the informer was changed")
		}
	}
}

func TestDisruptions(t *testing.T) {
	budget := func(namespace, name, app string, allowed int32) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			UID: types.UID(namespace + name), ResourceVersion: "1"}}
		b.Status.DisruptionsAllowed = allowed
		b.Status.DisruptedPods = map[string]metav1.Time{"disrupted": {}}
		if app != "" {
			b.Spec.Selector = metav1.SetAsLabelSelector(map[string]string{"app": app})
		}
		return b
	}
	pod := func(name, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			Labels: map[string]string{"app": app}}}
	}
	budgets := []*policyv1.PodDisruptionBudget{
		budget("ns", "db", "db", 3), budget("ns", "web", "web", 3), budget("ns", "none", "", 3),
		budget("other", "db", "db", 3),
	}
	d := disruptions{}
	if got := d.remaining(budgets); &got[0] != &budgets[0] {
		t.Error("budgets are copied although nothing counts against them")
	}
	d.add([]*corev1.Pod{pod("a", "db"), pod("b", "db"), pod("disrupted", "db"), pod("c", "web")}, budgets)
	for i, want := range []int32{1, 2, 3, 3} {
		got := d.remaining(budgets)[i]
		if got.Status.DisruptionsAllowed != want {
			t.Errorf("%s/%s allows %d, want %d", got.Namespace, got.Name, got.Status.DisruptionsAllowed, want)
		}
		if budgets[i].Status.DisruptionsAllowed != 3 {
			t.Errorf("%s/%s was changed", got.Namespace, got.Name)
		}
	}
	if budgetsSum(d.remaining(budgets)) == budgetsSum(budgets) {
		t.Error("dry runs with other budgets would be used again")
	}
}
