// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// While all labels of a namespace count, Mentions looks after firstRecount calls of ReadSnapshot
// whether they still must. The number doubles each time, up to lastRecount.
const (
	firstRecount = 1 << 10
	lastRecount  = 1 << 16
)

// recount makes only those labels of a namespace count that the pods on nodes mention, if it is
// time and these are at most half as many as may count: pods that mentioned the others may be gone.
// If the namespace's services mention too many, reading them makes all labels count again.
func (m *Mentions) recount(signatures *cache.Signatures, namespace string) {
	n := m.in[namespace]
	if n == nil || !m.due(n) {
		return
	}
	keys, few := m.keysOf(signatures, func(names sets.Set[string], everywhere bool) bool {
		return !everywhere && names.Has(namespace)
	})
	if !few {
		return
	}
	n.all, n.keys, n.recounted = false, keys, true
	m.forget(namespace)
}

// recountEverywhere does the same for the labels that count everywhere. Other labels may count in
// each namespace, so all selectors are read again.
func (m *Mentions) recountEverywhere(signatures *cache.Signatures) {
	if !m.due(m.everywhere) {
		return
	}
	keys, few := m.keysOf(signatures, func(_ sets.Set[string], everywhere bool) bool { return everywhere })
	if !few {
		return
	}
	m.everywhere.all, m.everywhere.keys = false, keys
	m.changes.everything = true
	m.read = 0
	m.forgotten++
}

// due reports whether it is time to reconsider that all labels count.
func (m *Mentions) due(n *mentioned) bool {
	if !n.all || m.reads-n.since < n.recountAfter {
		return false
	}
	n.since, n.recountAfter = m.reads, min(2*n.recountAfter, lastRecount)
	return true
}

// keysOf returns the keys that the terms of pods on nodes read in certain namespaces, and whether
// these are at most half as many as may count.
func (m *Mentions) keysOf(signatures *cache.Signatures,
	wanted func(names sets.Set[string], everywhere bool) bool) (keys sets.Set[string], few bool) {
	keys = sets.New[string]()
	for of := range withTerms(signatures, 0) {
		for term := range ownTerms(of.Terms) {
			if !wanted(namespacesOf(term)) {
				continue
			}
			for key := range selectorKeys(term.Selector) {
				keys.Insert(key)
			}
			if keys.Len() > m.most/2 {
				return nil, false
			}
		}
	}
	return keys, true
}

// forget records that keys of a namespace were forgotten.
func (m *Mentions) forget(namespace string) {
	insert(&m.changes.namespaces, namespace)
	insert(&m.changes.forgotten, namespace)
	m.forgotten++
}

// minPruned is the number of namespaces up to which none is removed.
const minPruned = 1 << 10

// prune removes the namespaces that were not used since the last time, once there are twice as many
// as it left then: many namespaces live for one build or test.
func (m *Mentions) prune() {
	if len(m.in) <= m.room {
		return
	}
	for namespace, n := range m.in {
		if n.round != m.round {
			delete(m.in, namespace)
			m.forget(namespace)
			m.read = 0 // pods on nodes may mention it
		}
	}
	m.round++
	m.room = max(minPruned, 2*len(m.in))
}
