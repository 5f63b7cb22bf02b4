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

	"github.com/livesched/livesched/internal/memsize"
)

// systemDefaults are the constraints of defaultingType System
// (pkg/scheduler/framework/plugins/podtopologyspread).
var systemDefaults = []corev1.TopologySpreadConstraint{
	{TopologyKey: corev1.LabelHostname, MaxSkew: 3, WhenUnsatisfiable: corev1.ScheduleAnyway},
	{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 5, WhenUnsatisfiable: corev1.ScheduleAnyway},
}

// SpreadConstraints are the current topology spread constraints of the pods of a class: their own,
// or the profile's default ones, which apply to the pods of their services and their controller.
type SpreadConstraints struct {
	sources *Sources
	// pod stands for all pods of the class. It must not be modified.
	pod *corev1.Pod
	// hard and soft are empty if the default constraints have nothing to apply to.
	hard, soft []rule
	// system is true if the constraints are the system's default ones.
	system bool
	series *series // nil unless default constraints apply
	bytes  int     // the size of hard and soft
}

// Hard reports whether Filter uses any of the constraints.
func (c *SpreadConstraints) Hard() bool { return len(c.hard) > 0 }

// SpreadConstraints returns the constraints that PodTopologySpread with these arguments applies to
// pods of the class of pod. It keeps the pod, which must not change any more. It returns nil if the
// plugin does nothing for these pods. If it returns an error, the plugin itself must handle the
// pods; in most cases it refuses them.
func (s *Sources) SpreadConstraints(args *schedconfig.PodTopologySpreadArgs,
	pod *corev1.Pod) (*SpreadConstraints, error) {
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
	c := &SpreadConstraints{sources: s, pod: pod, system: system}
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
	c.bytes = memsize.Of(&c.hard) + memsize.Of(&c.soft)
	return c, nil
}

// Bytes estimates the memory of the constraints, without the pod's.
func (c *SpreadConstraints) Bytes() int { return constraintsBytes + c.bytes }

// constraintsBytes estimates the memory of constraints that are none.
const constraintsBytes = 256

// Changed reports whether the pods now have other constraints because services or controllers have
// changed. Once true, it stays true.
func (c *SpreadConstraints) Changed() bool { return c.series != nil && c.series.changed() }

// Key returns everything that the tracker is made from, except the node selector, node affinity and
// tolerations of the pods. Classes that are equal in all of that can share one tracker.
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
	// honorAffinity and honorTaints restrict the nodes that count: to those that the pod's node
	// selector and affinity match, and to those whose taints it tolerates.
	honorAffinity, honorTaints bool
}

// selects reports whether the constraint counts a pod of its namespace.
func (r *rule) selects(pod *corev1.Pod) bool { return r.selector.Matches(labels.Set(pod.Labels)) }

// rules resolves the constraints of one kind.
func rules(constraints []corev1.TopologySpreadConstraint, action corev1.UnsatisfiableConstraintAction,
	podLabels map[string]string,
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
			r.honorAffinity = ptr.Deref(c.NodeAffinityPolicy,
				corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor
			r.honorTaints = ptr.Deref(c.NodeTaintsPolicy,
				corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor
		}
		resolved = append(resolved, r)
	}
	return resolved, nil
}

// withLabels narrows a selector to pods that have the pod's own values of some labels
// (matchLabelKeys). Keys that the pod lacks are ignored, and a selector that selects nothing still
// selects nothing.
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

// defaults returns the constraints of a profile for pods that have none.
func defaults(args *schedconfig.PodTopologySpreadArgs) (constraints []corev1.TopologySpreadConstraint, system bool) {
	if args.DefaultingType == schedconfig.SystemDefaulting {
		return systemDefaults, true
	}
	return args.DefaultConstraints, false
}
