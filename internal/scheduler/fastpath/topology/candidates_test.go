// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"math/bits"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// TestOwnTermsExamineTheirNamespaces counts the signatures that a new tracker examines while many
// pods run in another namespace.
func TestOwnTermsExamineTheirNamespaces(t *testing.T) {
	const others = 300
	c, sources := three(t)
	for i := range others {
		name := fmt.Sprintf("other-%d", i)
		c.place(web(func(p *corev1.Pod) {
			p.Namespace, p.Name, p.UID, p.Labels["number"] = "blue", name, types.UID(name), name
		}), "n1", false)
	}
	c.place(web(), "n2", false)
	c.refresh()
	for name, test := range map[string]struct {
		edit func(*corev1.PodAffinityTerm)
		most int
	}{
		"their own namespace": {func(*corev1.PodAffinityTerm) {}, 1},
		"a named namespace":   {func(term *corev1.PodAffinityTerm) { term.Namespaces = []string{"blue"} }, others},
		"all namespaces": {func(term *corev1.PodAffinityTerm) { term.NamespaceSelector = &metav1.LabelSelector{} },
			others + 1},
	} {
		term := corev1.PodAffinityTerm{TopologyKey: hostname, LabelSelector: app("web")}
		test.edit(&term)
		made := mustCross(t)(sources.Affinity(&schedconfig.InterPodAffinityArgs{}, web(avoiding(term)))).(*affinity)
		examined := 0
		for _, word := range made.effects.known {
			examined += bits.OnesCount64(word)
		}
		if examined != test.most {
			t.Errorf("%s: %d signatures were examined, want %d", name, examined, test.most)
		}
	}
}
