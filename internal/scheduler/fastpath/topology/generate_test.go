// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	hostname = corev1.LabelHostname
	zone     = corev1.LabelTopologyZone
	rack     = "rack"
)

var (
	namespaceNames = []string{"red", "green", "blue", "gone"}
	apps           = []string{"web", "db", "batch"}
	versions       = []string{"1", "2"}
	tiers          = []string{"front", "back"}
	keys           = []string{zone, zone, hostname, hostname, rack}
)

// generator makes random objects with the properties that the two plugins read, and the difficult
// ones: labels that are missing or empty, terms and selectors that select nothing or everything,
// names of objects that do not exist.
type generator struct {
	*rand.Rand
	made int
}

func newGenerator(seed uint64) *generator { return &generator{Rand: rand.New(rand.NewPCG(seed, 7))} }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// name returns a new name.
func (g *generator) name(kind string) string {
	g.made++
	return fmt.Sprintf("%s-%d", kind, g.made)
}

// node makes a node, or a new version of it.
func (g *generator) node(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
		Labels: map[string]string{hostname: name}}}
	if g.chance(90) {
		node.Labels[zone] = pick(g, []string{"a", "a", "b", "b", "c", "d"})
	}
	if g.chance(60) {
		node.Labels[rack] = pick(g, []string{"1", "2", "3", "4"})
	}
	switch g.IntN(20) {
	case 0:
		delete(node.Labels, hostname)
	case 1:
		node.Labels[hostname] = "shared"
	case 2, 3, 4:
		node.Labels[pick(g, keys)] = ""
	case 5:
		node.Labels = nil
	}
	if g.chance(50) && node.Labels != nil {
		node.Labels["disk"] = pick(g, []string{"ssd", "hdd"})
	}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
		corev1.TaintEffectNoExecute} {
		if g.chance(12) {
			node.Spec.Taints = append(node.Spec.Taints,
				corev1.Taint{Key: "team", Value: pick(g, []string{"5", "7"}), Effect: effect})
		}
	}
	if g.chance(10) {
		node.Spec.Unschedulable = true
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return node
}

func (g *generator) labels() map[string]string {
	labels := map[string]string{"app": pick(g, apps)}
	if g.chance(70) {
		labels["version"] = pick(g, versions)
	}
	if g.chance(30) {
		labels["tier"] = pick(g, tiers)
	}
	return labels
}

// pod makes a pod. Each feature has its own chance.
func (g *generator) pod() *corev1.Pod {
	name := g.name("pod")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(g, namespaceNames), Name: name,
		UID: types.UID(name), Labels: g.labels()}}
	if g.chance(5) {
		pod.Labels = nil
	}
	if g.chance(20) {
		pod.Spec.NodeSelector = map[string]string{"disk": pick(g, []string{"ssd", "hdd"})}
	}
	if g.chance(30) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, g.toleration())
	}
	if g.chance(70) {
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: pick(g, []string{"apps/v1", "apps/v1", "apps/v1", "v1", "batch/v1"}),
			Kind:       pick(g, []string{"ReplicaSet", "ReplicaSet", "StatefulSet", "ReplicationController"}),
			Name:       pick(g, apps), UID: "owner", Controller: ptr.To(g.chance(90)),
		}}
	}
	g.affinity(pod)
	if g.chance(50) {
		for range 1 + g.IntN(3) {
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, g.constraint())
		}
	}
	return pod
}

func (g *generator) toleration() corev1.Toleration {
	switch g.IntN(4) {
	case 0:
		return corev1.Toleration{Operator: corev1.TolerationOpExists}
	case 1:
		return corev1.Toleration{Key: "team", Operator: corev1.TolerationOpLt, Value: "6"}
	case 2:
		return corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}
	default:
		return corev1.Toleration{Key: "team", Operator: corev1.TolerationOpEqual, Value: pick(g, []string{"5", "7"})}
	}
}

func (g *generator) affinity(pod *corev1.Pod) {
	affinity := &corev1.Affinity{}
	if g.chance(15) {
		affinity.NodeAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: zone, Operator: pick(g,
						[]corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn}),
					Values: []string{"a", "b"},
				}}}},
			}}
	}
	if g.chance(35) {
		affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.terms(pod)}
	}
	if g.chance(35) {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.terms(pod)}
	}
	if g.chance(35) {
		affinity.PodAffinity = ptr.To(ptr.Deref(affinity.PodAffinity, corev1.PodAffinity{}))
		affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = g.weighted(pod)
	}
	if g.chance(35) {
		affinity.PodAntiAffinity = ptr.To(ptr.Deref(affinity.PodAntiAffinity, corev1.PodAntiAffinity{}))
		affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = g.weighted(pod)
	}
	pod.Spec.Affinity = affinity
}

func (g *generator) terms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	var terms []corev1.PodAffinityTerm
	for range g.IntN(3) {
		terms = append(terms, g.term(pod))
	}
	return terms
}

func (g *generator) weighted(pod *corev1.Pod) []corev1.WeightedPodAffinityTerm {
	var terms []corev1.WeightedPodAffinityTerm
	for _, term := range g.terms(pod) {
		terms = append(terms, corev1.WeightedPodAffinityTerm{Weight: int32(1 + g.IntN(100)), PodAffinityTerm: term})
	}
	return terms
}

func (g *generator) term(pod *corev1.Pod) corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{TopologyKey: pick(g, keys), LabelSelector: g.selector()}
	if g.chance(30) {
		term.LabelSelector = &metav1.LabelSelector{MatchLabels: maps.Clone(pod.Labels)} // the first of its series
	}
	if g.chance(40) {
		term.Namespaces = append(term.Namespaces, pick(g, namespaceNames))
	}
	switch g.IntN(8) {
	case 0:
		term.NamespaceSelector = &metav1.LabelSelector{}
	case 1, 2:
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": pick(g, tiers)}}
	case 3: // it matches namespaces without labels, too
		term.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist,
		}}}
	}
	return term
}

func (g *generator) selector() *metav1.LabelSelector {
	switch g.IntN(12) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2, 3:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{pick(g, apps)},
		}}}
	case 4:
		return &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "version", Operator: metav1.LabelSelectorOpExists}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, apps)}}
}

func (g *generator) constraint() corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + g.IntN(4)), TopologyKey: pick(g, keys), LabelSelector: g.selector(),
		WhenUnsatisfiable: pick(g, []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}),
	}
	if c.WhenUnsatisfiable == corev1.DoNotSchedule && g.chance(30) {
		c.MinDomains = ptr.To(int32(1 + g.IntN(6)))
	}
	policies := []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
	if g.chance(40) {
		c.NodeAffinityPolicy = ptr.To(pick(g, policies))
	}
	if g.chance(40) {
		c.NodeTaintsPolicy = ptr.To(pick(g, policies))
	}
	if g.chance(25) {
		c.MatchLabelKeys = []string{"version", "absent"}
	}
	return c
}

func (g *generator) namespace(name string) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if g.chance(60) {
		namespace.Labels = map[string]string{"tier": pick(g, tiers)}
	}
	return namespace
}

func (g *generator) service(namespace, name string) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	switch g.IntN(6) {
	case 0: // of no pods
	case 1:
		service.Spec.Selector = map[string]string{}
	case 2:
		service.Spec.Selector = map[string]string{"app": pick(g, apps), "version": pick(g, versions)}
	default:
		service.Spec.Selector = map[string]string{"app": pick(g, apps)}
	}
	return service
}

// controllers returns the three controllers with a name.
func (g *generator) controllers(
	namespace, name string) (*corev1.ReplicationController, *appsv1.ReplicaSet, *appsv1.StatefulSet) {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	return &corev1.ReplicationController{ObjectMeta: meta,
			Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"app": pick(g, apps)}}},
		&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: g.selector()}},
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: g.selector()}}
}
