// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/livesched/livesched/internal/mapkey"
	"github.com/livesched/livesched/internal/scheduler/cache"
)

// volumeAffinity is a condition of a volume on the labels of the node: its node affinity, or the
// topologies that its storage class allows.
type volumeAffinity struct {
	terms []corev1.NodeSelectorTerm
	// selector is nil if the terms only require that labels have one of some values, as for zones
	// and for volumes on one node.
	selector *nodeaffinity.LazyErrorNodeSelector
}

// newVolumeAffinity returns false if the affinity uses more than labels. The plugin uses labels
// only.
func newVolumeAffinity(of *corev1.NodeSelector) (volumeAffinity, bool) {
	a := volumeAffinity{terms: of.NodeSelectorTerms}
	plain := true
	for i := range a.terms {
		if len(a.terms[i].MatchFields) > 0 {
			return a, false
		}
		plain = plain && len(a.terms[i].MatchExpressions) > 0
		for j := range a.terms[i].MatchExpressions {
			requirement := &a.terms[i].MatchExpressions[j]
			plain = plain && requirement.Operator == corev1.NodeSelectorOpIn && areLabelValues(requirement.Values)
		}
	}
	if !plain {
		a.selector = nodeaffinity.NewLazyErrorNodeSelector(of)
	}
	return a, true
}

// affinityOfTopologies returns the condition that a node has one of the topologies that a storage
// class allows. It returns false if one of them is not valid.
func affinityOfTopologies(terms []corev1.TopologySelectorTerm) (volumeAffinity, bool) {
	var a volumeAffinity
	for i := range terms {
		var term corev1.NodeSelectorTerm
		for j := range terms[i].MatchLabelExpressions {
			requirement := &terms[i].MatchLabelExpressions[j]
			if !areLabelValues(requirement.Values) {
				return a, false
			}
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: requirement.Key, Operator: corev1.NodeSelectorOpIn, Values: requirement.Values})
		}
		if len(term.MatchExpressions) > 0 { // an empty term matches no node
			a.terms = append(a.terms, term)
		}
	}
	return a, true
}

// areLabelValues reports whether nodes may have these values: the libraries refuse requirements
// with other values.
func areLabelValues(values []string) bool {
	for _, value := range values {
		if len(value) > 63 {
			return false
		}
		for i := range len(value) {
			switch c := value[i]; {
			case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			case (c == '-' || c == '_' || c == '.') && 0 < i && i < len(value)-1:
			default:
				return false
			}
		}
	}
	return true
}

func (a *volumeAffinity) match(node *corev1.Node) bool {
	if a.selector != nil {
		ok, err := a.selector.Match(node)
		return ok && err == nil
	}
	for i := range a.terms {
		if hasValues(node.Labels, a.terms[i].MatchExpressions) {
			return true
		}
	}
	return false
}

// hasValues reports whether a set of labels has one of the values that each requirement lists.
func hasValues(of map[string]string, requirements []corev1.NodeSelectorRequirement) bool {
	for i := range requirements {
		value, ok := of[requirements[i].Key]
		if !ok || !slices.Contains(requirements[i].Values, value) {
			return false
		}
	}
	return true
}

// maxPlaces and nodesPerPlace bound the number of values of a label for which volumeAffinity.shared
// is true.
const maxPlaces, nodesPerPlace = 64, 8

// shared reports whether many volumes are likely to have the same condition: nodes have few values
// of the labels that it reads, as for zones. A volume on one node usually has a condition of its
// own.
func (a *volumeAffinity) shared(snapshot *cache.Snapshot) bool {
	if a.selector != nil {
		return false
	}
	for i := range a.terms {
		for j := range a.terms[i].MatchExpressions {
			key := a.terms[i].MatchExpressions[j].Key
			if !snapshot.HasLabel(key) {
				return false
			}
			places := snapshot.Topo(key).Bound()
			if places > maxPlaces || places*nodesPerPlace > snapshot.NumNodes() {
				return false
			}
		}
	}
	return true
}

func (a *volumeAffinity) write(w *mapkey.Writer) {
	w.Number(int64(len(a.terms)))
	for i := range a.terms {
		expressions := a.terms[i].MatchExpressions
		w.Number(int64(len(expressions)))
		for j := range expressions {
			w.Text(expressions[j].Key)
			writeTexts(w, expressions[j].Values)
		}
	}
}

func writeTexts(w *mapkey.Writer, texts []string) {
	w.Number(int64(len(texts)))
	for _, text := range texts {
		w.Text(text)
	}
}

// placed is a volumeAffinity that is compared with the numbers of the nodes' topology domains,
// which is several times as fast as comparing labels. It is for one state of the snapshot.
type placed struct {
	terms [][]placedIn
	// of is the affinity, if it cannot be compared in this way.
	of *volumeAffinity
}

// placedIn requires that a node is in one of some domains.
type placedIn struct {
	domains []int32 // by slot
	in      []int32
}

func (a *volumeAffinity) place(snapshot *cache.Snapshot) placed {
	if a.selector != nil {
		return placed{of: a}
	}
	p := placed{terms: make([][]placedIn, 0, len(a.terms))}
	for i := range a.terms {
		if term := placedTerm(snapshot, a.terms[i].MatchExpressions); term != nil {
			p.terms = append(p.terms, term)
		}
	}
	return p
}

// placedTerm returns nil if no node matches.
func placedTerm(snapshot *cache.Snapshot, requirements []corev1.NodeSelectorRequirement) (term []placedIn) {
	for i := range requirements {
		key := requirements[i].Key
		if !snapshot.HasLabel(key) {
			return nil
		}
		topology := snapshot.Topo(key)
		r := placedIn{domains: topology.Domains()}
		for _, value := range requirements[i].Values {
			if domain, ok := topology.Domain(value); ok {
				r.in = append(r.in, domain)
			}
		}
		if len(r.in) == 0 {
			return nil
		}
		term = append(term, r)
	}
	return term
}

func (p *placed) match(snapshot *cache.Snapshot, slot cache.Slot) bool {
	if p.of != nil {
		return p.of.match(snapshot.Info(slot).Node())
	}
	for _, term := range p.terms {
		if isIn(term, slot) {
			return true
		}
	}
	return false
}

func isIn(term []placedIn, slot cache.Slot) bool {
	for i := range term {
		if !slices.Contains(term[i].in, term[i].domains[slot]) {
			return false
		}
	}
	return true
}

// zoneRule is what a label of a volume requires of the nodes, according to VolumeZone.
type zoneRule struct {
	key    string
	values []string
}

// zoneLabels are the labels that VolumeZone reads, each with the one that a node may have instead.
var zoneLabels = [...]struct{ key, instead string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{corev1.LabelTopologyZone, corev1.LabelTopologyZone}, {corev1.LabelTopologyRegion, corev1.LabelTopologyRegion},
}

// zoneDelimiter separates the zones in a label of a volume.
const zoneDelimiter = "__"

// appendZoneRules appends what the labels of a volume require.
func appendZoneRules(to []zoneRule, of *corev1.PersistentVolume) []zoneRule {
	for _, label := range zoneLabels {
		value, ok := of.Labels[label.key]
		if !ok {
			continue
		}
		values := strings.Split(value, zoneDelimiter)
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		if !slices.Contains(values, "") { // the plugin ignores what it cannot parse
			to = append(to, zoneRule{label.key, values})
		}
	}
	return to
}

// volumeRules are conditions of volumes on the labels of the node that are likely to be shared by
// many volumes. They are part of the key of the pod's class: the rows of the class have only nodes
// that meet them, so that a decision need not look at all nodes.
type volumeRules struct {
	affinities []volumeAffinity
	zones      []zoneRule
}

func (v *volumeRules) write(w *mapkey.Writer) {
	w.Number(int64(len(v.affinities)))
	for i := range v.affinities {
		v.affinities[i].write(w)
	}
	w.Number(int64(len(v.zones)))
	for i := range v.zones {
		w.Text(v.zones[i].key)
		writeTexts(w, v.zones[i].values)
	}
}

// clone returns a copy that later pods do not change.
func (v *volumeRules) clone() volumeRules {
	return volumeRules{slices.Clone(v.affinities), slices.Clone(v.zones)}
}

func (v *volumeRules) match(node *corev1.Node) bool {
	for i := range v.affinities {
		if !v.affinities[i].match(node) {
			return false
		}
	}
	return len(v.zones) == 0 || !hasZone(node) || v.inZones(node)
}

// hasZone reports whether a node has a label that VolumeZone reads. The plugin accepts the others.
func hasZone(node *corev1.Node) bool {
	for _, label := range zoneLabels {
		if _, ok := node.Labels[label.key]; ok {
			return true
		}
	}
	return false
}

func (v *volumeRules) inZones(node *corev1.Node) bool {
	for i := range v.zones {
		rule := &v.zones[i]
		value, ok := node.Labels[rule.key]
		for _, label := range zoneLabels {
			if !ok && label.key == rule.key {
				value, ok = node.Labels[label.instead]
			}
		}
		if !ok || !slices.Contains(rule.values, value) {
			return false
		}
	}
	return true
}
