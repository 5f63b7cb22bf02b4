// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// AnnotationRequired is the annotation of PodGroups whose value is the key of a node label: all
	// pods of the group get nodes with the same value of it.
	AnnotationRequired = "livesched.io/required-topology"
	// AnnotationPreferred is the annotation of PodGroups whose value is keys of node labels,
	// separated by commas, from the nearest to the farthest: the pods get nodes with the same value
	// of the first key for which the group fits.
	AnnotationPreferred = "livesched.io/preferred-topology"
)

// maxPreferred is how many keys an annotation may have.
const maxPreferred = 4

// Topology is how near to each other the pods of a group have to be.
type Topology struct {
	// Required is the key of a node label, "" if there is none. Preferred are keys, by preference.
	Required  string
	Preferred []string
}

func (t *Topology) equal(other *Topology) bool {
	return t.Required == other.Required && slices.Equal(t.Preferred, other.Preferred)
}

// CheckKeys returns an error unless these are keys of labels, and not too many.
func CheckKeys(keys ...string) error {
	for _, key := range keys {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return fmt.Errorf("%q is not the key of a label: %s", key, strings.Join(problems, "; "))
		}
	}
	if len(keys) > maxPreferred {
		return fmt.Errorf("at most %d keys are allowed", maxPreferred)
	}
	return nil
}

// topologyOf reads the annotations of a PodGroup.
func topologyOf(annotations map[string]string) (t Topology, err error) {
	if t.Required = annotations[AnnotationRequired]; t.Required != "" {
		if err := CheckKeys(t.Required); err != nil {
			return Topology{}, fmt.Errorf("annotation %s: %w", AnnotationRequired, err)
		}
	}
	if annotations[AnnotationPreferred] == "" {
		return t, nil
	}
	for key := range strings.SplitSeq(annotations[AnnotationPreferred], ",") {
		t.Preferred = append(t.Preferred, strings.TrimSpace(key))
	}
	if err := CheckKeys(t.Preferred...); err != nil {
		return Topology{}, fmt.Errorf("annotation %s: %w", AnnotationPreferred, err)
	}
	return t, nil
}

// Domain is a part of the cluster: the nodes with certain labels. The empty Domain is all of it.
type Domain []DomainLabel

// DomainLabel is a label of the nodes of a Domain.
type DomainLabel struct{ Key, Value string }

// String returns the labels as key=value, separated by commas.
func (d Domain) String() string { return string(d.AppendTo(nil)) }

// AppendTo appends what String returns.
func (d Domain) AppendTo(text []byte) []byte {
	for i, l := range d {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, l.Key...), '='), l.Value...)
	}
	return text
}

// ParseDomain returns the domain that String describes. Labels have neither '=' nor ','.
func ParseDomain(text string) (d Domain) {
	for label := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(label, "=")
		d = append(d, DomainLabel{Key: key, Value: value})
	}
	return d
}

// And returns the part of the domain that is in another one, too.
func (d Domain) And(other Domain) Domain {
	both := slices.Clone(d)
	for _, l := range other {
		if !slices.Contains(both, l) {
			both = append(both, l)
		}
	}
	return both
}

// Contains reports whether a node is in the domain.
func (d Domain) Contains(node *corev1.Node) bool {
	return !slices.ContainsFunc(d, func(l DomainLabel) bool {
		value, has := node.Labels[l.Key]
		return !has || value != l.Value
	})
}

// Restrict returns a pod that fits on the nodes of the domain only, and else is the same. It shares
// everything but its affinity with the pod.
func (d Domain) Restrict(pod *corev1.Pod) *corev1.Pod {
	if len(d) == 0 {
		return pod
	}
	var affinity corev1.Affinity
	if pod.Spec.Affinity != nil {
		affinity = *pod.Spec.Affinity
	}
	var ofNodes corev1.NodeAffinity
	if affinity.NodeAffinity != nil {
		ofNodes = *affinity.NodeAffinity
	}
	ofNodes.RequiredDuringSchedulingIgnoredDuringExecution = d.and(
		ofNodes.RequiredDuringSchedulingIgnoredDuringExecution)
	affinity.NodeAffinity = &ofNodes
	restricted := *pod
	restricted.Spec.Affinity = &affinity
	return &restricted
}

// and returns a selector of the nodes of the domain that another one selects, if it is not nil.
func (d Domain) and(selector *corev1.NodeSelector) *corev1.NodeSelector {
	var of []corev1.NodeSelectorRequirement
	for _, l := range d {
		of = append(of, corev1.NodeSelectorRequirement{Key: l.Key, Operator: corev1.NodeSelectorOpIn,
			Values: []string{l.Value}})
	}
	if selector == nil {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: of}}}
	}
	both := &corev1.NodeSelector{}
	for _, term := range selector.NodeSelectorTerms {
		if len(term.MatchExpressions)+len(term.MatchFields) > 0 { // an empty term selects nothing
			term.MatchExpressions = slices.Concat(term.MatchExpressions, of)
		}
		both.NodeSelectorTerms = append(both.NodeSelectorTerms, term)
	}
	return both
}

// Wanted is what a group wants of a domain.
type Wanted struct {
	// Demand is what the pods request. nil: resources do not count.
	Demand *Demand
	// Needed is how many pods must be placed.
	Needed int
	// On are the nodes of pods of the group that have one: only their domains count, if there are
	// any. The domains of the nodes in First come first.
	On, First sets.Set[string]
}

// Candidates returns the domains in which a group may be placed, in the order in which to try them:
// the nearest ones first, among these the ones that have room for the most pods of the group, then
// those of which the largest share is allocated, and then those with the least room, so that large
// ones stay free for large groups. kube-scheduler's plugins PodGroupPodsCount and NodeResourcesFit
// score placements by the first two; it adds the scores up. If the resources suffice somewhere, but
// only on nodes that do not admit the pods, that is the domain with the most room: there, the pods
// find out why they do not fit.
//
// most is the most room that a domain has if none has enough.
func (t *Topology) Candidates(nodes []fwk.NodeInfo, w *Wanted) (domains []Domain, most int) {
	var closest *part
	for _, keys := range t.levels() {
		if len(keys) == 0 {
			return append(domains, nil), 0
		}
		var level []part
		for _, p := range w.partsOf(nodes, keys) {
			switch {
			case p.fits < w.Needed:
				most = max(most, p.fits)
			case p.room >= w.Needed:
				if w.Demand != nil {
					p.allocated = w.Demand.allocated(p.nodes, p.placed)
				}
				level = append(level, p)
			case closest == nil || p.room > closest.room:
				closest = &p
			}
		}
		domains = append(domains, ordered(level)...)
	}
	if len(domains) == 0 && closest != nil {
		domains = append(domains, closest.domain)
	}
	return domains, most
}

// CandidatesWithout is Candidates for a group for which other pods may leave: nodes are Freed. The
// domains with the most room as they are come first, since they need the fewest evictions. No pod
// is evicted for a topology that is only preferred.
func (t *Topology) CandidatesWithout(nodes []fwk.NodeInfo, w *Wanted) []Domain {
	if w.Demand != nil && w.Demand.measure(nodes).room < w.Needed {
		return nil
	}
	if t.Required == "" {
		return []Domain{nil}
	}
	var level []part
	for _, p := range w.partsOf(nodes, []string{t.Required}) {
		if p.room < w.Needed {
			continue
		}
		if w.Demand != nil {
			for i, node := range p.nodes {
				p.nodes[i] = Current(node)
			}
			p.capacity = -w.Demand.measure(p.nodes).capacity
		}
		level = append(level, p)
	}
	return ordered(level)
}

// ordered returns the domains of parts in the order in which to try them.
func ordered(parts []part) []Domain {
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.first, a.first), cmp.Compare(b.room, a.room),
			cmp.Compare(b.allocated, a.allocated), cmp.Compare(a.capacity, b.capacity),
			cmp.Compare(a.domain.String(), b.domain.String()))
	})
	domains := make([]Domain, len(parts))
	for i := range parts {
		domains[i] = parts[i].domain
	}
	return domains
}

// levels returns the keys by which to divide the cluster, the nearest level first. The empty one is
// the whole cluster.
func (t *Topology) levels() (levels [][]string) {
	var required []string
	if t.Required != "" {
		required = []string{t.Required}
	}
	for _, key := range t.Preferred {
		if key != t.Required {
			levels = append(levels, append(slices.Clone(required), key))
		}
	}
	return append(levels, required)
}

// part is the nodes of a domain.
type part struct {
	domain Domain
	nodes  []fwk.NodeInfo
	measured
	// allocated is the share of the scored resources that is allocated after the pods are placed.
	allocated int64
	// taken means that pods of the group are there, and first is on how many nodes it has to come
	// first.
	taken bool
	first int
}

// partsOf divides the nodes that have all labels by their values, and measures the parts. If there
// are nodes in On, only the parts that have one of them count.
func (w *Wanted) partsOf(nodes []fwk.NodeInfo, keys []string) []part {
	index := map[[MaxKeys]string]int{}
	var parts []part
	taken := false
	for _, info := range nodes {
		values, has := valuesOf(info.Node(), keys)
		if !has {
			continue
		}
		i, known := index[values]
		if !known {
			i = len(parts)
			index[values] = i
			parts = append(parts,
				part{domain: domainOf(keys, values), measured: measured{fits: w.Needed, room: w.Needed}})
		}
		parts[i].nodes = append(parts[i].nodes, info)
		if w.On.Has(info.Node().Name) {
			taken, parts[i].taken = true, true
		}
		if w.First.Has(info.Node().Name) {
			parts[i].first++
		}
	}
	if taken {
		parts = slices.DeleteFunc(parts, func(p part) bool { return !p.taken })
	}
	for i := range parts {
		if w.Demand != nil {
			parts[i].measured = w.Demand.measure(parts[i].nodes)
		}
	}
	return parts
}

// MaxKeys is how many keys a level has at most: the required one, and one that is preferred.
const MaxKeys = 2

// valuesOf returns the values that a node has for keys. has is false if it lacks one.
func valuesOf(node *corev1.Node, keys []string) (values [MaxKeys]string, has bool) {
	for i, key := range keys {
		if values[i], has = node.Labels[key]; !has {
			return values, false
		}
	}
	return values, true
}

func domainOf(keys []string, values [MaxKeys]string) Domain {
	domain := make(Domain, len(keys))
	for i, key := range keys {
		domain[i] = DomainLabel{Key: key, Value: values[i]}
	}
	return domain
}
