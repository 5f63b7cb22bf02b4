// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"
)

// TestTwinsAreSharedByPodsWithEqualConstraints edits a pod, or its constraint, and checks whether
// that requires another twin.
func TestTwinsAreSharedByPodsWithEqualConstraints(t *testing.T) {
	constraint := func(edit func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { edit(&p.Spec.TopologySpreadConstraints[0]) }
	}
	expression := func(operator metav1.LabelSelectorOperator, values ...string) func(*corev1.Pod) {
		return constraint(func(c *corev1.TopologySpreadConstraint) {
			c.LabelSelector = &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: operator, Values: values}}}
		})
	}
	for name, test := range map[string]struct {
		edit  func(*corev1.Pod)
		equal bool
	}{
		"another name":                           {func(p *corev1.Pod) { p.Name = "other" }, true},
		"a label that no constraint mentions":    {func(p *corev1.Pod) { p.Labels["version"] = "2" }, true},
		"the same selector, written differently": {expression(metav1.LabelSelectorOpIn, "web"), false},
		"another namespace":                      {func(p *corev1.Pod) { p.Namespace = "green" }, false},
		"a pod that is not selected itself":      {func(p *corev1.Pod) { p.Labels["app"] = "db" }, false},
		"another key": {
			constraint(func(c *corev1.TopologySpreadConstraint) { c.TopologyKey = hostname }), false},
		"another skew": {constraint(func(c *corev1.TopologySpreadConstraint) { c.MaxSkew = 2 }),
			false},
		"a minimum of domains": {
			constraint(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = ptr.To[int32](2) }), false},
		"a preference instead of a rule": {
			constraint(func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway }),
			false},
		"nodes that it cannot select": {constraint(func(c *corev1.TopologySpreadConstraint) {
			c.NodeAffinityPolicy = ptr.To(corev1.NodeInclusionPolicyIgnore)
		}), false},
		"no nodes with taints": {constraint(func(c *corev1.TopologySpreadConstraint) {
			c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor)
		}), false},
		"another selector": {
			constraint(func(c *corev1.TopologySpreadConstraint) { c.LabelSelector = app("db") }), false},
		"a selector of more values": {expression(metav1.LabelSelectorOpIn, "web", "db"), false},
		"a selector of the others":  {expression(metav1.LabelSelectorOpNotIn, "web"), false},
		"a selector of nothing": {constraint(func(c *corev1.TopologySpreadConstraint) { c.LabelSelector = nil }),
			false},
		"a label that is matched": {func(p *corev1.Pod) {
			p.Labels["version"] = "2"
			p.Spec.TopologySpreadConstraints[0].MatchLabelKeys = []string{"version"}
		}, false},
		"one constraint more": {spreadOver(hostname, app("web")), false},
		"default constraints": {func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, sources := three(t)
			key := func(edits ...func(*corev1.Pod)) string {
				constraints, err := sources.SpreadConstraints(system,
					web(append([]func(*corev1.Pod){spreadOver(zone, app("web"))}, edits...)...))
				if err != nil {
					t.Fatal(err)
				}
				return constraints.Key()
			}
			if equal := key() == key(test.edit); equal != test.equal {
				t.Errorf("equal: %v", equal)
			}
		})
	}
}

func TestSystemDefaultConstraintsDifferFromEqualOnesOfAProfile(t *testing.T) {
	c, sources := three(t)
	c.store(c.factory.Core().V1().Services().Informer().GetIndexer(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "s"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	})
	list := &schedconfig.PodTopologySpreadArgs{DefaultingType: schedconfig.ListDefaulting,
		DefaultConstraints: systemDefaults}
	of := func(args *schedconfig.PodTopologySpreadArgs, edits ...func(*corev1.Pod)) string {
		constraints, err := sources.SpreadConstraints(args, web(edits...))
		if err != nil {
			t.Fatal(err)
		}
		return constraints.Key()
	}
	if of(system) == of(list) {
		t.Error("nodes without the labels are scored by one of them alone, and yet they are equal")
	}
	if of(system) != of(system, func(p *corev1.Pod) { p.Labels["version"] = "2" }) {
		t.Error("pods of one service have different ones")
	}
}

// TestSelectorsAreDistinguished compares selectors, none of which selects the pod itself.
func TestSelectorsAreDistinguished(t *testing.T) {
	_, sources := three(t)
	seen := map[string]int{}
	for i, selector := range []*metav1.LabelSelector{
		nil, app("db"), app("cache"), {MatchLabels: map[string]string{"version": "db"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn,
			Values: []string{"cache", "db"}}}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}}},
	} {
		constraints, err := sources.SpreadConstraints(system, web(spreadOver(zone, selector)))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[constraints.Key()]; ok {
			t.Errorf("selectors %d and %d have one key", other, i)
		}
		seen[constraints.Key()] = i
	}
	if string(appendSelector(nil, labels.Everything())) == string(appendSelector(nil, labels.Nothing())) {
		t.Error("everything and nothing have one key")
	}
}
