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
func (a *affinity) read(slot cache.Slot) {
	signatures := a.sources.snapshot.Signatures()
	a.effects.look(signatures)
	for _, id := range signatures.On(slot) {
		known, meaning := a.effects.has(id)
		if !known {
			meaning = a.learn(id, signatures.Of(id))
		}
		if !meaning {
			continue
		}
		for _, e := range a.effects.effects[id] {
			e.axis.found.add(e.amounts)
		}
	}
}

// learn computes the contribution of the pods of a signature, and reports whether there is any. For
// most pods only the labels matter, and only to classes with terms.
func (a *affinity) learn(id cache.SignatureID, of *cache.Signature) bool {
	if a.all && !of.Gone() {
		a.readOwn(a.sources.podOf(of))
	}
	if of.Terms != nil {
		a.readTheirs(of.Terms)
	}
	var effects []effect
	for _, x := range a.axes {
		if x.learnt != (amounts{}) {
			effects = append(effects, effect{x, x.learnt})
			x.learnt = amounts{}
		}
	}
	if effects == nil {
		a.effects.rememberNothing(id)
		return false
	}
	a.effects.remember(id, effects)
	return true
}

func (a *amounts) add(b amounts) {
	a.affine += b.affine
	a.hostile += b.hostile
	a.guarded += b.guarded
	a.wanted += b.wanted
}

// readOwn matches the class's own terms against a pod.
func (a *affinity) readOwn(pod *corev1.Pod) {
	if len(a.required) > 0 && matchesAll(a.pod.RequiredAffinityTerms, pod) {
		for _, x := range a.required {
			x.learnt.affine++
		}
	}
	for i := range a.pod.RequiredAntiAffinityTerms {
		if term := &a.pod.RequiredAntiAffinityTerms[i]; term.Matches(pod, nil) {
			if x := a.axisOf(term.TopologyKey); x != nil {
				x.learnt.hostile++
			}
		}
	}
	a.want(a.pod.PreferredAffinityTerms, pod, nil, 1)
	a.want(a.pod.PreferredAntiAffinityTerms, pod, nil, -1)
}

// readTheirs matches a pod's terms against the class's pods.
func (a *affinity) readTheirs(other *schedframework.PodInfo) {
	pod := a.pod.Pod
	terms := other.RequiredAntiAffinityTerms
	for i := range terms {
		if terms[i].Matches(pod, a.labels) {
			if x := a.axisOf(terms[i].TopologyKey); x != nil {
				x.learnt.guarded++
			}
		}
	}
	if !a.scores {
		return
	}
	if a.hardWeight > 0 {
		terms := other.RequiredAffinityTerms
		for i := range terms {
			if terms[i].Matches(pod, a.labels) {
				if x := a.axisOf(terms[i].TopologyKey); x != nil {
					x.learnt.wanted += int64(a.hardWeight)
				}
			}
		}
	}
	a.want(other.PreferredAffinityTerms, pod, a.labels, 1)
	a.want(other.PreferredAntiAffinityTerms, pod, a.labels, -1)
}

// want adds the weights of the terms that match a pod, multiplied by sign.
func (a *affinity) want(terms []fwk.WeightedAffinityTerm, pod *corev1.Pod, nsLabels labels.Set, sign int64) {
	for i := range terms {
		if terms[i].Matches(pod, nsLabels) {
			if x := a.axisOf(terms[i].TopologyKey); x != nil {
				x.learnt.wanted += sign * int64(terms[i].Weight)
			}
		}
	}
}

// Relevant implements Tracker.
func (a *affinity) Relevant(other *schedframework.PodInfo) bool {
	return a.byBinding || a.all && a.concernsOwn(other.Pod) || a.concernsTheirs(other)
}

// concernsOwn reports whether one of the class's own terms matches a pod.
func (a *affinity) concernsOwn(pod *corev1.Pod) bool {
	for term := range ownTerms(a.pod) {
		if term.Matches(pod, nil) {
			return true
		}
	}
	return false
}

// concernsTheirs reports whether a term of a pod matches the class's pods.
func (a *affinity) concernsTheirs(other *schedframework.PodInfo) bool {
	for term := range ownTerms(other) {
		if term.Matches(a.pod.Pod, a.labels) {
			return true
		}
	}
	return false
}
