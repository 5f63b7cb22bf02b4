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

// expectMentions compares the keys that count.
func expectMentions(t *testing.T, m *Mentions, changed bool, want ...string) {
	t.Helper()
	if got := slices.Sorted(slices.Values(m.keys.UnsortedList())); !slices.Equal(got, want) || m.Changed() != changed {
		t.Errorf("%v count, want %v; or changed is not %v", got, want, changed)
	}
	if m.Changed() {
		t.Error("they have changed twice")
	}
}

func asks(key string) *metav1.LabelSelector {
	return &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpExists}}}
}

func TestLabelsInTermsOfBoundPodsAreMentioned(t *testing.T) {
	c, _ := three(t)
	m := NewMentions(0)
	m.ReadSnapshot(c.snapshot)
	expectMentions(t, m, false)
	for i, key := range []string{"a", "b", "a"} {
		term := corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: asks(key)}
		c.place(web(avoiding(term), func(p *corev1.Pod) { p.Name, p.UID = fmt.Sprint(i), types.UID(fmt.Sprint(i)) }),
			"n1", false)
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
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1.ServiceSpec{Selector: map[string]string{key: ""}}}
	}
	c.store(services, service("red", "s", "a"))
	c.store(services, service("green", "s", "b"))
	twins := &Factory{Sources: sources, SpreadArgs: system}
	m := NewMentions(0)
	twins.ReadServices(m, web(spreadOver(zone, app("web"))))
	expectMentions(t, m, false)
	(&Factory{Sources: sources,
		SpreadArgs: &schedconfig.PodTopologySpreadArgs{DefaultingType: schedconfig.ListDefaulting}}).
		ReadServices(m, web())
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
		if m.Has("z") != (i >= 2) || m.Changed() != (i <= 2) || !m.Has(key) {
			t.Errorf("%d keys: wrong about others, or about having changed", i+1)
		}
	}
}

func TestKeysAreForgottenWhenThePodsThatMentionThemAreGone(t *testing.T) {
	const most = 4
	c, sources := three(t)
	c.store(c.factory.Core().V1().Services().Informer().GetIndexer(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "s"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"service": ""}}})
	factory := &Factory{Sources: sources, SpreadArgs: system}
	m := NewMentions(most)
	read := func(times int) {
		c.refresh()
		for range times {
			m.ReadSnapshot(c.snapshot)
			factory.ReadServices(m, web())
		}
	}
	for i := range most {
		term := corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: asks(fmt.Sprint("key-", i))}
		c.place(web(avoiding(term), func(p *corev1.Pod) { p.Name, p.UID = fmt.Sprint(i), types.UID(fmt.Sprint(i)) }),
			"n1", false)
	}
	read(1)
	if !m.All() || !m.Changed() || !m.Has("any") {
		t.Fatal("not all labels count, although selectors read too many")
	}
	read(firstRecount)
	if !m.All() || m.Changed() {
		t.Error("they do not count any more, although the pods are still there")
	}
	for range most / 2 {
		c.removePod(0)
	}
	read(2*firstRecount - 1)
	if !m.All() {
		t.Error("looked at again too early")
	}
	read(1)
	expectMentions(t, m, true, "key-1", "key-2", "service")
	read(1)
	if m.Changed() {
		t.Error("they changed again")
	}
}

func TestCountNew(t *testing.T) {
	m := NewMentions(0)
	m.add("known")
	pod := web(avoiding(corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"known": "", "a": ""},
	}}), spreadOver(zone, &metav1.LabelSelector{
		MatchLabels:      map[string]string{"a": "", "b": ""},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: metav1.LabelSelectorOpExists}},
	}), func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints[0].MatchLabelKeys = []string{"d", "known"}
	})
	if n := m.CountNew(infoOf(t, pod)); n != 4 { // a to d
		t.Errorf("%d keys are new, want 4", n)
	}
	m.addAll()
	if n := m.CountNew(infoOf(t, pod)); n != 0 {
		t.Errorf("%d keys are new while all labels count", n)
	}
}
