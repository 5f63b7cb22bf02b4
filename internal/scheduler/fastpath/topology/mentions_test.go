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

// expectMentions compares the keys that count in namespace red, and expects that keys have changed
// there or nowhere.
func expectMentions(t *testing.T, m *Mentions, changed bool, want ...string) {
	t.Helper()
	expectMentionsIn(t, m, "red", want...)
	expectChanges(t, m, map[bool][]string{true: {"red"}}[changed]...)
}

func expectMentionsIn(t *testing.T, m *Mentions, namespace string, want ...string) {
	t.Helper()
	var got []string
	if n := m.in[namespace]; n != nil {
		got = slices.Sorted(slices.Values(n.keys.UnsortedList()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v count in %s, want %v", got, namespace, want)
	}
}

// expectChanges compares the namespaces in which keys have changed, "" for everywhere.
func expectChanges(t *testing.T, m *Mentions, want ...string) {
	t.Helper()
	changes, changed := m.Changes()
	got := changes.Namespaces()
	slices.Sort(got)
	if !slices.Equal(got, want) || changed != (len(want) > 0) {
		t.Errorf("they have changed in %q, want %q", got, want)
	}
	if _, changed := m.Changes(); changed {
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
	m.ReadSnapshot(c.snapshot, "red")
	expectMentions(t, m, false)
	for i, key := range []string{"a", "b", "a"} {
		term := corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: asks(key)}
		c.place(web(avoiding(term), func(p *corev1.Pod) { p.Name, p.UID = fmt.Sprint(i), types.UID(fmt.Sprint(i)) }),
			"n1", false)
		c.refresh()
		m.ReadSnapshot(c.snapshot, "red")
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
	expectMentionsIn(t, m, "red", "a")
	expectMentionsIn(t, m, "green", "b")
	expectChanges(t, m, "green")
	c.store(services, service("red", "other", "c"))
	twins.ReadServices(m, web())
	expectMentions(t, m, true, "a", "c")
	pod := web()
	if n := testing.AllocsPerRun(10, func() { twins.ReadServices(m, pod); m.ReadSnapshot(c.snapshot, "red") }); n > 0 {
		t.Errorf("%v allocations while nothing changes", n)
	}
	// A store without a version is read each time.
	c.must(services.Add(service("red", "unversioned", "d")))
	twins.ReadServices(m, web())
	c.must(services.Add(service("red", "unversioned", "e")))
	twins.ReadServices(m, web())
	expectMentions(t, m, true, "a", "c", "d", "e")
}

// reading is a pod whose term reads keys in namespaces.
func reading(keys []string, namespaces ...string) func(*corev1.Pod) {
	selector := &metav1.LabelSelector{}
	for _, key := range keys {
		selector.MatchExpressions = append(selector.MatchExpressions, asks(key).MatchExpressions...)
	}
	return avoiding(corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: selector, Namespaces: namespaces})
}

// readingAll is a pod whose term reads a key in all namespaces.
func readingAll(keys ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		reading(keys)(pod)
		terms := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		terms[0].NamespaceSelector = &metav1.LabelSelector{}
	}
}

func named(i int) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Name, p.UID = fmt.Sprint(i), types.UID(fmt.Sprint(i)) }
}

func keysOf(prefix string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint(prefix, i))
	}
	return keys
}

func in(namespace string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Namespace = namespace }
}

func TestTermsMentionLabelsWhereTheySelectPods(t *testing.T) {
	m := NewMentions(0)
	m.ReadTerms(infoOf(t, web(reading([]string{"own"}))))
	m.ReadTerms(infoOf(t, web(reading([]string{"theirs"}, "green", "blue"))))
	expectMentionsIn(t, m, "red", "own")
	expectMentionsIn(t, m, "green", "theirs")
	expectMentionsIn(t, m, "blue", "theirs")
	expectChanges(t, m, "blue", "green", "red")

	m.ReadTerms(infoOf(t, web(readingAll("own"))))
	m.ReadTerms(infoOf(t, web(reading([]string{"many"}, keysOf("namespace-", maxNamed+1)...))))
	for _, namespace := range []string{"red", "unknown"} {
		if labels := m.In(namespace); !labels.Has("own") || !labels.Has("many") || labels.Has("theirs") {
			t.Errorf("wrong labels count in namespace %s", namespace)
		}
	}
	if !m.In("green").Has("theirs") {
		t.Error("a key does not count any more")
	}
	if len(m.in) != 3 {
		t.Errorf("%d namespaces are known", len(m.in))
	}
	expectChanges(t, m, "")
}

func TestPodsThatChangesConcern(t *testing.T) {
	for name, test := range map[string]struct {
		mention  func(*corev1.Pod)
		concerns []string // the namespaces of pods, or of those that name red
	}{
		"own namespace":          {reading([]string{"new"}), []string{"red"}},
		"other namespace":        {reading([]string{"new"}, "green"), []string{"green"}},
		"all namespaces":         {readingAll("new"), []string{"red", "green", "blue"}},
		"all, known in one":      {readingAll("known"), []string{"green", "blue"}},
		"known in the namespace": {reading([]string{"known"}), nil},
	} {
		m := NewMentions(0)
		m.ReadTerms(infoOf(t, web(reading([]string{"known"}))))
		m.Changes()
		m.ReadTerms(infoOf(t, web(test.mention)))
		changes, _ := m.Changes()
		for _, namespace := range []string{"red", "green", "blue"} {
			pod := infoOf(t, web(in(namespace), reading([]string{"x"}, "red", "green", "blue")))
			if got, want := changes.Concern(pod), slices.Contains(test.concerns, namespace); got != want {
				t.Errorf("%s: a pod in %s is concerned: %v", name, namespace, got)
			}
		}
	}
}

func TestWithTooManyMentionsAllLabelsOfTheNamespaceCount(t *testing.T) {
	m := NewMentions(2)
	for i, key := range []string{"a", "b", "c", "d"} {
		m.ReadTerms(infoOf(t, web(reading([]string{key}))))
		_, changed := m.Changes()
		if m.In("red").Has("z") != (i >= 2) || changed != (i <= 2) || !m.In("red").Has(key) || m.In("green").Has("z") {
			t.Errorf("%d keys: wrong about others, or about having changed", i+1)
		}
	}
	if got := m.Most(); got != 3 {
		t.Errorf("%d keys count, want more than 2", got)
	}
	for i, key := range []string{"a", "b", "c"} {
		m.ReadTerms(infoOf(t, web(readingAll(key))))
		changes, _ := m.Changes()
		if m.In("green").All() != (i == 2) || changes.everything != (i == 2) {
			t.Errorf("%d keys everywhere: wrong about others, or about what has changed", i+1)
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
			m.ReadSnapshot(c.snapshot, "red")
			factory.ReadServices(m, web())
		}
	}
	for i := range most {
		c.place(web(reading([]string{fmt.Sprint("key-", i)}), named(i)), "n1", false)
	}
	read(1)
	if !m.In("red").All() || !m.Changing() || !m.In("red").Has("any") || m.In("green").Has("any") {
		t.Fatal("not all labels of the namespace count, although selectors read too many")
	}
	m.Changes()
	read(firstRecount)
	if !m.In("red").All() || m.Changing() {
		t.Error("they do not count any more, although the pods are still there")
	}
	for range most / 2 {
		c.removePod(0)
	}
	read(2*firstRecount - 1)
	if !m.In("red").All() {
		t.Error("looked at again too early")
	}
	read(1)
	expectMentionsIn(t, m, "red", "key-1", "key-2", "service")
	changes, _ := m.Changes()
	if !changes.Concern(infoOf(t, web())) || !changes.Concern(infoOf(t, web(in("green"), reading(nil, "red")))) ||
		changes.Concern(infoOf(t, web(in("green"), reading(nil, "blue")))) {
		t.Error("wrong about pods in the namespace, or about those whose terms name it")
	}
	read(1)
	if m.Changing() {
		t.Error("they changed again")
	}
}

// TestServicesKeepAllLabelsOfTheirNamespaceCounting forgets keys, and learns in the same decision
// that services read too many.
func TestServicesKeepAllLabelsOfTheirNamespaceCounting(t *testing.T) {
	c, sources := three(t)
	services := c.factory.Core().V1().Services().Informer().GetIndexer()
	var made []*corev1.Service
	for i := range DefaultMaxMentions + 1 {
		made = append(made, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: fmt.Sprint(i)},
			Spec: corev1.ServiceSpec{Selector: map[string]string{fmt.Sprint("key-", i): ""}}})
		c.store(services, made[i])
	}
	factory := &Factory{Sources: sources, SpreadArgs: system}
	m := NewMentions(0)
	read := func() {
		for _, namespace := range []string{"red", "green"} {
			m.ReadSnapshot(c.snapshot, namespace)
			factory.ReadServices(m, web(in(namespace)))
		}
	}
	read()
	expectChanges(t, m, "red")
	for range 20 * firstRecount {
		read()
		if m.Changing() || !m.In("red").All() || m.In("green").All() {
			t.Fatal("other labels count, although the services are still there, or in another namespace")
		}
	}
	for _, service := range made[1:] {
		c.drop(services, service)
	}
	for i := 0; m.In("red").All(); i++ {
		if read(); i > lastRecount {
			t.Fatal("all labels still count")
		}
	}
	expectMentions(t, m, true, "key-0")
}

// TestRecountsWaitLongerUnlessTheyHold makes all labels count again and again.
func TestRecountsWaitLongerUnlessTheyHold(t *testing.T) {
	c, _ := three(t)
	m := NewMentions(1)
	for _, everywhere := range []bool{false, true} {
		tooMany := infoOf(t, web(reading([]string{"a", "b"})))
		if everywhere {
			tooMany = infoOf(t, web(readingAll("a", "b")))
		}
		recounted := func() (reads int) {
			m.ReadTerms(tooMany)
			m.Changes()
			for m.In("red").All() {
				m.ReadSnapshot(c.snapshot, "red")
				reads++
			}
			if changes, _ := m.Changes(); changes.everything != everywhere {
				t.Errorf("everything changed: %v", changes.everything)
			}
			return reads
		}
		for _, want := range []int{1, 2, 4, 8} {
			if got := recounted(); got != want*firstRecount {
				t.Errorf("forgotten after %d reads, want %d", got, want*firstRecount)
			}
		}
		for range 16 * firstRecount {
			m.ReadSnapshot(c.snapshot, "red")
		}
		if got := recounted(); got != firstRecount {
			t.Errorf("forgotten after %d reads, although the last recount held", got)
		}
	}
}

func TestNamespacesThatAreNotUsedAreForgotten(t *testing.T) {
	c, _ := three(t)
	c.place(web(reading([]string{"bound"}, "mentioned")), "n1", false)
	c.refresh()
	m := NewMentions(0)
	for i := range 10 * minPruned {
		namespace := fmt.Sprint("build-", i)
		m.ReadSnapshot(c.snapshot, namespace)
		m.ReadTerms(infoOf(t, web(in(namespace), reading([]string{"app"}))))
		m.ReadTerms(infoOf(t, web(in("steady"), reading([]string{"app"}))))
		m.ReadSnapshot(c.snapshot, "steady")
		if changes, _ := m.Changes(); i > 0 && changes.Concern(infoOf(t, web(in("steady")))) {
			t.Fatal("a namespace in use was forgotten")
		}
		if !m.In(namespace).Has("app") || !m.In("steady").Has("app") || !m.In("mentioned").Has("bound") {
			t.Fatal("a key was forgotten that counts")
		}
	}
	if len(m.in) > 3*minPruned {
		t.Errorf("%d namespaces are known", len(m.in))
	}
}

func TestCountNew(t *testing.T) {
	m := NewMentions(0)
	m.add("red", "known")
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
	if n := m.CountNew(infoOf(t, web(reading([]string{"known", "a"}, "red", "green", "blue")))); n != 2 {
		t.Errorf("%d keys are new in one of three namespaces, want 2", n)
	}
	if n := m.CountNew(infoOf(t, web(readingAll("known", "a")))); n != 2 {
		t.Errorf("%d keys are new everywhere, want 2", n)
	}
	m.addAll("red")
	if n := m.CountNew(infoOf(t, pod)); n != 0 {
		t.Errorf("%d keys are new while all labels count", n)
	}
}
