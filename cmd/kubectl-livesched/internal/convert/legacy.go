// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"math"

	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
)

// legacy converts a legacy policy to a SchedulingPolicy that contains it, and a profile that builds
// on that.
func (c *converter) legacy(f *fields) {
	f.text("apiVersion")
	f.text("kind")
	policy := &v1alpha1.SchedulingPolicy{}
	legacy := &v1alpha1.LegacyPolicy{AlwaysCheckAllPredicates: f.flag("alwaysCheckAllPredicates")}
	if predicates, exists := f.objects("predicates"); exists {
		legacy.Predicates = []v1alpha1.PredicatePolicy{}
		for _, predicate := range predicates {
			legacy.Predicates = append(legacy.Predicates, c.predicate(predicate))
		}
	}
	if priorities, exists := f.objects("priorities"); exists {
		legacy.Priorities = []v1alpha1.PriorityPolicy{}
		for _, priority := range priorities {
			legacy.Priorities = append(legacy.Priorities, c.priority(priority))
		}
	}
	if weight := f.integer32("hardPodAffinitySymmetricWeight"); weight != nil && *weight != 0 {
		legacy.HardPodAffinitySymmetricWeight = weight // 0 meant the default, 1
	}
	policy.Spec.AlgorithmSource = &v1alpha1.AlgorithmSource{Policy: legacy}
	policy.Spec.Extenders = c.extenders(f)
	f.rest(Note, unknownField)

	c.remark(Note, f.at("percentageOfNodesToScore"), unsetPercentage)
	profile := &v1alpha1.SchedulerProfile{}
	profile.Spec.PolicyRef = c.addPolicy(policy)
	c.addProfile(f.path, c.options.SchedulerName, profile)
}

func (c *converter) predicate(f *fields) v1alpha1.PredicatePolicy {
	predicate := v1alpha1.PredicatePolicy{Name: f.text("name")}
	if argument := f.object("argument"); argument != nil {
		predicate.Argument = &v1alpha1.PredicateArgument{}
		if a := argument.object("serviceAffinity"); a != nil {
			predicate.Argument.ServiceAffinity = &v1alpha1.ServiceAffinity{Labels: a.texts("labels")}
			a.rest(Note, unknownField)
		}
		if a := argument.object("labelsPresence"); a != nil {
			predicate.Argument.LabelsPresence = &v1alpha1.LabelsPresence{Labels: a.texts("labels"),
				Presence: a.flag("presence")}
			a.rest(Note, unknownField)
		}
		argument.rest(Note, unknownField)
		if *predicate.Argument == (v1alpha1.PredicateArgument{}) {
			predicate.Argument = nil
		}
	}
	f.rest(Note, unknownField)
	return predicate
}

func (c *converter) priority(f *fields) v1alpha1.PriorityPolicy {
	priority := v1alpha1.PriorityPolicy{Name: f.text("name")}
	if weight := f.integer("weight"); weight != nil {
		priority.Weight = int32(min(max(*weight, math.MinInt32), math.MaxInt32))
	}
	if argument := f.object("argument"); argument != nil {
		priority.Argument = c.priorityArgument(argument)
		if *priority.Argument == (v1alpha1.PriorityArgument{}) {
			priority.Argument = nil
		}
	}
	f.rest(Note, unknownField)
	return priority
}

func (c *converter) priorityArgument(f *fields) *v1alpha1.PriorityArgument {
	argument := &v1alpha1.PriorityArgument{}
	if a := f.object("serviceAntiAffinity"); a != nil {
		argument.ServiceAntiAffinity = &v1alpha1.ServiceAntiAffinity{Label: a.text("label")}
		a.rest(Note, unknownField)
	}
	if a := f.object("labelPreference"); a != nil {
		argument.LabelPreference = &v1alpha1.LabelPreference{Label: a.text("label"), Presence: a.flag("presence")}
		a.rest(Note, unknownField)
	}
	if a := f.object("requestedToCapacityRatioArguments"); a != nil {
		argument.RequestedToCapacityRatioArguments = c.requestedToCapacityRatio(a)
	}
	f.rest(Note, unknownField)
	return argument
}

func (c *converter) requestedToCapacityRatio(f *fields) *v1alpha1.RequestedToCapacityRatioArguments {
	ratio := &v1alpha1.RequestedToCapacityRatioArguments{}
	shape, _ := f.objects("shape")
	for _, point := range shape {
		ratio.Shape = append(ratio.Shape, v1alpha1.UtilizationShapePoint{
			Utilization: ptr.Deref(point.integer32("utilization"), 0),
			Score:       ptr.Deref(point.integer32("score"), 0),
		})
		point.rest(Note, unknownField)
	}
	resources, _ := f.objects("resources")
	for _, resource := range resources {
		ratio.Resources = append(ratio.Resources,
			v1alpha1.ResourceSpec{Name: resource.text("name"), Weight: ptr.Deref(resource.integer("weight"), 0)})
		resource.rest(Note, unknownField)
	}
	f.rest(Note, unknownField)
	return ratio
}
