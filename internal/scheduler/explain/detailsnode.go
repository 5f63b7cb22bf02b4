// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// requirement is what a pod demands of the labels or the name of a node.
type requirement struct {
	corev1.NodeSelectorRequirement
	field bool
	// alternatives is the text of several terms of which one must match. The other fields but
	// selector are unset then.
	alternatives string
	selector     *nodeaffinity.NodeSelector
}

// requirementsOf returns what a pod demands of nodes, all of which must match.
func requirementsOf(pod *corev1.Pod) []requirement {
	var all []requirement
	add := func(r requirement, terms ...corev1.NodeSelectorTerm) {
		// An expression that is not valid matches no node: all of them get it as their detail.
		r.selector, _ = nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: terms})
		all = append(all, r)
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		in := corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn,
			Values: []string{pod.Spec.NodeSelector[key]}}
		add(requirement{NodeSelectorRequirement: in},
			corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{in}})
	}
	terms := requiredTerms(pod)
	if len(terms) != 1 {
		if len(terms) > 1 {
			add(requirement{alternatives: termsText(terms)}, terms...)
		}
		return all
	}
	for _, r := range terms[0].MatchExpressions {
		add(requirement{NodeSelectorRequirement: r},
			corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{r}})
	}
	for _, r := range terms[0].MatchFields {
		add(requirement{NodeSelectorRequirement: r, field: true},
			corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{r}})
	}
	return all
}

// requiredTerms returns the terms of the required node affinity of a pod.
func requiredTerms(pod *corev1.Pod) []corev1.NodeSelectorTerm {
	if required := podfields.RequiredNodeSelector(pod); required != nil {
		return required.NodeSelectorTerms
	}
	return nil
}

// How a node compares with a requirement.
const (
	matches    = '0'
	differs    = '1'
	noSuchName = '2' // the node lacks the label
)

// mismatches returns how a node compares with each requirement.
func (d *details) mismatches(node *corev1.Node) string {
	if d.requirements == nil {
		d.requirements = requirementsOf(d.pod)
	}
	key := make([]byte, len(d.requirements))
	for i, r := range d.requirements {
		_, labelled := node.Labels[r.Key]
		switch {
		case r.selector != nil && r.selector.Match(node):
			key[i] = matches
		case labelled || r.field || r.alternatives != "":
			key[i] = differs
		default:
			key[i] = noSuchName
		}
	}
	return string(key)
}

// mismatchText describes which labels of nodes do not match.
func (d *details) mismatchText(nodes []*refusedNode) string {
	key := d.mismatches(nodes[0].Node())
	var texts []string
	for i := range d.requirements {
		r := &d.requirements[i]
		switch {
		case key[i] == noSuchName && !d.isOnAnyNode(r.Key):
			texts = append(texts, "no node has the label "+r.Key)
		case key[i] == noSuchName:
			texts = append(texts, "no label "+r.Key)
		case key[i] == differs && r.alternatives != "":
			texts = append(texts, "does not match "+r.alternatives)
		case key[i] == differs:
			texts = append(texts, d.differenceText(r, nodes))
		}
	}
	return strings.Join(texts, "; ")
}

// differenceText describes what the label of nodes is, and what it must be.
func (d *details) differenceText(r *requirement, nodes []*refusedNode) string {
	if r.field {
		return "does not match " + requirementText(r.NodeSelectorRequirement)
	}
	is := "another value"
	if values := d.valuesOf(r.Key, nodes); len(values) > 0 {
		is = enumerate(values, "or")
	}
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		if is == "another value" {
			return fmt.Sprintf("%s is not %s", r.Key, enumerate(r.Values, "or"))
		}
		return fmt.Sprintf("%s is %s, not %s", r.Key, is, enumerate(r.Values, "or"))
	case corev1.NodeSelectorOpDoesNotExist:
		return "has the label " + r.Key
	}
	return fmt.Sprintf("%s is %s, but the pod requires %s", r.Key, is, requirementText(r.NodeSelectorRequirement))
}

// isOnAnyNode reports whether a node of the cluster has a label.
func (d *details) isOnAnyNode(key string) bool {
	if d.labelled == nil {
		d.labelled = map[string]bool{}
		for _, node := range d.all {
			for label := range node.Node().Labels {
				d.labelled[label] = true
			}
		}
	}
	return d.labelled[key]
}

// valuesOf returns the values of a label of nodes, sorted. It is nil if they could be the names of
// nodes.
func (d *details) valuesOf(key string, nodes []*refusedNode) []string {
	values := map[string]bool{}
	for _, n := range nodes {
		if value, ok := n.Node().Labels[key]; ok {
			values[value] = true
		}
	}
	return d.withoutNodeNames(key, values)
}

// withoutNodeNames returns the values of a label, sorted, or nil if they could be the names of
// nodes.
func (d *details) withoutNodeNames(key string, values map[string]bool) []string {
	if key == corev1.LabelHostname {
		return nil
	}
	if d.nodeNames == nil {
		d.nodeNames = make(map[string]bool, len(d.all))
		for _, node := range d.all {
			d.nodeNames[node.Node().Name] = true
			d.nodeNames[node.Node().Labels[corev1.LabelHostname]] = true
		}
	}
	for value := range values {
		if d.nodeNames[value] {
			return nil
		}
	}
	return slices.Sorted(maps.Keys(values))
}

// selectorText describes the node selector and the required node affinity of a pod.
func selectorText(pod *corev1.Pod) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		parts = append(parts, key+"="+pod.Spec.NodeSelector[key])
	}
	if terms := requiredTerms(pod); len(terms) > 0 {
		parts = append(parts, termsText(terms))
	}
	return enumerate(parts, "and")
}

// termsText describes terms of which one must match.
func termsText(terms []corev1.NodeSelectorTerm) string {
	var texts []string
	for _, term := range terms {
		var parts []string
		for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			parts = append(parts, requirementText(r))
		}
		texts = append(texts, enumerate(parts, "and"))
	}
	return enumerate(texts, "or")
}

// requirementText describes a requirement as a label selector does.
func requirementText(r corev1.NodeSelectorRequirement) string {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		if len(r.Values) == 1 {
			return r.Key + "=" + r.Values[0]
		}
		return fmt.Sprintf("%s in (%s)", r.Key, enumerate(r.Values, "or"))
	case corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 1 {
			return r.Key + "!=" + r.Values[0]
		}
		return fmt.Sprintf("%s not in (%s)", r.Key, enumerate(r.Values, "or"))
	case corev1.NodeSelectorOpExists:
		return r.Key
	case corev1.NodeSelectorOpDoesNotExist:
		return "!" + r.Key
	case corev1.NodeSelectorOpGt:
		return r.Key + ">" + strings.Join(r.Values, "")
	case corev1.NodeSelectorOpLt:
		return r.Key + "<" + strings.Join(r.Values, "")
	}
	return r.Key
}

// isForOneNode returns the node that a DaemonSet has made the pod for, or "".
func isForOneNode(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	terms := requiredTerms(pod)
	if owner == nil || owner.Kind != "DaemonSet" || len(terms) != 1 {
		return ""
	}
	for _, r := range terms[0].MatchFields {
		if r.Key == metav1.ObjectNameField && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			return r.Values[0]
		}
	}
	return ""
}
