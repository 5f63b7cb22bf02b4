// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// This file matches pods against terms. The terms of the class's own pods already name the
// namespaces that they select, so they are matched without labels of a namespace. The terms of
// other pods are matched with the labels of the class's namespace.

// matchesAll reports whether a pod matches all of a class's required affinity terms. It returns
// false if there are none.
func matchesAll(terms []fwk.AffinityTerm, pod *corev1.Pod) bool {
	for i := range terms {
		if !terms[i].Matches(pod, nil) {
			return false
		}
	}
	return len(terms) > 0
}

// read computes the contribution of the pods in a slot.
func (t *affinity) read(slot cache.Slot) {
	signatures := t.sources.snapshot.Signatures()
	t.effects.look(signatures)
	for _, id := range signatures.On(slot) {
		known, meaning := t.effects.has(id)
		if !known {
			meaning = t.learn(id, signatures.Of(id))
		}
		if !meaning {
			continue
		}
		for _, e := range t.effects.effects[id] {
			e.axis.found.add(e.amounts)
		}
	}
}

// learn computes the contribution of the pods of a signature, and reports whether there is any. For
// most pods only the labels matter, and only to classes with terms.
func (t *affinity) learn(id cache.SignatureID, of *cache.Signature) bool {
	if t.all && !of.Gone() {
		t.readOwn(t.sources.podOf(of))
	}
	if of.Terms != nil {
		t.readTheirs(of.Terms)
	}
	var effects []effect
	for _, x := range t.axes {
		if x.learnt != (amounts{}) {
			effects = append(effects, effect{x, x.learnt})
			x.learnt = amounts{}
		}
	}
	if effects == nil {
		t.effects.rememberNothing(id)
		return false
	}
	t.effects.remember(id, effects)
	return true
}

func (a *amounts) add(b amounts) {
	a.affine += b.affine
	a.hostile += b.hostile
	a.guarded += b.guarded
	a.wanted += b.wanted
}

// readOwn matches the class's own terms against a pod.
func (t *affinity) readOwn(pod *corev1.Pod) {
	if len(t.required) > 0 && matchesAll(t.pod.RequiredAffinityTerms, pod) {
		for _, x := range t.required {
			x.learnt.affine++
		}
	}
	for i := range t.pod.RequiredAntiAffinityTerms {
		if term := &t.pod.RequiredAntiAffinityTerms[i]; term.Matches(pod, nil) {
			if x := t.axisOf(term.TopologyKey); x != nil {
				x.learnt.hostile++
			}
		}
	}
	t.want(t.pod.PreferredAffinityTerms, pod, nil, 1)
	t.want(t.pod.PreferredAntiAffinityTerms, pod, nil, -1)
}

// readTheirs matches a pod's terms against the class's pods.
func (t *affinity) readTheirs(other *schedframework.PodInfo) {
	pod := t.pod.Pod
	terms := other.RequiredAntiAffinityTerms
	for i := range terms {
		if terms[i].Matches(pod, t.labels) {
			if x := t.axisOf(terms[i].TopologyKey); x != nil {
				x.learnt.guarded++
			}
		}
	}
	if !t.scores {
		return
	}
	if t.hardWeight > 0 {
		terms := other.RequiredAffinityTerms
		for i := range terms {
			if terms[i].Matches(pod, t.labels) {
				if x := t.axisOf(terms[i].TopologyKey); x != nil {
					x.learnt.wanted += int64(t.hardWeight)
				}
			}
		}
	}
	t.want(other.PreferredAffinityTerms, pod, t.labels, 1)
	t.want(other.PreferredAntiAffinityTerms, pod, t.labels, -1)
}

// want adds the weights of the terms that match a pod, multiplied by sign.
func (t *affinity) want(terms []fwk.WeightedAffinityTerm, pod *corev1.Pod, nsLabels labels.Set, sign int64) {
	for i := range terms {
		if terms[i].Matches(pod, nsLabels) {
			if x := t.axisOf(terms[i].TopologyKey); x != nil {
				x.learnt.wanted += sign * int64(terms[i].Weight)
			}
		}
	}
}

// Relevant implements Tracker.
func (t *affinity) Relevant(other *schedframework.PodInfo) bool {
	return t.byBinding || t.all && t.concernsOwn(other.Pod) || t.concernsTheirs(other)
}

// concernsOwn reports whether one of the class's own terms matches a pod.
func (t *affinity) concernsOwn(pod *corev1.Pod) bool {
	for term := range ownTerms(t.pod) {
		if term.Matches(pod, nil) {
			return true
		}
	}
	return false
}

// concernsTheirs reports whether a term of a pod matches the class's pods.
func (t *affinity) concernsTheirs(other *schedframework.PodInfo) bool {
	for term := range ownTerms(other) {
		if term.Matches(t.pod.Pod, t.labels) {
			return true
		}
	}
	return false
}
