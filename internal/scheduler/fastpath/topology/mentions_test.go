// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// expectMentions compares the keys that have come to count.
func expectMentions(t *testing.T, m *Mentions, grown bool, want ...string) {
	t.Helper()
	if got := slices.Sorted(slices.Values(m.keys.UnsortedList())); !slices.Equal(got, want) || m.Grown() != grown {
		t.Errorf("%v count, want %v; or grown is not %v", got, want, grown)
	}
	if m.Grown() {
		t.Error("they have grown twice")
	}
}

func asks(key string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpExists}}}
}

func TestLabelsInTermsOfBoundPodsAreMentioned(t *testing.T) {
	c, _ := three(t)
	m := NewMentions(0)
	m.ReadSnapshot(c.snapshot)
	expectMentions(t, m, false)
	for i, key := range []string{"a", "b", "a"} {
		term := corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: asks(key)}
		c.place(web(avoiding(term), func(p *corev1.Pod) { p.Name, p.UID = fmt.Sprint(i), types.UID(fmt.Sprint(i)) }), "n1", false)
		c.refresh()
		m.ReadSnapshot(c.snapshot)
		expectMentions(t, m, i < 2, []string{"a", "b"}[:min(i+1, 2)]...)
	}
}

func TestLabelsInConstraintsAreMentioned(t *testing.T) {
	_, sources := three(t)
	constraints, err := sources.SpreadConstraints(system, web(spreadOver(zone, asks("a")), func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints[0].MatchLabelKeys = []string{"app", "absent"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	m := NewMentions(0)
	constraints.Mention(m)
	expectMentions(t, m, true, "a", "absent", "app")
}

func TestLabelsInServicesAreMentioned(t *testing.T) {
	c, sources := three(t)
	services := c.factory.Core().V1().Services().Informer().GetIndexer()
	service := func(namespace, name, key string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{Selector: map[string]string{key: ""}}}
	}
	c.store(services, service("red", "s", "a"))
	c.store(services, service("green", "s", "b"))
	twins := &Factory{Sources: sources, SpreadArgs: system}
	m := NewMentions(0)
	twins.ReadServices(m, web(spreadOver(zone, app("web"))))
	expectMentions(t, m, false)
	(&Factory{Sources: sources, SpreadArgs: &schedconfig.PodTopologySpreadArgs{DefaultingType: schedconfig.ListDefaulting}}).ReadServices(m, web())
	(&Factory{Sources: sources}).ReadServices(m, web())
	expectMentions(t, m, false)
	for range 2 {
		twins.ReadServices(m, web())
	}
	expectMentions(t, m, true, "a")
	twins.ReadServices(m, web(func(p *corev1.Pod) { p.Namespace = "green" }))
	expectMentions(t, m, true, "a", "b")
	c.store(services, service("red", "other", "c"))
	twins.ReadServices(m, web())
	expectMentions(t, m, true, "a", "b", "c")
	pod := web()
	if n := testing.AllocsPerRun(10, func() { twins.ReadServices(m, pod); m.ReadSnapshot(c.snapshot) }); n > 0 {
		t.Errorf("%v allocations while nothing changes", n)
	}
	// A store without a version is read each time.
	c.must(services.Add(service("red", "unversioned", "d")))
	twins.ReadServices(m, web())
	c.must(services.Add(service("red", "unversioned", "e")))
	twins.ReadServices(m, web())
	expectMentions(t, m, true, "a", "b", "c", "d", "e")
}

func TestWithTooManyMentionsAllLabelsCount(t *testing.T) {
	m := NewMentions(2)
	for i, key := range []string{"a", "b", "c", "d"} {
		m.ReadTerms(infoOf(t, web(avoiding(corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: asks(key)}))))
		if m.Has("z") != (i >= 2) || m.Grown() != (i <= 2) || !m.Has(key) {
			t.Errorf("%d keys: wrong about others, or about having grown", i+1)
		}
	}
}
