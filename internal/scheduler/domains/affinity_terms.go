// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package domains

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Which pods meet which terms. Terms of the class's own pods have the namespaces that they select among those that they
// name, and are asked without labels of a namespace. Terms of other pods are asked with those of the class's namespace.

// matchesAll says whether a pod matches all of a class's required affinity terms, of which there must be some.
func matchesAll(terms []fwk.AffinityTerm, pod *corev1.Pod) bool {
	for i := range terms {
		if !terms[i].Matches(pod, nil) {
			return false
		}
	}
	return len(terms) > 0
}

// read finds out what the pods of a node add. Of most pods only the labels matter, and only to classes with terms.
func (t *affinity) read(info *schedframework.NodeInfo) {
	if t.all {
		for _, pod := range info.Pods {
			t.readOwn(pod.GetPod())
		}
	}
	for _, pod := range info.PodsWithAffinity {
		t.readTheirs(pod)
	}
}

// readOwn has the class's own terms look at a pod.
func (t *affinity) readOwn(pod *corev1.Pod) {
	if len(t.required) > 0 && matchesAll(t.pod.RequiredAffinityTerms, pod) {
		for _, x := range t.required {
			x.newAffine++
		}
	}
	for i := range t.pod.RequiredAntiAffinityTerms {
		if term := &t.pod.RequiredAntiAffinityTerms[i]; term.Matches(pod, nil) {
			t.axis(term.TopologyKey).newHostile++
		}
	}
	t.want(t.pod.PreferredAffinityTerms, pod, nil, 1)
	t.want(t.pod.PreferredAntiAffinityTerms, pod, nil, -1)
}

// readTheirs has a pod's terms look at the class's.
func (t *affinity) readTheirs(other fwk.PodInfo) {
	pod := t.pod.Pod
	terms := other.GetRequiredAntiAffinityTerms()
	for i := range terms {
		if terms[i].Matches(pod, t.labels) {
			t.axis(terms[i].TopologyKey).newGuarded++
		}
	}
	if !t.scores {
		return
	}
	if t.hardWeight > 0 {
		terms := other.GetRequiredAffinityTerms()
		for i := range terms {
			if terms[i].Matches(pod, t.labels) {
				t.axis(terms[i].TopologyKey).newWanted += int64(t.hardWeight)
			}
		}
	}
	t.want(other.GetPreferredAffinityTerms(), pod, t.labels, 1)
	t.want(other.GetPreferredAntiAffinityTerms(), pod, t.labels, -1)
}

// want adds the weights of the terms that match a pod, times a sign.
func (t *affinity) want(terms []fwk.WeightedAffinityTerm, pod *corev1.Pod, nsLabels labels.Set, sign int64) {
	for i := range terms {
		if terms[i].Matches(pod, nsLabels) {
			t.axis(terms[i].TopologyKey).newWanted += sign * int64(terms[i].Weight)
		}
	}
}

// Relevant implements Cross.
func (t *affinity) Relevant(other *schedframework.PodInfo) bool {
	return t.all && t.concernsOwn(other.Pod) || t.concernsTheirs(other)
}

// concernsOwn says whether a term of the class's own matches a pod.
func (t *affinity) concernsOwn(pod *corev1.Pod) bool {
	for term := range ownTerms(t.pod) {
		if term.Matches(pod, nil) {
			return true
		}
	}
	return false
}

// concernsTheirs says whether a term of a pod matches the class's pods.
func (t *affinity) concernsTheirs(other *schedframework.PodInfo) bool {
	for term := range ownTerms(other) {
		if term.Matches(t.pod.Pod, t.labels) {
			return true
		}
	}
	return false
}
