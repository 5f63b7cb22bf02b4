// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func disruptionBudget(namespace, name string, selector *metav1.LabelSelector, allowed int32,
) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		UID: types.UID(namespace + "/" + name)}}
	budget.Spec.Selector = selector
	budget.Status.DisruptionsAllowed = allowed
	budget.Status.DisruptedPods = map[string]metav1.Time{"disrupted": {}}
	return budget
}

func app(name string) *metav1.LabelSelector {
	return metav1.SetAsLabelSelector(map[string]string{"app": name})
}

// TestPlannedDisruptions compares, for pods of two namespaces, what counts against budgets with an
// empty selector, without one, and with another one.
func TestPlannedDisruptions(t *testing.T) {
	budgets := &Budgets{byNamespace: map[string][]*budget{}}
	all := disruptionBudget("ns", "all", &metav1.LabelSelector{}, 3)
	for _, b := range []*policyv1.PodDisruptionBudget{
		disruptionBudget("ns", "web", app("web"), 3), disruptionBudget("ns", "db", app("db"), 3), all,
		disruptionBudget("ns", "none", nil, 3), disruptionBudget("other", "db", app("db"), 3),
	} {
		budgets.OnAdd(b, true)
	}
	if len(all.Spec.Selector.MatchExpressions) > 0 {
		t.Error("an object of the informer was changed")
	}
	d := &disruptions{Budgets: budgets}
	pod := func(name, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			Labels: map[string]string{"app": app}}}
	}
	d.plan([]*corev1.Pod{pod("a", "db"), pod("b", "db"), pod("disrupted", "db"), pod("c", "web")})
	left := map[string]int32{}
	for _, namespace := range []string{"ns", "other"} {
		for _, b := range budgets.of(namespace) {
			left[string(b.object.UID)] = d.remaining(b).Status.DisruptionsAllowed
			if b.object.Status.DisruptionsAllowed != 3 {
				t.Errorf("%s was changed", b.object.UID)
			}
		}
	}
	if want := map[string]int32{"ns/all": 0, "ns/db": 1, "ns/web": 2, "other/db": 3}; !maps.Equal(left, want) {
		t.Errorf("left is %v, want %v", left, want)
	}
}

// A change matters only if upstream takes other pods for ones that violate the budget.
func TestChangesThatADryRunSees(t *testing.T) {
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for name, tt := range map[string]struct {
		pods          []string
		allowed       [2]int32
		disrupted     [2][]string
		wantDifferent bool
	}{
		"more than enough": {pods: []string{"a"}, allowed: [2]int32{1, 2}},
		"less than none":   {pods: []string{"a"}, allowed: [2]int32{0, -1}},
		"not enough":       {pods: []string{"a", "b"}, allowed: [2]int32{2, 1}, wantDifferent: true},
		"another pod":      {pods: []string{"a"}, disrupted: [2][]string{{"x"}, {"y"}}},
		"enough for one pod less": {
			pods: []string{"a"}, allowed: [2]int32{1, 0}, disrupted: [2][]string{nil, {"a"}},
		},
		"of two pods, one or the other": {
			pods: []string{"a", "b"}, disrupted: [2][]string{{"a"}, {"b"}}, wantDifferent: true,
		},
		"too many pods, one or no other": {pods: many, disrupted: [2][]string{{"0"}, {"64"}}, wantDifferent: true},
		"too many pods, none":            {pods: many},
	} {
		var states [2]*policyv1.PodDisruptionBudget
		for i := range states {
			states[i] = disruptionBudget("ns", "b", app("db"), tt.allowed[i])
			for _, pod := range tt.disrupted[i] {
				states[i].Status.DisruptedPods[pod] = metav1.Time{}
			}
		}
		read := budgetRead{pods: tt.pods, seen: see(states[0], tt.pods)}
		if got := read.differs(states[1]); got != tt.wantDifferent {
			t.Errorf("%s: differs: %v", name, got)
		}
	}
}

// An event that changes nothing for preemption is no change of a budget.
func TestChangesOfBudgets(t *testing.T) {
	budgets := &Budgets{byNamespace: map[string][]*budget{}}
	b := disruptionBudget("ns", "b", app("db"), 3)
	change := func(selects, allows bool, do func()) {
		t.Helper()
		_, pos, _ := budgets.since(0)
		do()
		changes, _, ok := budgets.since(pos)
		if !ok || len(changes) > 0 != (selects || allows) || len(changes) > 0 && changes[0].selects != selects {
			t.Errorf("the changes are %v", changes)
		}
	}
	update := func(modify func(*policyv1.PodDisruptionBudget)) func() {
		return func() {
			before := b
			b = b.DeepCopy()
			modify(b)
			budgets.OnUpdate(before, b)
		}
	}
	change(true, false, func() { budgets.OnAdd(b, true) })
	change(false, false, func() { budgets.OnUpdate(b, b.DeepCopy()) })
	change(false, false, update(func(b *policyv1.PodDisruptionBudget) {
		b.Labels = map[string]string{"a": "b"}
		b.Spec.MaxUnavailable = nil
		b.Status.CurrentHealthy, b.Status.DesiredHealthy, b.Status.ExpectedPods = 1, 2, 3
		b.Status.DisruptedPods["disrupted"] = metav1.Now()
	}))
	change(false, true, update(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 }))
	change(false, true, update(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptedPods = nil }))
	change(true, false, update(func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = app("web") }))
	change(true, false, update(func(b *policyv1.PodDisruptionBudget) { b.UID = "another" }))
	change(true, false, update(func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }))
	change(false, false, update(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 2 }))
	change(true, false, update(func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = app("web") }))
	change(true, false, func() { budgets.OnDelete(b) })
	change(false, false, func() { budgets.OnDelete(b) })
	if len(budgets.byNamespace) > 0 {
		t.Errorf("left are %v", budgets.byNamespace)
	}
	for i := range int32(2*maxBudgetChanges + 1) {
		budgets.OnAdd(disruptionBudget("ns", "b", app("db"), i), false)
	}
	if _, _, ok := budgets.since(1); ok {
		t.Error("all changes are kept")
	}
}

func TestBudgetsFollowTheAPIServer(t *testing.T) {
	p := newEnvironment(t)
	client := p.admin.PolicyV1().PodDisruptionBudgets(namespace)
	created, err := client.Create(p.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: app("db")},
	}, metav1.CreateOptions{})
	must(t, err)
	name := types.NamespacedName{Namespace: namespace, Name: created.Name}
	t.Cleanup(func() {
		must(t, client.Delete(context.Background(), name.Name, metav1.DeleteOptions{}))
		eventually(t, func() bool { return p.budgets.get(name) == nil }).Should(gomega.BeTrue())
	})
	eventually(t, func() bool { return p.budgets.get(name) != nil }).Should(gomega.BeTrue())
	created.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 2}
	_, err = client.UpdateStatus(p.ctx, created, metav1.UpdateOptions{})
	must(t, err)
	eventually(t, func() int32 { return p.budgets.get(name).object.Status.DisruptionsAllowed }).
		Should(gomega.Equal(int32(2)))
}
