// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// maxNamed is the number of namespaces above which a term that names them counts as one that
// selects pods everywhere, so that no pod adds its keys to a great number of namespaces.
const maxNamed = 16

// namespacesOf returns the namespaces in which an affinity term selects pods. If everywhere is
// true, it may do so in all of them.
func namespacesOf(term *fwk.AffinityTerm) (names sets.Set[string], everywhere bool) {
	if !labels.MatchesNothing(term.NamespaceSelector) || term.Namespaces.Len() > maxNamed {
		return nil, true
	}
	return term.Namespaces, false
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
// that it has read before. If all labels count in a namespace, for which a decision is about to be
// made, it looks now and then whether they still must. Call ReadServices after it.
func (m *Mentions) ReadSnapshot(snapshot *cache.Snapshot, namespace string) {
	m.reads++
	if n := m.in[namespace]; n != nil {
		n.round = m.round
	}
	m.prune()
	signatures := snapshot.Signatures()
	m.recountEverywhere(signatures)
	m.recount(signatures, namespace)
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

// ReadTerms adds the keys that the affinity terms of a pod read.
func (m *Mentions) ReadTerms(pod *schedframework.PodInfo) {
	for term := range ownTerms(pod) {
		names, everywhere := namespacesOf(term)
		for key := range selectorKeys(term.Selector) {
			if everywhere {
				m.addEverywhere(key)
			}
			for name := range names {
				m.add(name, key)
			}
		}
	}
}

// CountNew returns the number of keys that do not count yet, and that the affinity terms and
// topology spread constraints of a pod read: in the namespace in which there are the most of them.
func (m *Mentions) CountNew(pod *schedframework.PodInfo) int {
	found := map[string]sets.Set[string]{} // by namespace; "" is everywhere
	most := 0
	count := func(namespace, key string) {
		if m.everywhere.has(key) || m.in[namespace].has(key) {
			return
		}
		keys := found[namespace]
		insert(&keys, key)
		found[namespace] = keys
		most = max(most, keys.Len())
	}
	for term := range ownTerms(pod) {
		names, everywhere := namespacesOf(term)
		for key := range selectorKeys(term.Selector) {
			if everywhere {
				count("", key)
			}
			for name := range names {
				count(name, key)
			}
		}
	}
	for key := range constraintKeys(pod.Pod) {
		count(pod.Pod.Namespace, key)
	}
	return most
}

// constraintKeys returns the keys that the topology spread constraints of a pod read, some of them
// more than once.
func constraintKeys(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range pod.Spec.TopologySpreadConstraints {
			constraint := &pod.Spec.TopologySpreadConstraints[i]
			for _, key := range constraint.MatchLabelKeys {
				if !yield(key) {
					return
				}
			}
			if constraint.LabelSelector == nil {
				continue
			}
			for key := range constraint.LabelSelector.MatchLabels {
				if !yield(key) {
					return
				}
			}
			for j := range constraint.LabelSelector.MatchExpressions {
				if !yield(constraint.LabelSelector.MatchExpressions[j].Key) {
					return
				}
			}
		}
	}
}

// ReadServices adds the keys that the services in the pod's namespace select by, if the profile has
// default constraints for the pod: these apply to it together with the other pods of its services.
func (f *Factory) ReadServices(m *Mentions, pod *corev1.Pod) {
	if f.SpreadArgs == nil || len(pod.Spec.TopologySpreadConstraints) > 0 || m.In(pod.Namespace).All() {
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
		m.addAll(namespace)
		return
	}
	for _, service := range services {
		for key := range service.Spec.Selector {
			m.add(namespace, key)
		}
	}
	owners.read.Insert(namespace)
}

// Mention adds the keys that the constraints read.
func (c *SpreadConstraints) Mention(m *Mentions) {
	namespace := c.pod.Namespace
	for i := range c.pod.Spec.TopologySpreadConstraints {
		// The selector has only the matchLabelKeys that the pod has.
		for _, key := range c.pod.Spec.TopologySpreadConstraints[i].MatchLabelKeys {
			m.add(namespace, key)
		}
	}
	for _, rules := range [...][]rule{c.hard, c.soft} {
		for i := range rules {
			for key := range selectorKeys(rules[i].selector) {
				m.add(namespace, key)
			}
		}
	}
}
