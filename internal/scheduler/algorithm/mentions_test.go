// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/test/workload"
)

// Labels that distinguish pods only once a selector mentions them. Otherwise equal pods differ in
// these labels, and a few of a run's selectors mention one.

const extraLabels = 20

func extraLabel(i int) string { return fmt.Sprintf("extra-%d", i) }

// labelMore gives some pods such a label, which splits a class once the label counts.
func (w *world) labelMore(pod *corev1.Pod) {
	if w.chance(50) && (!w.even || w.chance(20)) {
		pod.Labels[extraLabel(w.IntN(extraLabels))] = pick(w.generator, []string{"x", "y"})
	}
}

// askMore makes one of the pod's selectors, if it has any, mention such a label now and then.
func (w *world) askMore(pod *corev1.Pod) {
	if !w.chance(15) {
		return
	}
	var selectors []*metav1.LabelSelector
	for i := range pod.Spec.TopologySpreadConstraints {
		if c := &pod.Spec.TopologySpreadConstraints[i]; w.chance(30) {
			c.MatchLabelKeys = append(c.MatchLabelKeys, extraLabel(w.IntN(extraLabels)))
		} else if c.LabelSelector != nil {
			selectors = append(selectors, c.LabelSelector)
		}
	}
	if affinity := pod.Spec.Affinity.PodAffinity; affinity != nil {
		for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
			selectors = append(selectors,
				affinity.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm.LabelSelector)
		}
	}
	if affinity := pod.Spec.Affinity.PodAntiAffinity; affinity != nil {
		for i := range affinity.RequiredDuringSchedulingIgnoredDuringExecution {
			selectors = append(selectors, affinity.RequiredDuringSchedulingIgnoredDuringExecution[i].LabelSelector)
		}
	}
	if len(selectors) == 0 {
		return
	}
	if selector := pick(w.generator, selectors); selector != nil {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: extraLabel(w.IntN(extraLabels)), Operator: pick(w.generator, []metav1.LabelSelectorOperator{
				metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
			}),
		})
	}
}

// own gives a pod a controller.
func (w *world) own(pod *corev1.Pod) {
	if w.chance(40) {
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: pod.Labels["app"], UID: "owner", Controller: ptr.To(true),
		}}
	}
}

// changeController makes another ReplicaSet with some name, whose selector may mention such a
// label.
func (w *world) changeController() {
	app := pick(w.generator, apps)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	if w.chance(30) {
		selector.MatchLabels[extraLabel(w.IntN(extraLabels))] = "x"
	}
	w.versions++
	w.must(w.handle.SharedInformerFactory().Apps().V1().ReplicaSets().Informer().GetIndexer().Update(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: pick(w.generator, namespaces), Name: app,
			ResourceVersion: strconv.Itoa(w.versions)},
		Spec: appsv1.ReplicaSetSpec{Selector: selector},
	}))
}

// noteClass counts decisions about pods whose labels differ from those of the pod that their class
// was made for.
func (w *world) noteClass(pod, like *corev1.Pod) {
	if !maps.Equal(pod.Labels, like.Labels) {
		w.seen["of a class with other labels"]++
	}
}

// TestLabelsBecomeRelevant makes a selector mention the label "rev", which no class depended on
// until then.
func TestLabelsBecomeRelevant(t *testing.T) {
	rev := func(pod *corev1.Pod) { pod.Labels["rev"] = "x" }
	owned := func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web",
			UID: "owner", Controller: ptr.To(true)}}
	}
	asks := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "rev": "x"}}
	avoids := func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: hostname, LabelSelector: asks},
				}}}
	}
	seeks := func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: hostname, LabelSelector: asks},
			}}}
	}
	spread := func(selector *metav1.LabelSelector, keys ...string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: hostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
					MatchLabelKeys: keys},
			}
		}
	}
	for name, run := range map[string]func(s *labelScene){
		"a pod that goes, of a class that was made before": func(s *labelScene) {
			s.decide("n", s.pod())
			s.decide("y", s.pod(rev))
			s.decide("", s.pod(avoids))
			s.remove("y")
			s.decide("", s.pod(avoids))
		},
		"a pod that comes, of a class that was made before": func(s *labelScene) {
			s.decide("n", s.pod())
			s.decide("", s.pod(avoids))
			s.decide("n", s.pod())
			s.decide("", s.pod(avoids))
			s.decide("y", s.pod(rev))
			s.decide("", s.pod(avoids))
		},
		"a bound pod mentions it": func(s *labelScene) {
			s.decide("n", s.pod())
			s.bind("n", s.pod(avoids))
			s.decide("", s.pod(rev))
			s.decide("", s.pod())
		},
		"the pod itself is, or is not, the first of its series": func(s *labelScene) {
			s.refuse(s.pod(seeks))
			s.decide("", s.pod(seeks, rev))
		},
		"the pod's own constraint counts it, or does not": func(s *labelScene) {
			s.bind("y", s.pod(rev))
			s.decide("", s.pod(spread(asks)))
			s.decide("", s.pod(spread(asks), rev))
		},
		"matchLabelKeys that the first pod lacks": func(s *labelScene) {
			s.bind("n", s.pod())
			s.decide("", s.pod(spread(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, "rev")))
			s.decide("", s.pod(spread(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, "rev"), rev))
		},
		"a bound pod of another namespace mentions it": func(s *labelScene) {
			s.decide("n", s.pod())
			s.bind("n", s.pod(in(1), avoids, naming(namespaces[0])))
			s.decide("", s.pod(rev))
			s.decide("", s.pod())
		},
		"a bound pod of another namespace mentions it for all": func(s *labelScene) {
			s.setNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[0]}})
			s.decide("n", s.pod())
			s.bind("n", s.pod(in(1), avoids, naming()))
			s.decide("", s.pod(rev))
			s.decide("", s.pod())
		},
		"a pod that goes, and a class of another namespace that avoids it": func(s *labelScene) {
			s.decide("n", s.pod())
			s.decide("y", s.pod(rev))
			s.decide("", s.pod(in(1), avoids, naming(namespaces[0])))
			s.remove("y")
			s.decide("", s.pod(in(1), avoids, naming(namespaces[0])))
			s.decide("y", s.pod(rev))
			s.decide("", s.pod(in(1), avoids, naming(namespaces[0])))
		},
		"a controller's selector": func(s *labelScene) {
			s.replicaSet(asks)
			s.decide("", s.pod(owned))
			s.decide("n", s.pod())
			s.decide("", s.pod(owned))
			s.decide("y", s.pod(rev))
			s.decide("", s.pod(owned))
		},
		"a controller that changes its selector": func(s *labelScene) {
			s.hard = true
			s.replicaSet(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}})
			s.bind("y", s.pod(rev))
			for range 2 { // the first decision makes the label "app" count
				s.decide("", s.pod(owned))
			}
			s.replicaSet(asks)
			s.decide("", s.pod(owned, rev))
		},
		"a service that comes": func(s *labelScene) {
			s.hard = true
			s.bind("y", s.pod(rev))
			s.decide("", s.pod())
			s.service(asks.MatchLabels)
			s.decide("", s.pod(rev))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(newLabelScene(t))
		})
	}
}

// naming makes the term of a pod name namespaces, or select all of them if it names none.
func naming(names ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		term := &pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
		if term.Namespaces = names; len(names) == 0 {
			term.NamespaceSelector = &metav1.LabelSelector{}
		}
	}
}

// labelScene is a world of three nodes.
type labelScene struct {
	*world
	// hard makes the default constraints reject nodes.
	hard    bool
	profile *Params
	byName  map[string]*corev1.Pod // by node
}

func newLabelScene(t *testing.T) *labelScene {
	s := &labelScene{world: newWorld(t, seed, 0), byName: map[string]*corev1.Pod{}}
	for _, name := range []string{"y", "n", "z"} {
		node := workload.Node(0)
		node.Name, node.UID, node.Labels[hostname] = name, types.UID(name), name
		s.cache.AddNode(klog.FromContext(s.ctx), node)
	}
	return s
}

func (s *labelScene) pod(edits ...func(*corev1.Pod)) *corev1.Pod {
	s.made++
	pod := podOf("basic", 0)
	pod.Name = fmt.Sprintf("pod-%d", s.made)
	pod.UID = types.UID(pod.Name)
	pod.Namespace, pod.Labels = namespaces[0], map[string]string{"app": "web"}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// look makes both paths decide about a pod, and compares.
func (s *labelScene) look(pod *corev1.Pod) outcome {
	s.t.Helper()
	if s.profile == nil {
		p := s.world.profile("mine", func(p *schedconfig.KubeSchedulerProfile) {
			for i := range p.PluginConfig {
				if args, ok := p.PluginConfig[i].Args.(*schedconfig.PodTopologySpreadArgs); ok && s.hard {
					args.DefaultingType = schedconfig.ListDefaulting
					args.DefaultConstraints = []corev1.TopologySpreadConstraint{
						{MaxSkew: 1, TopologyKey: hostname, WhenUnsatisfiable: corev1.DoNotSchedule}}
				}
			}
		})
		s.profile = &p
	}
	s.must(s.cache.UpdateSnapshot(klog.FromContext(s.ctx), s.snapshot))
	fast := s.ours.tryFast(s.ctx, *s.profile, schedframework.NewCycleState(), pod)
	scalar := s.ours.newScalar(request{*s.profile, schedframework.NewCycleState(), pod})
	_, err := scalar.decide(s.ctx)
	if fast.reason == fastpath.None || fast.reason == fastpath.NoFit {
		err = s.ours.compare(s.ctx, fast.Attempt, scalar, err)
	}
	if err != nil {
		s.t.Fatalf("pod %s: %v (%s)", pod.Name, err, fast.reason)
	}
	return fast
}

// decide decides about a pod and, if a node is given, places it there, with the class that it
// turned out to have.
func (s *labelScene) decide(node string, pod *corev1.Pod) {
	s.t.Helper()
	fast := s.look(pod)
	if fast.reason != fastpath.None {
		s.t.Fatalf("pod %s: %s", pod.Name, fast.reason)
	}
	if node != "" {
		pod.Spec.NodeName = node
		s.byName[node] = pod
		s.must(s.cache.AssumePodOfClass(klog.FromContext(s.ctx), pod, fast.Class))
	}
}

// refuse decides about a pod that fits nowhere.
func (s *labelScene) refuse(pod *corev1.Pod) {
	s.t.Helper()
	if reason := s.look(pod).reason; reason != fastpath.NoFit {
		s.t.Fatalf("pod %s: %q", pod.Name, reason)
	}
}

// bind puts a pod on a node, as if another scheduler had bound it there.
func (s *labelScene) bind(node string, pod *corev1.Pod) {
	pod.Spec.NodeName = node
	s.must(s.cache.AddPod(klog.FromContext(s.ctx), pod))
}

// remove removes the pod that was placed on a node last.
func (s *labelScene) remove(node string) {
	s.must(s.cache.RemovePod(klog.FromContext(s.ctx), s.byName[node]))
}

func (s *labelScene) replicaSet(selector *metav1.LabelSelector) {
	s.versions++
	s.must(s.handle.SharedInformerFactory().Apps().V1().ReplicaSets().Informer().GetIndexer().Update(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0], Name: "web", ResourceVersion: strconv.Itoa(s.versions)},
		Spec:       appsv1.ReplicaSetSpec{Selector: selector},
	}))
}

func (s *labelScene) service(selector map[string]string) {
	s.versions++
	s.must(s.handle.SharedInformerFactory().Core().V1().Services().Informer().GetIndexer().Update(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0], Name: "web", ResourceVersion: strconv.Itoa(s.versions)},
		Spec:       corev1.ServiceSpec{Selector: selector},
	}))
}

// in moves a pod to a namespace.
func in(i int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Namespace = namespaces[i] }
}

// jobOf gives a pod a label of its own.
func jobOf(i int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels["job"] = fmt.Sprint(i) }
}

// classOf makes both paths decide about a pod, and returns its class.
func (s *labelScene) classOf(edits ...func(*corev1.Pod)) cache.ClassID {
	s.t.Helper()
	fast := s.look(s.pod(edits...))
	if fast.reason != fastpath.None {
		s.t.Fatalf("the reason is %q", fast.reason)
	}
	return fast.Class.ID
}

// TestSelectorsOfOneNamespaceKeepTheClassesOfOthers counts the classes that a key drops which a
// selector reads for the first time.
func TestSelectorsOfOneNamespaceKeepTheClassesOfOthers(t *testing.T) {
	s := newLabelScene(t)
	asks := func(key string) *metav1.LabelSelector {
		return &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpExists}}}
	}
	avoids := func(key string, named ...string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			avoiding(asks(key), hostname)(pod)
			pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].Namespaces = named
		}
	}
	spread := func(key string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: zone,
				WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: asks(key)}}
		}
	}
	s.setNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[0]}})
	var classes [3]cache.ClassID
	for i := range classes {
		classes[i] = s.classOf(in(i))
	}
	expect := func(what string, dropped ...int) {
		t.Helper()
		for i := range classes {
			now := s.classOf(in(i))
			if (now != classes[i]) != slices.Contains(dropped, i) {
				t.Errorf("%s: the class in namespace %d was dropped: %v", what, i, now != classes[i])
			}
			classes[i] = now
		}
	}
	s.decide("", s.pod(in(0), spread("spread")))
	expect("a constraint", 0)
	s.decide("", s.pod(in(0), avoids("own")))
	expect("a term", 0)
	s.decide("", s.pod(in(0), avoids("other", namespaces[1])))
	expect("a term that names another namespace", 1)
	s.decide("", s.pod(in(2), avoids("other", namespaces[1])))
	expect("a key that counts there already")
	s.service(map[string]string{"service": ""})
	s.decide("", s.pod(in(0)))
	expect("a service", 0)
	s.decide("", s.pod(in(0), func(pod *corev1.Pod) {
		avoids("any")(pod)
		pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector =
			&metav1.LabelSelector{}
	}))
	expect("a term that selects all namespaces", 0, 1, 2)
}

// TestManyServicesDegradeTheirNamespaceOnly makes all labels of a namespace count.
func TestManyServicesDegradeTheirNamespaceOnly(t *testing.T) {
	s := newLabelScene(t)
	services := s.handle.SharedInformerFactory().Core().V1().Services().Informer().GetIndexer()
	var made []*corev1.Service
	for i := range 257 {
		s.versions++
		made = append(made, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0], Name: fmt.Sprint(i),
				ResourceVersion: strconv.Itoa(s.versions)},
			Spec: corev1.ServiceSpec{Selector: map[string]string{fmt.Sprint("key-", i): ""}},
		})
	}
	asks := &metav1.LabelSelector{MatchLabels: map[string]string{"rev": "x"}}
	avoids := func() *corev1.Pod { return s.pod(in(1), avoiding(asks, hostname), naming(namespaces[0])) }
	s.decide("", avoids())
	other := s.classOf(in(1), jobOf(0))
	for _, service := range made {
		s.must(services.Add(service))
	}
	for i := range 10 {
		if s.classOf(in(0), jobOf(2*i)) == s.classOf(in(0), jobOf(2*i+1)) {
			t.Fatal("not all labels of the namespace count")
		}
		if s.classOf(in(1), jobOf(i)) != other {
			t.Fatal("pods of another namespace have another class")
		}
	}
	for _, service := range made {
		s.must(services.Delete(service))
	}
	profile, pods := *s.profile, []*corev1.Pod{s.pod(in(0), jobOf(1)), s.pod(in(0), jobOf(2))}
	for i := 0; ; i++ {
		one := s.ours.tryFast(s.ctx, profile, schedframework.NewCycleState(), pods[0])
		two := s.ours.tryFast(s.ctx, profile, schedframework.NewCycleState(), pods[1])
		if one.Class.ID == two.Class.ID {
			break
		}
		if i > 5000 {
			t.Fatal("all labels still count after the services are gone")
		}
	}
	if s.classOf(in(1), jobOf(0)) != other {
		t.Error("the recount dropped a class of another namespace")
	}
	// The term of a pod of another namespace has been read again.
	s.decide("n", s.pod())
	s.decide("", avoids())
	s.decide("y", s.pod(func(pod *corev1.Pod) { pod.Labels["rev"] = "x" }))
	s.decide("", avoids())
}
