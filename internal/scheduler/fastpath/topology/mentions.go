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

// DefaultMaxMentions is the number of label keys above which all labels of all pods count.
const DefaultMaxMentions = 256

// Mentions are the keys of pod labels that some selector reads: of affinity terms of pods that run
// or were seen, of topology spread constraints, of services and controllers. Labels under other
// keys distinguish no two pods, such as those that each pod of a Job has for itself.
//
// Keys are added and never removed. A caller that treats pods with different labels as equal must
// reconsider when Grown returns true. Mentions belongs to the goroutine of the scheduling loop.
type Mentions struct {
	keys  sets.Set[string]
	most  int
	all   bool
	grown bool
	// epoch and read are the position up to which signatures have been read.
	epoch uint64
	read  int
}

// NewMentions returns empty mentions. All labels count once there are more than most keys (0:
// DefaultMaxMentions).
func NewMentions(most int) *Mentions {
	if most == 0 {
		most = DefaultMaxMentions
	}
	return &Mentions{keys: sets.New[string](), most: most}
}

// Has reports whether the label of a key counts.
func (m *Mentions) Has(key string) bool { return m.all || m.keys.Has(key) }

// Grown reports whether labels count now that did not count at its last call.
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

// addAll makes all labels count from now on.
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

// ReadSnapshot adds the keys that the affinity terms of the pods in a snapshot read. It skips those
// that it has read before.
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

// ReadTerms adds the keys that the affinity terms of a pod read.
func (m *Mentions) ReadTerms(pod *schedframework.PodInfo) {
	for term := range ownTerms(pod) {
		m.addSelector(term.Selector)
	}
}

// ReadServices adds the keys that the services in the pod's namespace select by, if the profile has
// default constraints for the pod: these apply to it together with the other pods of its services.
func (t *Factory) ReadServices(m *Mentions, pod *corev1.Pod) {
	if m.all || t.SpreadArgs == nil || len(pod.Spec.TopologySpreadConstraints) > 0 {
		return
	}
	if constraints, _ := defaults(t.SpreadArgs); len(constraints) > 0 {
		t.Sources.readServices(m, pod.Namespace)
	}
}

// readServices adds the keys that the services in a namespace select by, unless that was done since
// the last change of any service.
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
			m.addSelector(rules[i].selector)
		}
	}
}
