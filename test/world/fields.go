// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"maps"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// diskLabel is a label that some nodes have, and dedicatedTaint the key of a taint.
	diskLabel      = "disk"
	dedicatedTaint = "dedicated"
	// gpu is an extended resource that some nodes have.
	gpu corev1.ResourceName = "example.com/gpu"
)

// addFields adds fields to a pod that few pods have.
func addFields(r *rand.Rand, pod *corev1.Pod) {
	for _, add := range []func(*rand.Rand, *corev1.Pod){
		addNodeAffinity, addPodAffinity, addPodPreferences, addSpread, addToleration, addContainers, addResources} {
		if r.IntN(5) == 0 {
			add(r, pod)
		}
	}
}

func addNodeAffinity(r *rand.Rand, pod *corev1.Pod) {
	affinity := &corev1.NodeAffinity{}
	terms := []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{one(r, zones)}}}},
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: diskLabel, Operator: corev1.NodeSelectorOpExists}}},
		{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: diskLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}}}},
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: diskLabel, Operator: corev1.NodeSelectorOpDoesNotExist}}},
	}
	if r.IntN(2) == 0 {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{one(r, terms)}}
	}
	for range r.IntN(3) {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
			affinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: 1 + r.Int32N(100), Preference: one(r, terms)})
	}
	affinityOf(pod).NodeAffinity = affinity
}

func affinityOf(pod *corev1.Pod) *corev1.Affinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	return pod.Spec.Affinity
}

func podTerm(r *rand.Rand) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: one(r, []string{"zone", corev1.LabelHostname, diskLabel}),
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": one(r, []string{"a", "b", "c"})}}}
}

// addPodAffinity adds a required term. That of every second pod selects the pod itself and those of
// its team, which are few: sooner or later, the last of the others goes.
func addPodAffinity(r *rand.Rand, pod *corev1.Pod) {
	term := podTerm(r)
	if r.IntN(2) == 0 {
		pod.Labels = maps.Clone(pod.Labels)
		pod.Labels["team"] = one(r, []string{"a", "b", "c"})
		term.LabelSelector.MatchLabels = map[string]string{"team": pod.Labels["team"]}
	}
	affinityOf(pod).PodAffinity = &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
}

func addPodPreferences(r *rand.Rand, pod *corev1.Pod) {
	terms := []corev1.WeightedPodAffinityTerm{{Weight: 1 + r.Int32N(100), PodAffinityTerm: podTerm(r)}}
	affinity := affinityOf(pod)
	if r.IntN(2) == 0 {
		if affinity.PodAffinity == nil {
			affinity.PodAffinity = &corev1.PodAffinity{}
		}
		affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = terms
		return
	}
	if affinity.PodAntiAffinity == nil {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = terms
}

func addSpread(r *rand.Rand, pod *corev1.Pod) {
	constraint := corev1.TopologySpreadConstraint{MaxSkew: 1 + r.Int32N(2), TopologyKey: corev1.LabelHostname,
		WhenUnsatisfiable: one(r, []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}),
		LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}}
	if constraint.WhenUnsatisfiable == corev1.DoNotSchedule && r.IntN(2) == 0 {
		constraint.MinDomains = ptr.To(1 + r.Int32N(5))
	}
	policies := []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor}
	if r.IntN(2) == 0 {
		constraint.NodeTaintsPolicy = ptr.To(one(r, policies))
	}
	if r.IntN(2) == 0 {
		constraint.NodeAffinityPolicy = ptr.To(one(r, policies))
	}
	pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, constraint)
}

func addToleration(r *rand.Rand, pod *corev1.Pod) {
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, one(r, []corev1.Toleration{
		{Key: dedicatedTaint, Operator: corev1.TolerationOpExists},
		{Key: dedicatedTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: dedicatedTaint, Operator: corev1.TolerationOpEqual, Value: "a", Effect: corev1.TaintEffectPreferNoSchedule},
	}))
}

func addContainers(r *rand.Rand, pod *corev1.Pod) {
	container := corev1.Container{Name: "first", Image: "image", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(one(r, []string{"500m", "2", "4"}))}}}
	if r.IntN(2) == 0 {
		container.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	}
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
}

func addResources(r *rand.Rand, pod *corev1.Pod) {
	resources := &pod.Spec.Containers[0].Resources
	switch r.IntN(4) {
	case 0:
		pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
	case 1:
		// At least what the containers request.
		pod.Spec.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}}
	default:
		resources.Requests[gpu] = resource.MustParse(one(r, []string{"1", "2"}))
		if resources.Limits == nil {
			resources.Limits = corev1.ResourceList{}
		}
		resources.Limits[gpu] = resources.Requests[gpu]
	}
}
