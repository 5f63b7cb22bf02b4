// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
)

// spreadCount is a topology spread constraint that must be satisfied, with the number of pods that
// it counts in each domain.
type spreadCount struct {
	corev1.TopologySpreadConstraint
	selector labels.Selector
	pods     map[string]int
	// least is the number that others are compared with, and self 1 if the pod counts itself.
	least, self int
}

// spreads counts the pods of each constraint. There are none if the pod has none of its own.
func (d *details) spreads() []spreadCount {
	if d.spread != nil {
		return d.spread
	}
	d.spread = []spreadCount{}
	for _, c := range d.pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		selector, err := selectorOf(&c, d.pod)
		if err != nil {
			return d.spread // the plugin fails
		}
		count := spreadCount{TopologySpreadConstraint: c, selector: selector, pods: map[string]int{}}
		if selector.Matches(labels.Set(d.pod.Labels)) {
			count.self = 1
		}
		d.spread = append(d.spread, count)
	}
	d.countSpreads()
	return d.spread
}

// selectorOf returns the selector of a constraint, with the labels of the pod that it names.
func selectorOf(c *corev1.TopologySpreadConstraint, pod *corev1.Pod) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil || len(c.MatchLabelKeys) == 0 {
		return selector, err
	}
	same := labels.Set{}
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			same[key] = value
		}
	}
	more, _ := same.AsSelectorPreValidated().Requirements()
	for _, r := range more {
		if have, _ := selector.Requirements(); !slices.ContainsFunc(have,
			func(h labels.Requirement) bool { return h.Equal(r) }) {
			selector = selector.Add(r)
		}
	}
	return selector, nil
}

// countSpreads counts the pods on the nodes that each constraint includes.
func (d *details) countSpreads() {
	affinity := nodeaffinity.GetRequiredNodeAffinity(d.pod)
	for _, node := range d.all {
		if d.firstWithoutLabel(node.Node()) >= 0 {
			continue
		}
		matches, _ := affinity.Match(node.Node()) // an affinity that is not valid matches no node
		for i := range d.spread {
			c := &d.spread[i]
			if !matches && ptr.Deref(c.NodeAffinityPolicy,
				corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor ||
				ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor &&
					len(untolerated(d.pod, node.Node())) > 0 {
				continue
			}
			value := node.Node().Labels[c.TopologyKey]
			c.pods[value] += 0
			for _, info := range node.GetPods() {
				if pod := info.GetPod(); pod.Namespace == d.pod.Namespace && pod.DeletionTimestamp == nil &&
					c.selector.Matches(labels.Set(pod.Labels)) {
					c.pods[value]++
				}
			}
		}
	}
	for i := range d.spread {
		if c := &d.spread[i]; len(c.pods) > 0 && len(c.pods) >= int(ptr.Deref(c.MinDomains, 1)) {
			c.least = slices.Min(slices.Collect(maps.Values(c.pods)))
		}
	}
}

// firstWithoutLabel returns the index of the first constraint whose label a node does not have, or
// -1.
func (d *details) firstWithoutLabel(node *corev1.Node) int {
	return slices.IndexFunc(d.spread, func(c spreadCount) bool {
		_, ok := node.Labels[c.TopologyKey]
		return !ok
	})
}

// refusingSpread returns the index of the constraint that keeps the pod off a node, or -1 if it is
// not known: it may be one of the profile, or one that pods nominated to nodes break.
func (d *details) refusingSpread(node *corev1.Node, reason v1alpha1.RefusalReason) int {
	counts := d.spreads()
	if reason == v1alpha1.ReasonTopologyLabelMissing {
		return d.firstWithoutLabel(node)
	}
	return slices.IndexFunc(counts, func(c spreadCount) bool {
		return c.pods[node.Labels[c.TopologyKey]]+c.self-c.least > int(c.MaxSkew)
	})
}

// spreadText describes which constraint keeps the pod off nodes, and how many pods the domains
// have.
func (d *details) spreadText(nodes []*refusedNode, reason v1alpha1.RefusalReason) string {
	i := d.refusingSpread(nodes[0].Node(), reason)
	switch {
	case i < 0 && len(d.spread) == 0:
		return "" // the profile has the constraints
	case i < 0:
		return byNominated
	case reason == v1alpha1.ReasonTopologyLabelMissing:
		return "no label " + d.spread[i].TopologyKey
	}
	c := &d.spread[i]
	here := map[string]bool{}
	for _, n := range nodes {
		here[n.Node().Labels[c.TopologyKey]] = true
	}
	text := fmt.Sprintf("maxSkew %d of %s per %s: ", c.MaxSkew, podsText(c.selector), c.TopologyKey)
	if len(c.pods) < int(ptr.Deref(c.MinDomains, 1)) {
		return text + fmt.Sprintf("there are %s, fewer than minDomains %d", plural(c.TopologyKey, len(c.pods)),
			*c.MinDomains)
	}
	return text + d.skewText(c, here)
}

// skewText describes how many pods domains have, and which has the fewest.
func (d *details) skewText(c *spreadCount, here map[string]bool) string {
	fewest, counts := map[string]bool{}, sets.New[int]()
	for value, n := range c.pods {
		if n == c.least {
			fewest[value] = true
		}
	}
	for value := range here {
		counts.Insert(c.pods[value])
	}
	numbers := sets.List(counts)
	have := fmt.Sprintf("%d", numbers[0])
	if len(numbers) > 1 {
		have = fmt.Sprintf("%d to %d", numbers[0], numbers[len(numbers)-1])
	}
	text := fmt.Sprintf("%s with %s, %s with the fewest, %d", d.domainsText(c.TopologyKey, here), have,
		d.domainsText(c.TopologyKey, fewest), c.least)
	if blocking := d.blocking(c.TopologyKey, fewest); blocking != "" {
		text += " (the closest node there: " + blocking + ")"
	}
	return text
}

// blocking describes what refuses the pod on the closest node of some domains. It is empty if only
// another constraint does.
func (d *details) blocking(key string, domains map[string]bool) string {
	var closest *refusedNode
	for i := range d.nodes {
		n := &d.nodes[i]
		if domains[n.Node().Labels[key]] && (closest == nil || len(n.refusals) < len(closest.refusals)) {
			closest = n
		}
	}
	if closest == nil {
		return ""
	}
	var texts []string
	for _, status := range closest.refusals {
		reason := d.reasons.of(status)
		switch {
		case reason == v1alpha1.ReasonTopologySpread:
		case len(closest.short) > 0 && reason == v1alpha1.ReasonInsufficientResource:
			texts = append(texts, "lacks "+closest.short.String())
		default:
			text := d.text([]*refusedNode{closest}, refusal{status, reason})
			texts = append(texts, cmp.Or(text, strings.Join(status.Reasons(), ", ")))
		}
	}
	return strings.Join(texts, ", ")
}

// domainsText names domains, or counts them if they are many or nodes.
func (d *details) domainsText(key string, domains map[string]bool) string {
	if values := d.withoutNodeNames(key, domains); len(values) > 0 && len(values) <= maxEnumerated {
		return enumerate(values, "and")
	}
	return plural(key, len(domains))
}
