// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/binary"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"
)

// systemDefaults are the constraints of defaultingType System
// (pkg/scheduler/framework/plugins/podtopologyspread).
var systemDefaults = []corev1.TopologySpreadConstraint{
	{TopologyKey: corev1.LabelHostname, MaxSkew: 3, WhenUnsatisfiable: corev1.ScheduleAnyway},
	{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 5, WhenUnsatisfiable: corev1.ScheduleAnyway},
}

// SpreadConstraints are the topology spread constraints of the pods of a class as they are now:
// their own, or the profile's default ones, which apply to the pods of their services and their
// controller.
type SpreadConstraints struct {
	sources *Sources
	// pod is like all pods of the class. Nobody writes to it.
	pod *corev1.Pod
	// hard and soft are empty if the default ones have nothing to apply to.
	hard, soft []rule
	// system is true if they are the system's default ones.
	system bool
	series *series // nil unless default ones apply
}

// Hard reports whether Filter goes by any of them.
func (c *SpreadConstraints) Hard() bool { return len(c.hard) > 0 }

// SpreadConstraints returns those that PodTopologySpread with these arguments goes by for the pods
// of the class that pod is of. The pod is copied. They are nil if it will have nothing to do with
// them. With an error they are for the plugin itself, which in most cases refuses them.
func (s *Sources) SpreadConstraints(args *schedconfig.PodTopologySpreadArgs, pod *corev1.Pod) (*SpreadConstraints, error) {
	constraints, system := pod.Spec.TopologySpreadConstraints, false
	own := len(constraints) > 0
	if !own {
		constraints, system = defaults(args)
	}
	hard, err := rules(constraints, corev1.DoNotSchedule, pod.Labels, s.features)
	if err != nil {
		return nil, err
	}
	soft, err := rules(constraints, corev1.ScheduleAnyway, pod.Labels, s.features)
	if err != nil {
		return nil, err
	}
	if len(hard)+len(soft) == 0 {
		return nil, nil
	}
	c := &SpreadConstraints{sources: s, pod: pod.DeepCopy(), system: system}
	if !own {
		c.series = s.newSeries(c.pod)
		if c.series.selector.Empty() {
			return c, nil
		}
		for _, rules := range [][]rule{hard, soft} {
			for i := range rules {
				rules[i].selector = c.series.selector
			}
		}
	}
	c.hard, c.soft = hard, soft
	return c, nil
}

// Changed reports whether the pods have other constraints by now, since services or controllers are
// others. It stays so.
func (c *SpreadConstraints) Changed() bool { return c.series != nil && c.series.changed() }

// Key returns what the tracker is made from besides node selector, node affinity and tolerations of
// the pods. Classes in which all of that is equal can do with one tracker.
func (c *SpreadConstraints) Key() string {
	key := appendText(nil, c.pod.Namespace)
	key = appendFlag(key, c.system)
	for _, rules := range [...][]rule{c.hard, c.soft} {
		key = binary.AppendUvarint(key, uint64(len(rules)))
		for i := range rules {
			r := &rules[i]
			key = appendText(key, r.topologyKey)
			key = appendSelector(key, r.selector)
			key = appendFlag(appendFlag(key, r.honorAffinity), r.honorTaints)
			key = binary.AppendVarint(binary.AppendVarint(key, int64(r.maxSkew)), int64(r.minDomains))
			key = appendFlag(key, r.selects(c.pod))
		}
	}
	return string(key)
}

func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}

func appendFlag(key []byte, flag bool) []byte {
	if flag {
		return append(key, 1)
	}
	return append(key, 0)
}

func appendSelector(key []byte, selector labels.Selector) []byte {
	requirements, selectable := selector.Requirements()
	key = binary.AppendUvarint(appendFlag(key, selectable), uint64(len(requirements)))
	for i := range requirements {
		r := &requirements[i]
		values := r.ValuesUnsorted()
		slices.Sort(values)
		key = appendText(appendText(key, r.Key()), string(r.Operator()))
		key = binary.AppendUvarint(key, uint64(len(values)))
		for _, value := range values {
			key = appendText(key, value)
		}
	}
	return key
}

// rule is a topology spread constraint, resolved for the pods of a class.
type rule struct {
	topologyKey string
	selector    labels.Selector
	maxSkew     int32
	minDomains  int32
	// Which nodes count: those that the pod's node selector and affinity match, those whose taints
	// it tolerates.
	honorAffinity, honorTaints bool
}

// selects reports whether the constraint counts a pod of its namespace.
func (r *rule) selects(pod *corev1.Pod) bool { return r.selector.Matches(labels.Set(pod.Labels)) }

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

// withLabels narrows a selector down to pods that have the pod's own values of some labels
// (matchLabelKeys). Keys that the pod lacks are ignored, and a selector of nothing goes on
// selecting nothing.
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
