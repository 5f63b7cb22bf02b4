// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// placement sets which nodes the pod asks for.
func (g *generator) placement(pod *corev1.Pod, nodes []*corev1.Node) {
	if g.rarely(10) {
		pod.Spec.NodeSelector = map[string]string{"disk": pick(g, disks)}
	}
	for range g.IntN(3) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, g.toleration())
	}
	if g.chance(3) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	}
	affinity := &corev1.NodeAffinity{}
	switch {
	case g.rarely(14):
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
		for range 1 + g.IntN(2) {
			affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = append(
				affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, g.nodeTerm())
		}
	case g.nodeNames && g.rarely(8) && len(nodes) > 0:
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = g.namedNodes(nodes)
	}
	for range g.IntN(10) / 7 {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
			affinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: int32(1 + g.IntN(100)), Preference: g.nodeTerm()})
	}
	pod.Spec.Affinity.NodeAffinity = affinity
}

// namedNodes selects nodes by their names, so that PreFilter leaves only these.
func (g *generator) namedNodes(nodes []*corev1.Node) *corev1.NodeSelector {
	wanted := []string{"node-gone"}
	for range g.IntN(6) {
		wanted = append(wanted, pick(g, nodes).Name)
	}
	selector := &corev1.NodeSelector{}
	for _, name := range wanted {
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{
			MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
		})
	}
	return selector
}

func (g *generator) nodeTerm() corev1.NodeSelectorTerm {
	term := corev1.NodeSelectorTerm{}
	for range 1 + g.IntN(2) {
		term.MatchExpressions = append(term.MatchExpressions, g.nodeRequirement())
	}
	return term
}

func (g *generator) nodeRequirement() corev1.NodeSelectorRequirement {
	switch g.IntN(6) {
	case 0:
		return corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpExists}
	case 1:
		return corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpNotIn,
			Values: []string{pick(g, disks)}}
	case 2:
		return corev1.NodeSelectorRequirement{Key: "cores",
			Operator: oneOf(g, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt),
			Values:   []string{fmt.Sprint(g.IntN(64))}}
	case 3:
		return corev1.NodeSelectorRequirement{Key: region, Operator: corev1.NodeSelectorOpDoesNotExist}
	default:
		return corev1.NodeSelectorRequirement{Key: zone, Operator: corev1.NodeSelectorOpIn,
			Values: []string{"zone-0", fmt.Sprintf("zone-%d", g.IntN(g.zones))}}
	}
}

func (g *generator) toleration() corev1.Toleration {
	t := corev1.Toleration{Key: oneOf(g, "gpu", "team", corev1.TaintNodeUnschedulable),
		Operator: corev1.TolerationOpExists}
	if g.chance(50) {
		t.Operator, t.Value = corev1.TolerationOpEqual, pick(g, apps)
	}
	if g.chance(50) {
		t.Effect = oneOf(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
			corev1.TaintEffectNoExecute)
	}
	return t
}

func (g *generator) podAffinity(pod *corev1.Pod) {
	affinity, anti := &corev1.PodAffinity{}, &corev1.PodAntiAffinity{}
	for range 2 {
		if g.rarely(8) {
			affinity.RequiredDuringSchedulingIgnoredDuringExecution = append(
				affinity.RequiredDuringSchedulingIgnoredDuringExecution, g.podTerm())
		}
		if g.rarely(10) {
			anti.RequiredDuringSchedulingIgnoredDuringExecution = append(
				anti.RequiredDuringSchedulingIgnoredDuringExecution, g.podTerm())
		}
		if g.chance(10) {
			affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
				affinity.PreferredDuringSchedulingIgnoredDuringExecution, g.weightedTerm())
		}
		if g.chance(10) {
			anti.PreferredDuringSchedulingIgnoredDuringExecution = append(
				anti.PreferredDuringSchedulingIgnoredDuringExecution, g.weightedTerm())
		}
	}
	pod.Spec.Affinity.PodAffinity, pod.Spec.Affinity.PodAntiAffinity = affinity, anti
}

func (g *generator) weightedTerm() corev1.WeightedPodAffinityTerm {
	return corev1.WeightedPodAffinityTerm{Weight: int32(1 + g.IntN(100)), PodAffinityTerm: g.podTerm()}
}

func (g *generator) podTerm() corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{LabelSelector: g.selector(),
		TopologyKey: oneOf(g, zone, zone, hostname, "disk", region)}
	switch {
	case g.chance(20):
		term.Namespaces = []string{pick(g, namespaces), pick(g, namespaces)}
	case g.chance(20):
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}
	case g.chance(10):
		term.NamespaceSelector = &metav1.LabelSelector{}
	}
	// The API server merges these into the selector and keeps them in the object.
	if g.chance(10) {
		term.MatchLabelKeys = []string{"version"}
		term.LabelSelector.MatchExpressions = append(term.LabelSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: "version", Operator: metav1.LabelSelectorOpIn,
				Values: []string{pick(g, versions)}})
	} else if g.chance(10) {
		term.MismatchLabelKeys = []string{"version"}
		term.LabelSelector.MatchExpressions = append(term.LabelSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: "version", Operator: metav1.LabelSelectorOpNotIn,
				Values: []string{pick(g, versions)}})
	}
	return term
}

func (g *generator) selector() *metav1.LabelSelector {
	if g.chance(20) {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{pick(g, apps)},
		}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, apps)}}
}

func (g *generator) spread(pod *corev1.Pod) {
	for _, key := range []string{zone, hostname, region} {
		if !g.rarely(14) {
			continue
		}
		constraint := corev1.TopologySpreadConstraint{
			MaxSkew: int32(1 + g.IntN(3)), TopologyKey: key, LabelSelector: g.selector(),
			WhenUnsatisfiable: oneOf(g, corev1.DoNotSchedule, corev1.ScheduleAnyway),
		}
		if constraint.WhenUnsatisfiable == corev1.DoNotSchedule && g.chance(25) {
			constraint.MinDomains = ptr.To(int32(1 + g.IntN(5)))
		}
		if g.chance(30) {
			constraint.NodeTaintsPolicy = ptr.To(oneOf(g, corev1.NodeInclusionPolicyHonor,
				corev1.NodeInclusionPolicyIgnore))
		}
		if g.chance(30) {
			constraint.NodeAffinityPolicy = ptr.To(oneOf(g, corev1.NodeInclusionPolicyHonor,
				corev1.NodeInclusionPolicyIgnore))
		}
		if g.chance(25) {
			constraint.MatchLabelKeys = []string{"version"}
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, constraint)
	}
}
