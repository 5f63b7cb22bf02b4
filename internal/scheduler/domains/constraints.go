// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"
)

// systemDefaults are the constraints of defaultingType System (pkg/scheduler/framework/plugins/podtopologyspread).
var systemDefaults = []corev1.TopologySpreadConstraint{
	{TopologyKey: corev1.LabelHostname, MaxSkew: 3, WhenUnsatisfiable: corev1.ScheduleAnyway},
	{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 5, WhenUnsatisfiable: corev1.ScheduleAnyway},
}

// rule is a topology spread constraint, resolved for the pods of a class.
type rule struct {
	topologyKey string
	selector    labels.Selector
	maxSkew     int32
	minDomains  int32
	// Which nodes count: those that the pod's node selector and affinity match, those whose taints it tolerates.
	honorAffinity, honorTaints bool
}

// rules resolves the constraints of one kind.
func rules(constraints []corev1.TopologySpreadConstraint, action corev1.UnsatisfiableConstraintAction, podLabels map[string]string,
	features feature.Features) ([]rule, error) {
	var resolved []rule
	for i := range constraints {
		c := &constraints[i]
		if c.WhenUnsatisfiable != action {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("topologySpreadConstraints[%d].labelSelector: %w", i, err)
		}
		if features.EnableMatchLabelKeysInPodTopologySpread {
			selector = withLabels(selector, c.MatchLabelKeys, podLabels)
		}
		r := rule{
			topologyKey: c.TopologyKey, selector: selector, maxSkew: c.MaxSkew, minDomains: ptr.Deref(c.MinDomains, 1),
			honorAffinity: true,
		}
		if features.EnableNodeInclusionPolicyInPodTopologySpread {
			r.honorAffinity = ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor
			r.honorTaints = ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor
		}
		resolved = append(resolved, r)
	}
	return resolved, nil
}

// withLabels narrows a selector down to pods that have the pod's own values of some labels (matchLabelKeys). Keys that
// the pod lacks are ignored, and a selector of nothing goes on selecting nothing.
func withLabels(selector labels.Selector, keys []string, podLabels map[string]string) labels.Selector {
	own := labels.Set{}
	for _, key := range keys {
		if value, ok := podLabels[key]; ok {
			own[key] = value
		}
	}
	requirements, selectable := selector.Requirements()
	if len(own) == 0 || !selectable {
		return selector
	}
	return labels.SelectorFromSet(own).Add(requirements...)
}

// defaults are the constraints of a profile for pods that have none.
func defaults(args *schedconfig.PodTopologySpreadArgs) (constraints []corev1.TopologySpreadConstraint, system bool) {
	if args.DefaultingType == schedconfig.SystemDefaulting {
		return systemDefaults, true
	}
	return args.DefaultConstraints, false
}
