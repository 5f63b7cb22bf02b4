// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// findNumbers returns the integers that decisions compare by the operators Gt and Lt: those in node
// selectors and tolerations, and the values of labels and taints with the same keys.
func findNumbers(in *Input) sets.Set[string] {
	f := &numberFinder{keys: sets.New[string](), numbers: sets.New[string]()}
	for _, pods := range [...][]*corev1.Pod{in.Pods, in.Pending} {
		for _, pod := range pods {
			f.addPod(pod)
		}
	}
	for _, object := range in.Objects {
		if volume, ok := object.(*corev1.PersistentVolume); ok && volume.Spec.NodeAffinity != nil {
			f.addSelector(volume.Spec.NodeAffinity.Required)
		}
	}
	if f.keys.Len() == 0 {
		return f.numbers
	}
	for _, node := range in.Nodes {
		for key, value := range node.Labels {
			if f.keys.Has(key) {
				f.add(value)
			}
		}
		for _, taint := range node.Spec.Taints {
			if f.keys.Has(taint.Key) {
				f.add(taint.Value)
			}
		}
	}
	return f.numbers
}

type numberFinder struct{ keys, numbers sets.Set[string] }

func (f *numberFinder) add(value string) {
	if _, err := strconv.ParseInt(value, 10, 64); err == nil {
		f.numbers.Insert(value)
	}
}

func (f *numberFinder) addPod(pod *corev1.Pod) {
	for i := range pod.Spec.Tolerations {
		if t := &pod.Spec.Tolerations[i]; t.Operator == corev1.TolerationOpGt || t.Operator == corev1.TolerationOpLt {
			f.keys.Insert(t.Key)
			f.add(t.Value)
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return
	}
	affinity := pod.Spec.Affinity.NodeAffinity
	f.addSelector(affinity.RequiredDuringSchedulingIgnoredDuringExecution)
	for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		f.addTerm(&affinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
	}
}

func (f *numberFinder) addSelector(selector *corev1.NodeSelector) {
	if selector == nil {
		return
	}
	for i := range selector.NodeSelectorTerms {
		f.addTerm(&selector.NodeSelectorTerms[i])
	}
}

func (f *numberFinder) addTerm(term *corev1.NodeSelectorTerm) {
	for i := range term.MatchExpressions {
		if e := &term.MatchExpressions[i]; e.Operator == corev1.NodeSelectorOpGt ||
			e.Operator == corev1.NodeSelectorOpLt {
			f.keys.Insert(e.Key)
			for _, value := range e.Values {
				f.add(value)
			}
		}
	}
}
