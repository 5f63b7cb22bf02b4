// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// DefaultMaxMentions is how many label keys may be mentioned before all labels of all pods count.
const DefaultMaxMentions = 256

// Mentions are the keys of pod labels that some selector asks about: of affinity terms of pods that
// run or were seen, of topology spread constraints, of services and controllers. Labels under other
// keys tell no two pods apart, as those that every pod of a Job has for itself.
//
// Keys are added and stay. Whoever has taken pods with different labels for the same has to think
// again when Grown says so. It belongs to the goroutine of the scheduling loop.
type Mentions struct {
	keys  sets.Set[string]
	most  int
	all   bool
	grown bool
	// Up to where signatures were read.
	epoch uint64
	read  int
}

// NewMentions returns empty mentions. With more than so many keys (0: DefaultMaxMentions)
// all labels count.
func NewMentions(most int) *Mentions {
	if most == 0 {
		most = DefaultMaxMentions
	}
	return &Mentions{keys: sets.New[string](), most: most}
}

// Has reports whether the label of a key counts.
func (m *Mentions) Has(key string) bool { return m.all || m.keys.Has(key) }

// Grown reports whether labels count that did not when it was last asked.
func (m *Mentions) Grown() bool {
	grown := m.grown
	m.grown = false
	return grown
}

// add adds a key.
func (m *Mentions) add(key string) {
	if m.all || m.keys.Has(key) {
		return
	}
	m.keys.Insert(key)
	m.grown = true
	if m.keys.Len() > m.most {
		m.addAll()
	}
}

// addAll has all labels count from now on.
func (m *Mentions) addAll() {
	if !m.all {
		m.all, m.grown, m.keys = true, true, nil
	}
}

func (m *Mentions) addSelector(selector labels.Selector) {
	requirements, _ := selector.Requirements()
	for i := range requirements {
		m.add(requirements[i].Key())
	}
}

// ReadSnapshot adds what the affinity terms of the pods in a snapshot ask about, of those that it
// has not read before.
func (m *Mentions) ReadSnapshot(snapshot *cache.Snapshot) {
	if m.all {
		return
	}
	signatures := snapshot.Signatures()
	if m.epoch != signatures.Epoch() {
		m.epoch, m.read = signatures.Epoch(), 0
	}
	withTerms := signatures.WithTerms()
	for _, id := range withTerms[m.read:] {
		if of := signatures.Of(id); !of.Gone() {
			m.ReadTerms(of.Terms)
		}
	}
	m.read = len(withTerms)
}

// ReadTerms adds what the affinity terms of a pod ask about.
func (m *Mentions) ReadTerms(pod *schedframework.PodInfo) {
	for term := range ownTerms(pod) {
		m.addSelector(term.Selector)
	}
}

// ReadServices adds what the services in the pod's namespace ask about, if the profile has default
// constraints for the pod: these apply to it together with the other pods of its services.
func (t *Factory) ReadServices(m *Mentions, pod *corev1.Pod) {
	if m.all || t.SpreadArgs == nil || len(pod.Spec.TopologySpreadConstraints) > 0 {
		return
	}
	if constraints, _ := defaults(t.SpreadArgs); len(constraints) > 0 {
		t.Sources.readServices(m, pod.Namespace)
	}
}

// readServices adds what the services in a namespace ask about, unless that was done since any
// service has changed.
func (s *Sources) readServices(m *Mentions, namespace string) {
	owners := s.currentOwners()
	at := version(owners.serviceStore)
	if at == "" || at != owners.readAt {
		owners.readAt, owners.read = at, sets.New[string]()
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

// Mention adds what the constraints ask about.
func (c *SpreadConstraints) Mention(m *Mentions) {
	for i := range c.pod.Spec.TopologySpreadConstraints {
		// Of these a selector only has those that the pod has.
		for _, key := range c.pod.Spec.TopologySpreadConstraints[i].MatchLabelKeys {
			m.add(key)
		}
	}
	for _, rules := range [...][]rule{c.hard, c.soft} {
		for i := range rules {
			m.addSelector(rules[i].selector)
		}
	}
}
