// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"k8s.io/apimachinery/pkg/util/sets"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// DefaultMaxMentions is the number of label keys above which all labels of a namespace's pods
// count.
const DefaultMaxMentions = 256

// Mentions are the keys of pod labels that some selector reads: of affinity terms of pods that run
// or were seen, of topology spread constraints, of services and controllers. Labels under other
// keys distinguish no two pods, such as those that each pod of a Job has for itself.
//
// A key counts in the namespaces in which the selector selects pods: that of the pod, service or
// controller, or those that an affinity term names. Terms that may select pods of any namespace
// make a key count everywhere. So nobody makes labels of other namespaces count whose pods have no
// affinity to pods there.
//
// Keys are added until a namespace has too many. Then all labels of its pods count, until the
// selectors of pods on nodes and of services read few enough: Mentions forgets the other keys.
//
// A caller that treats pods with different labels as equal must reconsider those that Changes
// returns, and must report the selectors of pending pods and constraints again. Mentions belongs to
// the goroutine of the scheduling loop.
type Mentions struct {
	most       int
	everywhere *mentioned
	in         map[string]*mentioned // by namespace
	changes    Changes
	// epoch and read are the position up to which signatures have been read.
	epoch uint64
	read  int
	// reads counts the calls of ReadSnapshot. forgotten counts how often keys were forgotten.
	reads, forgotten int
	// round and room are for prune.
	round, room int
}

// mentioned are the keys that count in one namespace, or everywhere.
type mentioned struct {
	keys sets.Set[string]
	all  bool
	// since is the value of Mentions.reads when all last changed, or was last reconsidered.
	// recountAfter is the number of reads after which to reconsider it.
	since, recountAfter int
	// recounted is true if not all labels count any more, after they did.
	recounted bool
	// round is the value of Mentions.round when the namespace was last used.
	round int
}

// NewMentions returns empty mentions. All labels of a namespace count once there are more than most
// keys (0: DefaultMaxMentions).
func NewMentions(most int) *Mentions {
	if most == 0 {
		most = DefaultMaxMentions
	}
	m := &Mentions{most: most, in: map[string]*mentioned{}, room: minPruned}
	m.everywhere = m.newMentioned()
	return m
}

func (m *Mentions) newMentioned() *mentioned {
	return &mentioned{keys: sets.New[string](), since: m.reads, recountAfter: firstRecount, round: m.round}
}

func (n *mentioned) has(key string) bool { return n != nil && (n.all || n.keys.Has(key)) }

// Labels are the labels of a namespace's pods that count.
type Labels struct{ everywhere, own *mentioned }

// In returns the labels that count in a namespace, until Mentions changes.
func (m *Mentions) In(namespace string) Labels { return Labels{m.everywhere, m.in[namespace]} }

// Has reports whether the label of a key counts.
func (l Labels) Has(key string) bool { return l.everywhere.has(key) || l.own.has(key) }

// All reports whether all labels count.
func (l Labels) All() bool { return l.everywhere.all || l.own != nil && l.own.all }

// Most returns the number of keys that count in the namespace with the most. If all labels count in
// a namespace, it is greater than the number of keys that may.
func (m *Mentions) Most() int {
	most := m.size(m.everywhere)
	for _, n := range m.in {
		most = max(most, m.size(n))
	}
	return most
}

func (m *Mentions) size(n *mentioned) int {
	if n.all {
		return m.most + 1
	}
	return n.keys.Len()
}

// Changes describe in which namespaces other labels count than before.
type Changes struct {
	mentions *Mentions
	// everything is true if that may be all. widened are keys that now count everywhere.
	everything bool
	widened    sets.Set[string]
	// namespaces are those in which keys have changed, forgotten those in which keys were
	// forgotten.
	namespaces, forgotten sets.Set[string]
}

// Changes returns the changes since its last call, and whether there are any. The result is valid
// until Mentions changes again.
func (m *Mentions) Changes() (Changes, bool) {
	changes, changed := m.changes, m.Changing()
	changes.mentions = m
	m.changes = Changes{}
	return changes, changed
}

// Changing reports whether there are changes that Changes has not returned.
func (m *Mentions) Changing() bool {
	c := &m.changes
	return c.everything || len(c.widened)+len(c.namespaces) > 0
}

// Concern reports whether a pod must be reconsidered: other labels of it count now, or its
// selectors read keys that were forgotten.
func (c *Changes) Concern(pod *schedframework.PodInfo) bool {
	namespace := pod.Pod.Namespace
	if c.everything || c.namespaces.Has(namespace) {
		return true
	}
	own := c.mentions.in[namespace]
	for key := range c.widened {
		if !own.has(key) {
			return true
		}
	}
	return len(c.forgotten) > 0 && c.selectIn(pod)
}

// selectIn reports whether an affinity term of a pod names a namespace in which keys were
// forgotten.
func (c *Changes) selectIn(pod *schedframework.PodInfo) bool {
	for term := range ownTerms(pod) {
		names, _ := namespacesOf(term)
		for name := range names {
			if c.forgotten.Has(name) {
				return true
			}
		}
	}
	return false
}

// Namespaces returns the namespaces in which keys have changed, "" if they have changed everywhere.
func (c *Changes) Namespaces() []string {
	names := c.namespaces.UnsortedList()
	if c.everything || len(c.widened) > 0 {
		names = append(names, "")
	}
	return names
}

func insert(to *sets.Set[string], name string) {
	if *to == nil {
		*to = sets.New[string]()
	}
	to.Insert(name)
}

// add adds a key that counts in a namespace.
func (m *Mentions) add(namespace, key string) {
	if m.In(namespace).Has(key) {
		return
	}
	n := m.in[namespace]
	if n == nil {
		n = m.newMentioned()
		m.in[namespace] = n
	}
	n.keys.Insert(key)
	insert(&m.changes.namespaces, namespace)
	if n.keys.Len() > m.most {
		m.addAll(namespace)
	}
}

// addAll makes all labels of a namespace count from now on.
func (m *Mentions) addAll(namespace string) {
	n := m.in[namespace]
	if n == nil {
		n = m.newMentioned()
		m.in[namespace] = n
	}
	if n.all {
		return
	}
	m.takeAll(n)
	if n.recounted && m.changes.forgotten.Has(namespace) { // nobody has seen yet that not all counted
		m.changes.forgotten.Delete(namespace)
		m.changes.namespaces.Delete(namespace)
		return
	}
	insert(&m.changes.namespaces, namespace)
}

// addEverywhere adds a key that counts in all namespaces. It keeps the key in those that have it
// already.
func (m *Mentions) addEverywhere(key string) {
	if m.everywhere.has(key) {
		return
	}
	m.everywhere.keys.Insert(key)
	insert(&m.changes.widened, key)
	if m.everywhere.keys.Len() > m.most {
		m.takeAll(m.everywhere)
		m.changes.everything = true
	}
}

// takeAll makes all labels count. If the last recount held for as long as it took, the next one
// need not wait longer than the first.
func (m *Mentions) takeAll(n *mentioned) {
	if m.reads-n.since >= n.recountAfter {
		n.recountAfter = firstRecount
	}
	n.all, n.keys, n.since = true, nil, m.reads
}
