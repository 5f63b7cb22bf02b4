// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// scope holds the namespaces that the affinity terms of a class's pods select, and the labels of
// the pods' own namespace, by which the terms of other pods select it.
type scope struct {
	sources *Sources
	name    string
	own     *corev1.Namespace // nil if it does not exist
	labels  labels.Set
	// selected are the namespace selectors of the terms, with the namespaces that they match.
	selected []selectedNamespaces
	at       string // the version of all namespaces at which selected was computed
}

type selectedNamespaces struct {
	selector labels.Selector
	names    sets.Set[string]
}

// newScope looks up the namespaces that the pod's terms select, and adds them to those that the
// terms name.
func (s *Sources) newScope(info *schedframework.PodInfo) (*scope, error) {
	p := &scope{sources: s, name: info.Pod.Namespace, at: version(s.nsStore)}
	p.own = p.current()
	if p.own != nil {
		p.labels = labels.Set(p.own.Labels)
	}
	for term := range ownTerms(info) {
		// The selector matches nothing, or all namespaces, which the term itself handles.
		if labels.MatchesNothing(term.NamespaceSelector) || term.NamespaceSelector.Empty() {
			continue
		}
		names, err := s.find(term.NamespaceSelector)
		if err != nil {
			return nil, err
		}
		p.selected = append(p.selected, selectedNamespaces{term.NamespaceSelector, names})
		for name := range names {
			term.Namespaces.Insert(name)
		}
		term.NamespaceSelector = labels.Nothing()
	}
	return p, nil
}

// ownTerms yields all affinity terms of a pod.
func ownTerms(info *schedframework.PodInfo) func(func(*fwk.AffinityTerm) bool) {
	return func(yield func(*fwk.AffinityTerm) bool) {
		for _, terms := range [...][]fwk.AffinityTerm{info.RequiredAffinityTerms, info.RequiredAntiAffinityTerms} {
			for i := range terms {
				if !yield(&terms[i]) {
					return
				}
			}
		}
		for _, terms := range [...][]fwk.WeightedAffinityTerm{info.PreferredAffinityTerms,
			info.PreferredAntiAffinityTerms} {
			for i := range terms {
				if !yield(&terms[i].AffinityTerm) {
					return
				}
			}
		}
	}
}

// current returns the namespace of the class's pods, or nil if it does not exist.
func (s *scope) current() *corev1.Namespace {
	namespace, err := s.sources.namespaces.Get(s.name)
	if err != nil {
		return nil
	}
	return namespace
}

func (s *Sources) find(selector labels.Selector) (sets.Set[string], error) {
	namespaces, err := s.namespaces.List(selector)
	if err != nil {
		return nil, err
	}
	names := sets.New[string]()
	for _, namespace := range namespaces {
		names.Insert(namespace.Name)
	}
	return names, nil
}

// changed reports whether the namespace's labels or the selected namespaces have changed.
func (s *scope) changed() bool {
	if own := s.current(); own != s.own {
		if own == nil || s.own == nil || !maps.Equal(own.Labels, s.own.Labels) {
			return true
		}
		s.own = own
	}
	if len(s.selected) == 0 {
		return false
	}
	at := version(s.sources.nsStore)
	if at != "" && at == s.at {
		return false
	}
	for _, of := range s.selected {
		if names, err := s.sources.find(of.selector); err != nil || !names.Equal(of.names) {
			return true
		}
	}
	s.at = at
	return false
}
