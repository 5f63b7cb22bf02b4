// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// DefaultMaxMentions is the number of label keys above which all labels of all pods count.
const DefaultMaxMentions = 256

// While all labels count, Mentions looks after firstRecount calls of ReadSnapshot whether they
// still must. The number doubles each time, up to lastRecount.
const (
	firstRecount = 1 << 10
	lastRecount  = 1 << 20
)

// Mentions are the keys of pod labels that some selector reads: of affinity terms of pods that run
// or were seen, of topology spread constraints, of services and controllers. Labels under other
// keys distinguish no two pods, such as those that each pod of a Job has for itself.
//
// Keys are added until there are too many. Then all labels count, until the selectors of the pods
// on nodes read few enough: Mentions forgets the other keys. A caller that treats pods with
// different labels as equal must reconsider when Changed returns true, and must report the
// selectors of pending pods, constraints and services again. Mentions belongs to the goroutine of
// the scheduling loop.
type Mentions struct {
	keys    sets.Set[string]
	most    int
	all     bool
	changed bool
	// epoch and read are the position up to which signatures have been read.
	epoch uint64
	read  int
	// calls counts the calls of ReadSnapshot while all labels count, up to recountAfter.
	calls, recountAfter int
	// forgotten counts how often keys were forgotten.
	forgotten int
}

// NewMentions returns empty mentions. All labels count once there are more than most keys (0:
// DefaultMaxMentions).
func NewMentions(most int) *Mentions {
	if most == 0 {
		most = DefaultMaxMentions
	}
	return &Mentions{keys: sets.New[string](), most: most, recountAfter: firstRecount}
}

// Has reports whether the label of a key counts.
func (m *Mentions) Has(key string) bool { return m.all || m.keys.Has(key) }

// All reports whether all labels count.
func (m *Mentions) All() bool { return m.all }

// Len returns the number of keys whose labels count. If all labels count, it is greater than the
// number of keys that may.
func (m *Mentions) Len() int {
	if m.all {
		return m.most + 1
	}
	return m.keys.Len()
}

// Changed reports whether other labels count than at its last call.
func (m *Mentions) Changed() bool {
	changed := m.changed
	m.changed = false
	return changed
}

// add adds a key.
func (m *Mentions) add(key string) {
	if m.all || m.keys.Has(key) {
		return
	}
	m.keys.Insert(key)
	m.changed = true
	if m.keys.Len() > m.most {
		m.addAll()
	}
}

// addAll makes all labels count from now on.
func (m *Mentions) addAll() {
	if !m.all {
		m.all, m.changed, m.keys, m.calls = true, true, nil, 0
	}
}

// recount makes only the labels count that the pods on nodes mention, if these are at most half as
// many as may count: pods that mentioned the others may be gone.
func (m *Mentions) recount(signatures *cache.Signatures) {
	keys := sets.New[string]()
	for of := range withTerms(signatures, 0) {
		for key := range termKeys(of.Terms) {
			keys.Insert(key)
		}
		if keys.Len() > m.most/2 {
			return
		}
	}
	m.all, m.changed, m.keys = false, true, keys
	m.forgotten++
}

// selectorKeys returns the keys that a selector reads, some of them more than once.
func selectorKeys(selector labels.Selector) iter.Seq[string] {
	return func(yield func(string) bool) {
		requirements, _ := selector.Requirements()
		for i := range requirements {
			if !yield(requirements[i].Key()) {
				return
			}
		}
	}
}

// ReadSnapshot adds the keys that the affinity terms of the pods in a snapshot read. It skips those
// that it has read before.
func (m *Mentions) ReadSnapshot(snapshot *cache.Snapshot) {
	signatures := snapshot.Signatures()
	if m.all {
		if m.calls++; m.calls < m.recountAfter {
			return
		}
		m.calls, m.recountAfter = 0, min(2*m.recountAfter, lastRecount)
		if m.recount(signatures); m.all {
			return
		}
	}
	if m.epoch != signatures.Epoch() {
		m.epoch, m.read = signatures.Epoch(), 0
	}
	for of := range withTerms(signatures, m.read) {
		m.ReadTerms(of.Terms)
	}
	m.read = len(signatures.WithTerms())
}

// withTerms returns the signatures with terms of pods in the snapshot, from a position on.
func withTerms(signatures *cache.Signatures, from int) iter.Seq[*cache.Signature] {
	return func(yield func(*cache.Signature) bool) {
		for _, id := range signatures.WithTerms()[from:] {
			if of := signatures.Of(id); !of.Gone() && !yield(of) {
				return
			}
		}
	}
}

// termKeys returns the keys that the affinity terms of a pod read, some of them more than once.
func termKeys(pod *schedframework.PodInfo) iter.Seq[string] {
	return func(yield func(string) bool) {
		for term := range ownTerms(pod) {
			for key := range selectorKeys(term.Selector) {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// ReadTerms adds the keys that the affinity terms of a pod read.
func (m *Mentions) ReadTerms(pod *schedframework.PodInfo) {
	for key := range termKeys(pod) {
		m.add(key)
	}
}

// CountNew returns the number of keys that do not count yet, and that the affinity terms and
// topology spread constraints of a pod read.
func (m *Mentions) CountNew(pod *schedframework.PodInfo) int {
	keys := sets.New[string]()
	count := func(key string) {
		if !m.Has(key) {
			keys.Insert(key)
		}
	}
	for key := range termKeys(pod) {
		count(key)
	}
	for i := range pod.Pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Pod.Spec.TopologySpreadConstraints[i]
		for _, key := range constraint.MatchLabelKeys {
			count(key)
		}
		if selector := constraint.LabelSelector; selector != nil {
			for key := range selector.MatchLabels {
				count(key)
			}
			for j := range selector.MatchExpressions {
				count(selector.MatchExpressions[j].Key)
			}
		}
	}
	return keys.Len()
}

// ReadServices adds the keys that the services in the pod's namespace select by, if the profile has
// default constraints for the pod: these apply to it together with the other pods of its services.
func (f *Factory) ReadServices(m *Mentions, pod *corev1.Pod) {
	if m.all || f.SpreadArgs == nil || len(pod.Spec.TopologySpreadConstraints) > 0 {
		return
	}
	if constraints, _ := defaults(f.SpreadArgs); len(constraints) > 0 {
		f.Sources.readServices(m, pod.Namespace)
	}
}

// readServices adds the keys that the services in a namespace select by, unless that was done since
// the last change of any service, and m has forgotten no keys since.
func (s *Sources) readServices(m *Mentions, namespace string) {
	owners := s.currentOwners()
	at := version(owners.serviceStore)
	if at == "" || at != owners.readAt || owners.forgotten != m.forgotten {
		owners.readAt, owners.read, owners.forgotten = at, sets.New[string](), m.forgotten
	}
	if owners.read.Has(namespace) {
		return
	}
	services, err := owners.services.Services(namespace).List(labels.Everything())
	if err != nil {
		m.addAll()
		return
	}
	for _, service := range services {
		for key := range service.Spec.Selector {
			m.add(key)
		}
	}
	owners.read.Insert(namespace)
}

// Mention adds the keys that the constraints read.
func (c *SpreadConstraints) Mention(m *Mentions) {
	for i := range c.pod.Spec.TopologySpreadConstraints {
		// The selector has only the matchLabelKeys that the pod has.
		for _, key := range c.pod.Spec.TopologySpreadConstraints[i].MatchLabelKeys {
			m.add(key)
		}
	}
	for _, rules := range [...][]rule{c.hard, c.soft} {
		for i := range rules {
			for key := range selectorKeys(rules[i].selector) {
				m.add(key)
			}
		}
	}
}
