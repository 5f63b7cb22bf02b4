// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

var system = &schedconfig.PodTopologySpreadArgs{DefaultingType: schedconfig.SystemDefaulting}

// three returns a cluster of three nodes in two zones.
func three(t testing.TB) (*cluster, *Sources) {
	c := newCluster(t, newGenerator(1))
	for i, name := range []string{"n1", "n2", "n3"} {
		c.addNode(labelledNode(name, map[string]string{hostname: name, zone: []string{"a", "b", "b"}[i]}))
	}
	c.refresh()
	return c, NewSources(c.snapshot, c.factory, gates())
}

func labelledNode(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// web returns a pod of app web in the namespace red.
func web(edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "web", UID: "web",
		Labels: map[string]string{"app": "web"}}}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func ownedBy(replicaSet string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet,
			Controller: ptr.To(true)}}
	}
}

func spreadOver(key string, selector *metav1.LabelSelector) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			TopologyKey: key, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		})
	}
}

func avoiding(term corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
		}}
	}
}

func app(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func mustCross(t testing.TB) func(Tracker, error) Tracker {
	return func(cross Tracker, err error) Tracker {
		t.Helper()
		if err != nil || cross == nil {
			t.Fatalf("%v, %v", cross, err)
		}
		return cross
	}
}

func infoOf(t testing.TB, pod *corev1.Pod) *schedframework.PodInfo {
	t.Helper()
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestNoTwinWithoutDefaultConstraintsOfTheProfile(t *testing.T) {
	_, sources := three(t)
	cross, err := sources.Spread(&schedconfig.PodTopologySpreadArgs{DefaultingType: schedconfig.ListDefaulting}, web())
	if cross != nil || err != nil {
		t.Errorf("%v, %v", cross, err)
	}
}

func TestSelectorsThatDoNotParseAreErrors(t *testing.T) {
	_, sources := three(t)
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	if _, err := sources.Spread(system, web(spreadOver(zone, bad))); err == nil {
		t.Error("a spread constraint was taken")
	}
	term := corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: bad}
	if _, err := sources.Affinity(&schedconfig.InterPodAffinityArgs{}, web(avoiding(term))); err == nil {
		t.Error("an affinity term was taken")
	}
}

// TestTwinsOwnTheirPod writes to the pod that the twins were made for, as scheduling it does.
func TestTwinsOwnTheirPod(t *testing.T) {
	c, sources := three(t)
	avoidsWeb := avoiding(corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: app("web")})
	c.place(web(avoidsWeb, func(p *corev1.Pod) { p.Name, p.UID = "other", "other" }), "n1", false)
	c.refresh()
	pod := web(spreadOver(zone, app("web")))
	crosses := []Tracker{mustCross(t)(sources.Spread(system, pod)),
		mustCross(t)(sources.Affinity(&schedconfig.InterPodAffinityArgs{}, pod))}
	pod.Labels["app"], pod.Namespace, pod.Spec.NodeName = "db", "green", "n3"
	slot, _ := c.snapshot.SlotOf("n1")
	for _, cross := range crosses {
		cross.Update(slot)
		if accepts(cross, slot) {
			t.Errorf("%T forgot a pod on n1", cross)
		}
	}
}

// TestTwinsBecomeStale makes changes that matter to a class and changes that do not.
func TestTwinsBecomeStale(t *testing.T) {
	service := func(namespace, selected string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": selected}}}
	}
	replicaSet := func(selector *metav1.LabelSelector, ready int32) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "rs"},
			Spec:       appsv1.ReplicaSetSpec{Selector: selector},
			Status:     appsv1.ReplicaSetStatus{ReadyReplicas: ready},
		}
	}
	namespace := func(name, tier, note string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": tier},
			Annotations: map[string]string{"note": note}}}
	}
	elsewhere := avoiding(corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: app("web"),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}})
	core := func(c *cluster) (services, namespaces func(metav1.Object)) {
		v1 := c.factory.Core().V1()
		return func(o metav1.Object) { c.store(v1.Services().Informer().GetIndexer(), o) },
			func(o metav1.Object) { c.store(v1.Namespaces().Informer().GetIndexer(), o) }
	}
	for _, test := range []struct {
		name            string
		edit            func(*corev1.Pod)
		happens         func(c *cluster)
		spread, affined bool
	}{
		{name: "nothing", happens: func(*cluster) {}},
		{name: "a service that selects the pods", spread: true, happens: func(c *cluster) {
			services, _ := core(c)
			services(service("red", "web"))
		}},
		{name: "a service without a resource version, as from a store that does not know its own", spread: true,
			happens: func(c *cluster) {
				c.must(c.factory.Core().V1().Services().Informer().GetIndexer().Add(service("red", "web")))
			}},
		{name: "a service that selects other pods", happens: func(c *cluster) {
			services, _ := core(c)
			services(service("red", "db"))
		}},
		{name: "a service in another namespace", happens: func(c *cluster) {
			services, _ := core(c)
			services(service("green", "web"))
		}},
		{name: "a service, while the pod has constraints of its own", edit: spreadOver(zone,
			app("web")), happens: func(c *cluster) {
			services, _ := core(c)
			services(service("red", "web"))
		}},
		{name: "the status of its ReplicaSet", happens: func(c *cluster) {
			c.store(c.factory.Apps().V1().ReplicaSets().Informer().GetIndexer(), replicaSet(app("web"), 1))
		}},
		{name: "the selector of its ReplicaSet", spread: true, happens: func(c *cluster) {
			c.store(c.factory.Apps().V1().ReplicaSets().Informer().GetIndexer(), replicaSet(app("db"), 0))
		}},
		{name: "the end of its ReplicaSet", spread: true, happens: func(c *cluster) {
			c.drop(c.factory.Apps().V1().ReplicaSets().Informer().GetIndexer(), replicaSet(app("web"), 0))
		}},
		{name: "an annotation of its namespace", happens: func(c *cluster) {
			_, namespaces := core(c)
			namespaces(namespace("red", "back", "new"))
		}},
		{name: "a label of its namespace", affined: true, happens: func(c *cluster) {
			_, namespaces := core(c)
			namespaces(namespace("red", "front", ""))
		}},
		{name: "the end of its namespace", affined: true, happens: func(c *cluster) {
			c.drop(c.factory.Core().V1().Namespaces().Informer().GetIndexer(), namespace("red", "", ""))
		}},
		{name: "another namespace", happens: func(c *cluster) {
			_, namespaces := core(c)
			namespaces(namespace("green", "front", ""))
		}},
		{name: "another namespace that a term selects", edit: elsewhere, affined: true, happens: func(c *cluster) {
			_, namespaces := core(c)
			namespaces(namespace("green", "front", ""))
		}},
		{name: "another namespace that no term selects", edit: elsewhere, happens: func(c *cluster) {
			_, namespaces := core(c)
			namespaces(namespace("green", "back", ""))
		}},
		{name: "a node that moves to another zone", edit: elsewhere, happens: func(c *cluster) {
			c.cache.UpdateNode(quiet, nil, labelledNode("n1", map[string]string{hostname: "n1", zone: "b"}))
			c.refresh()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, sources := three(t)
			_, namespaces := core(c)
			namespaces(namespace("red", "back", ""))
			c.store(c.factory.Apps().V1().ReplicaSets().Informer().GetIndexer(), replicaSet(app("web"), 0))
			pod := web(ownedBy("rs"))
			if test.edit != nil {
				test.edit(pod)
			}
			spread := mustCross(t)(sources.Spread(system, pod))
			affinity := mustCross(t)(sources.Affinity(&schedconfig.InterPodAffinityArgs{}, pod))
			if spread.Stale() || affinity.Stale() {
				t.Fatal("stale from the start")
			}
			test.happens(c)
			for range 2 { // a second call returns the same
				if spread.Stale() != test.spread || affinity.Stale() != test.affined {
					t.Errorf("stale: spread %v, affinity %v", spread.Stale(), affinity.Stale())
				}
			}
		})
	}
}

func TestPodsThatChangeNothingAreIrrelevant(t *testing.T) {
	c, sources := three(t)
	c.store(c.factory.Core().V1().Namespaces().Informer().GetIndexer(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "red", Labels: map[string]string{"tier": "front"}}})
	term := corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: app("web")}
	front := corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: app("web"),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}}
	back := front
	back.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "back"}}
	of := func(namespace, app string, edits ...func(*corev1.Pod)) *schedframework.PodInfo {
		return infoOf(t, web(append(edits, func(p *corev1.Pod) { p.Namespace, p.Labels["app"] = namespace, app })...))
	}
	spread := mustCross(t)(sources.Spread(system, web(spreadOver(zone, app("web")))))
	everything := mustCross(t)(sources.Spread(system, web(spreadOver(zone, &metav1.LabelSelector{}))))
	plain := mustCross(t)(sources.Affinity(&schedconfig.InterPodAffinityArgs{}, web()))
	shy := mustCross(t)(sources.Affinity(&schedconfig.InterPodAffinityArgs{}, web(avoiding(term))))
	inZone := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", zone: "a"}}
	zonal := mustCross(t)(sources.Spread(system, web(spreadOver(zone, inZone))))
	zonallyShy := mustCross(t)(sources.Affinity(&schedconfig.InterPodAffinityArgs{},
		web(avoiding(corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: inZone}))))
	for _, test := range []struct {
		name     string
		cross    Tracker
		pod      *schedframework.PodInfo
		relevant bool
	}{
		{"a constraint that selects the pod", spread, of("red", "web"), true},
		{"a constraint that does not", spread, of("red", "db"), false},
		{"a constraint, and a pod elsewhere", spread, of("green", "web"), false},
		{"a constraint that selects everything, which the plugin counts as nothing", everything, of("red", "web"),
			false},
		{"a class without terms, a pod without terms", plain, of("red", "web"), false},
		{"a pod that avoids the class", plain, of("red", "db", avoiding(term)), true},
		{"a pod elsewhere that avoids such pods there", plain, of("green", "db", avoiding(term)), false},
		{"a pod elsewhere that avoids such pods here", plain, of("green", "db", avoiding(front)), true},
		{"a pod elsewhere that avoids such pods in other namespaces", plain, of("green", "db", avoiding(back)), false},
		{"a class that avoids the pod", shy, of("red", "web"), true},
		{"a class that avoids others", shy, of("red", "db"), false},
		{"a constraint on a label that the pod may have received when it was bound", zonal, of("red", "web"), true},
		{"such a constraint, and a pod elsewhere", zonal, of("green", "web"), false},
		{"a term on such a label", zonallyShy, of("red", "web"), true},
	} {
		if got := test.cross.Relevant(test.pod); got != test.relevant {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// TestMoreTopologyKeysThanTheCacheTracks expects that the plugin decides about the class, rather
// than that each pod makes new twins.
func TestMoreTopologyKeysThanTheCacheTracks(t *testing.T) {
	const tooMany = maxAxesBytes/axisBytes + 1
	c, sources := three(t)
	racks := map[string]string{}
	for i := range tooMany {
		racks[fmt.Sprint("key", i)] = "x"
	}
	c.addNode(labelledNode("n4", racks))
	c.refresh()
	many := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		for i := range tooMany {
			terms := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			*terms = append(*terms,
				corev1.PodAffinityTerm{TopologyKey: fmt.Sprint("key", i), LabelSelector: app("web")})
		}
	}
	if _, err := sources.Affinity(&schedconfig.InterPodAffinityArgs{}, web(many)); !errors.Is(err, ErrTopologies) {
		t.Errorf("own terms: %v", err)
	}
	cross := mustCross(t)(sources.Affinity(&schedconfig.InterPodAffinityArgs{}, web()))
	c.place(web(many), "n1", false)
	c.refresh()
	slot, _ := c.snapshot.SlotOf("n1")
	if cross.Stale() {
		t.Fatal("stale too early")
	}
	cross.Update(slot)
	if !cross.Stale() {
		t.Error("another pod's terms: not stale")
	}
	if _, err := sources.Affinity(&schedconfig.InterPodAffinityArgs{}, web()); !errors.Is(err, ErrTopologies) {
		t.Errorf("another pod's terms: %v", err)
	}
}

// TestDecidingAllocatesNothing uses classes that have been decided before.
func TestDecidingAllocatesNothing(t *testing.T) {
	c := newCluster(t, newGenerator(3))
	for range 30 {
		c.addNode(c.node(c.name("node")))
		for range 3 {
			c.place(c.pod(), c.nodes[len(c.nodes)-1], false)
		}
	}
	c.refresh()
	p, order := profiles(t, c)[0], c.order()
	for range 50 {
		k := &class{profile: p, pod: c.pod()}
		// k8s.io/component-helpers allocates to match these
		k.pod.Spec.NodeSelector, k.pod.Spec.Affinity.NodeAffinity = nil, nil
		run := &run{cluster: c}
		for i := range k.crosses {
			cross := run.build(t, k, i)
			slots, scores := make([]cache.Slot, len(c.nodes)), make([]int64, len(c.nodes))
			allocated := testing.AllocsPerRun(10, func() {
				cross.Update(order[3])
				copy(slots, order)
				cross.Score(slots, nil, scores)
				cross.Keep(slots)
			})
			if allocated > 0 {
				t.Errorf("%T of %+v: %v allocations", cross, k.pod.Spec, allocated)
			}
		}
	}
}

func TestStaleAllocatesNothingWithoutChanges(t *testing.T) {
	c, sources := three(t)
	c.store(c.factory.Core().V1().Services().Informer().GetIndexer(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "s"}})
	c.store(c.factory.Core().V1().Namespaces().Informer().GetIndexer(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "red"}})
	anywhere := corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: app("web"),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}}
	pod := web(ownedBy("rs"), avoiding(anywhere))
	spread := mustCross(t)(sources.Spread(system, pod))
	affinity := mustCross(t)(sources.Affinity(&schedconfig.InterPodAffinityArgs{}, pod))
	if n := testing.AllocsPerRun(100, func() { spread.Stale(); affinity.Stale() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBytesGrowWithTheCluster(t *testing.T) {
	small, large := benchCluster(t, 100), benchCluster(t, 1000)
	for _, kind := range []string{"owned", "spread", "anti", "affinity"} {
		for i := range 2 {
			bytes := func(c *cluster) int {
				return (&run{cluster: c}).build(t, &class{profile: profiles(t, c)[0], pod: kindOfPod(kind, 0)}, i).
					Bytes()
			}
			few, many := bytes(small), bytes(large)
			const nodes = 1000 - 100 // one array at least, of 4 bytes a node
			if more := many - few; few < objectBytes || more != 0 && (more < 4*nodes || more > 200*nodes) {
				t.Errorf("%s, %d: %d and %d", kind, i, few, many)
			}
		}
	}
}

// TestMinimumIgnoresDomainsThatDoNotCount compares the maintained minimum with a search.
func TestMinimumIgnoresDomainsThatDoNotCount(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		y := tally{pods: make([]int32, 6), nodes: make([]int32, 6)}
		y.minDomains = 1
		for step := range 2000 {
			place := int32(r.IntN(6))
			switch n := r.IntN(4); {
			case n == 0:
				y.add(place, 1, int32(r.IntN(3)))
			case n == 1 && y.nodes[place] == 1:
				y.add(place, -1, -y.pods[place])
			case n == 2 && y.nodes[place] > 0:
				y.add(place, 0, 1)
			case y.pods[place] > 0:
				y.add(place, 0, -1)
			}
			if r.IntN(3) == 0 {
				continue // not read in every round
			}
			want, domains := math.MaxInt32, 0
			for i := range y.pods {
				if y.nodes[i] > 0 {
					want, domains = min(want, int(y.pods[i])), domains+1
				}
			}
			if domains == 0 {
				want = 0
			}
			if got := y.minimum(); got != want || y.domains != domains {
				t.Fatalf("seed %d step %d: %d of %d domains, want %d of %d: %v %v", seed, step, got, y.domains, want,
					domains, y.pods, y.nodes)
			}
		}
	}
}

// TestNormalizedScoresAreCached compares small ranges of scores, whose normalized scores are
// remembered, with large ones.
func TestNormalizedScoresAreCached(t *testing.T) {
	for _, highest := range []int64{0, 1, 100, maxNormals - 1, maxNormals, 1 << 40} {
		calls := 0
		normal := func(score int64) int64 {
			calls++
			return (score + 7) * 100 / (highest + 7)
		}
		scores := []int64{highest - 3, highest, -7, highest, highest - 3, -7, -7}
		want := make([]int64, len(scores))
		for i, score := range scores {
			want[i] = normal(score)
		}
		// The remembered scores of earlier ranges must not matter.
		n := normals{known: []int8{5, 5, 5, 5, 5}}
		calls = 0
		n.apply(scores, -7, highest, normal)
		if !slices.Equal(scores, want) {
			t.Errorf("up to %d: %v, want %v", highest, scores, want)
		}
		if remembers := highest+7 < maxNormals; remembers && calls > 3 || !remembers && calls != len(scores) {
			t.Errorf("up to %d: worked out %d times", highest, calls)
		}
	}
}

func TestScoresAreRoundedLikeThePlugin(t *testing.T) {
	values := []float64{0, 0.49999999999999994, 0.5, 1.5, 2.5, 4503599627370495.5, 1 << 52}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100000 {
		values = append(values, r.Float64()*math.Pow(10, float64(r.IntN(12))), float64(r.IntN(1000))+0.5)
	}
	for _, x := range values {
		if got := rounded(x); got != int64(math.Round(x)) {
			t.Errorf("%v: %d", x, got)
		}
	}
}
