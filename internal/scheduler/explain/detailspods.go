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
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// byNominated is the detail of what only pods that are nominated to the node keep the pod from.
const byNominated = "because of pods nominated to the node"

// topology is a domain: nodes with the same value of a label.
type topology struct{ key, value string }

// termCount is a required term of pod affinity or anti-affinity, with the number of pods that match
// it by the value of its topology key.
type termCount struct {
	fwk.AffinityTerm
	pods map[string]int
}

// terms returns the required terms of the pod.
func (d *details) terms() fwk.PodInfo {
	// The error is about terms that are not valid. Plugins ignore them, too.
	info, _ := schedframework.NewPodInfo(d.pod)
	return info
}

// count counts the pods that match a term.
func (d *details) count(term fwk.AffinityTerm) termCount {
	c := termCount{AffinityTerm: term, pods: map[string]int{}}
	for _, node := range d.all {
		value, ok := node.Node().Labels[term.TopologyKey]
		if !ok {
			continue
		}
		for _, info := range node.GetPods() {
			if d.matches(&term, info.GetPod()) {
				c.pods[value]++
			}
		}
	}
	return c
}

// matches reports whether a pod matches a term.
func (d *details) matches(term *fwk.AffinityTerm, pod *corev1.Pod) bool {
	var of labels.Set
	if !labels.MatchesNothing(term.NamespaceSelector) {
		of = d.namespaceLabels(pod.Namespace)
	}
	return term.Matches(pod, of)
}

// namespaceLabels returns the labels of a namespace.
func (d *details) namespaceLabels(name string) labels.Set {
	found, ok := d.namespaces[name]
	if !ok {
		if d.namespaces == nil {
			d.namespaces = map[string]labels.Set{}
		}
		found = d.fork.NamespaceLabels(name)
		d.namespaces[name] = found
	}
	return found
}

// refusingAntiAffinity returns the index of the first term of the pod's anti-affinity that keeps it
// off a node, or -1 if that is for pods that are nominated.
func (d *details) refusingAntiAffinity(node *corev1.Node) int {
	if d.anti == nil {
		for _, term := range d.terms().GetRequiredAntiAffinityTerms() {
			d.anti = append(d.anti, d.count(term))
		}
	}
	return slices.IndexFunc(d.anti, func(c termCount) bool {
		value, ok := node.Labels[c.TopologyKey]
		return ok && c.pods[value] > 0
	})
}

// antiAffinityText describes which pods the pod keeps away from.
func (d *details) antiAffinityText(nodes []*refusedNode) string {
	i := d.refusingAntiAffinity(nodes[0].Node())
	if i < 0 {
		return byNominated
	}
	term := d.anti[i]
	if !d.matches(&term.AffinityTerm, d.pod) {
		return fmt.Sprintf("no pod of %s may be in the same %s; %s", podsText(term.Selector), term.TopologyKey,
			d.takenText(term, nodes))
	}
	return fmt.Sprintf("at most one pod of %s per %s; %s", podsText(term.Selector), term.TopologyKey,
		d.takenText(term, nodes))
}

// takenText describes in which domains there is a pod that matches a term.
func (d *details) takenText(term termCount, nodes []*refusedNode) string {
	all := map[string]bool{}
	for _, node := range d.all {
		if value, ok := node.Node().Labels[term.TopologyKey]; ok {
			all[value] = true
		}
	}
	taken := map[string]bool{}
	for _, n := range nodes {
		taken[n.Node().Labels[term.TopologyKey]] = true
	}
	switch values := d.withoutNodeNames(term.TopologyKey, taken); {
	case len(all) > 1 && len(term.pods) == len(all):
		return fmt.Sprintf("all %s have one", plural(term.TopologyKey, len(all)))
	case len(taken) == 1 && len(values) == 1:
		return values[0] + " has one"
	case len(taken) == 1:
		return "it has one"
	case len(values) > 0 && len(values) <= maxEnumerated:
		return enumerate(values, "and") + " have one"
	}
	return plural(term.TopologyKey, len(taken)) + " have one"
}

// plural counts domains.
func plural(key string, n int) string {
	noun := "value"
	switch key {
	case corev1.LabelTopologyZone:
		noun = "zone"
	case corev1.LabelTopologyRegion:
		noun = "region"
	case corev1.LabelHostname:
		noun = "node"
	}
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// podsText describes the pods that a selector selects.
func podsText(selector labels.Selector) string {
	if selector == nil || selector.Empty() {
		return "any kind"
	}
	return selector.String()
}

// otherTerm is a term of the anti-affinity of other pods that matches the pod.
type otherTerm struct {
	key, selector string
	owners        map[string]bool
}

// refusingOthers identifies the terms of other pods that keep the pod off a node.
func (d *details) refusingOthers(node *corev1.Node) string {
	if d.others == nil {
		d.findOthers()
	}
	var keys []string
	for key, value := range node.Labels {
		for _, term := range d.others[topology{key, value}] {
			keys = append(keys, term.key+"\x00"+term.selector)
		}
	}
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), "\x00")
}

// findOthers finds the terms of other pods that match the pod, by their domains.
func (d *details) findOthers() {
	d.others = map[topology][]*otherTerm{}
	own := d.namespaceLabels(d.pod.Namespace)
	for _, node := range d.all {
		for _, info := range node.GetPodsWithRequiredAntiAffinity() {
			for _, term := range info.GetRequiredAntiAffinityTerms() {
				value, ok := node.Node().Labels[term.TopologyKey]
				if !ok || !term.Matches(d.pod, own) {
					continue
				}
				domain, selector := topology{term.TopologyKey, value}, podsText(term.Selector)
				i := slices.IndexFunc(d.others[domain], func(t *otherTerm) bool { return t.selector == selector })
				if i < 0 {
					i = len(d.others[domain])
					d.others[domain] = append(d.others[domain],
						&otherTerm{key: term.TopologyKey, selector: selector, owners: map[string]bool{}})
				}
				d.others[domain][i].owners[d.ownerText(info.GetPod())] = true
			}
		}
	}
}

// ownerText names the controller of a pod, or the pod if it has none. It does not name pods of
// other namespaces, since users may have no permission to list them.
func (d *details) ownerText(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	switch {
	case pod.Namespace != d.pod.Namespace:
		return "pods of another namespace"
	case owner != nil:
		return fmt.Sprintf("pods of %s/%s", owner.Kind, owner.Name)
	}
	return "the pod " + pod.Name
}

// othersText describes whose anti-affinity keeps the pod away.
func (d *details) othersText(nodes []*refusedNode) string {
	owners := map[string]map[string]bool{} // by what they demand
	for _, n := range nodes {
		for key, value := range n.Node().Labels {
			for _, term := range d.others[topology{key, value}] {
				demand := fmt.Sprintf("keep %s out of their %s", term.selector, term.key)
				if owners[demand] == nil {
					owners[demand] = map[string]bool{}
				}
				maps.Copy(owners[demand], term.owners)
			}
		}
	}
	if len(owners) == 0 {
		return byNominated
	}
	var texts []string
	for _, demand := range slices.Sorted(maps.Keys(owners)) {
		texts = append(texts, "the rules of "+enumerate(slices.Sorted(maps.Keys(owners[demand])), "and")+" "+demand)
	}
	return enumerate(texts, "and")
}

// missingAffinityLabel returns the first topology key of the pod's affinity that a node does not
// have, or "".
func (d *details) missingAffinityLabel(node *corev1.Node) string {
	if d.affinity == nil {
		d.affinity = d.terms().GetRequiredAffinityTerms()
	}
	for _, term := range d.affinity {
		if _, ok := node.Labels[term.TopologyKey]; !ok {
			return term.TopologyKey
		}
	}
	return ""
}

// affinityText describes which pods the pod must be near.
func (d *details) affinityText(node *corev1.Node) string {
	if key := d.missingAffinityLabel(node); key != "" {
		return "no label " + key
	}
	if len(d.affinity) == 1 && len(d.count(d.affinity[0]).pods) == 0 {
		return fmt.Sprintf("no node of any %s runs a pod of %s", d.affinity[0].TopologyKey,
			podsText(d.affinity[0].Selector))
	}
	var texts []string
	for _, term := range d.affinity {
		texts = append(texts, fmt.Sprintf("of %s in the same %s", podsText(term.Selector), term.TopologyKey))
	}
	return "no pod " + enumerate(texts, "or")
}
