// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	hostname = corev1.LabelHostname
	zone     = corev1.LabelTopologyZone
	rack     = "example.com/rack"
)

var (
	namespaces = []string{"red", "green", "blue"}
	apps       = []string{"web", "db", "cache", "batch"}
	disks      = []string{"ssd", "hdd"}
	images     = []string{"img/a:1", "img/b:1", "img/c:1", "img/d", "img/built:1", "img/built:2"}
)

// generator makes random clusters, and pods that use what the default plugins read.
type generator struct {
	*rand.Rand
	made int
	// rarity divides the chances of properties that keep pods off nodes.
	rarity int
}

func newGenerator(seed, stream uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, stream)), rarity: 1}
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) rarely(percent int) bool { return g.IntN(100*g.rarity) < percent }

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

func (g *generator) namespaces() []*corev1.Namespace {
	var out []*corev1.Namespace
	for i, name := range namespaces {
		out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"tier": []string{"front", "back"}[i%2]},
		}})
	}
	return out
}

// services returns the services that PodTopologySpread's default constraints depend on.
func (g *generator) services() []*corev1.Service {
	var out []*corev1.Service
	for _, namespace := range namespaces {
		for _, app := range apps {
			if g.chance(50) {
				out = append(out, &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
					Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": app}},
				})
			}
		}
	}
	return out
}

func (g *generator) nodes(n int) []*corev1.Node {
	zones := 2 + g.IntN(4)
	var out []*corev1.Node
	for i := range n {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("node-%03d", i),
			Labels: map[string]string{hostname: fmt.Sprintf("node-%03d", i)},
		}}
		if g.chance(92) {
			node.Labels[zone] = fmt.Sprintf("zone-%d", g.IntN(zones))
		}
		if g.chance(70) {
			node.Labels["disk"] = pick(g, disks)
		}
		if g.chance(5) {
			delete(node.Labels, hostname)
		}
		node.Spec.Unschedulable = g.rarely(4)
		node.Spec.Taints = g.taints()
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU:              *resource.NewMilliQuantity(int64(1000+1000*g.IntN(8)), resource.DecimalSI),
			corev1.ResourceMemory:           *resource.NewQuantity(int64(1+g.IntN(16))<<30, resource.BinarySI),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(10+g.IntN(50))<<30, resource.BinarySI),
			corev1.ResourcePods:             *resource.NewQuantity(int64(4+g.IntN(20)), resource.DecimalSI),
		}
		if g.chance(20) {
			node.Status.Allocatable["example.com/gpu"] = *resource.NewQuantity(int64(1+g.IntN(4)), resource.DecimalSI)
		}
		node.Status.Capacity = node.Status.Allocatable.DeepCopy()
		node.Status.Images = g.pulled()
		out = append(out, node)
	}
	return out
}

// pulled returns the images of a node. Few nodes have those that were built last.
func (g *generator) pulled() (out []corev1.ContainerImage) {
	for i, image := range images {
		chance := 30
		switch {
		case strings.HasPrefix(image, "img/built"):
			chance = 2
		case !strings.Contains(image, ":"):
			image += ":latest"
		}
		if g.chance(chance) {
			out = append(out, corev1.ContainerImage{
				Names:     []string{image, fmt.Sprintf("img@sha256:%d", i)},
				SizeBytes: int64(i+1)*300<<20 + g.Int64N(1<<20),
			})
		}
	}
	return out
}

func (g *generator) taints() []corev1.Taint {
	var taints []corev1.Taint
	for _, effect := range []corev1.TaintEffect{
		corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
	} {
		if g.rarely(8) {
			taints = append(taints,
				corev1.Taint{Key: pick(g, []string{"gpu", "team"}), Value: pick(g, apps), Effect: effect})
		}
	}
	return taints
}

// pod makes a pod. Each feature has its own chance, so that most pods have few features and some
// have many.
func (g *generator) pod(nodes []*corev1.Node) *corev1.Pod {
	g.made++
	name := fmt.Sprintf("pod-%05d", g.made)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pick(g, namespaces), Name: name, UID: types.UID(name),
			Labels: map[string]string{"app": pick(g, apps), "version": pick(g, []string{"1", "2"})},
		},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Priority:      ptr.To(int32(g.IntN(4)) * 10),
			Affinity:      &corev1.Affinity{},
		},
	}
	// What no in-tree plugin reads. An out-of-tree one reads the version.
	pod.Annotations = map[string]string{"version": pod.Labels["version"], "note": name}
	for i := range 1 + g.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, g.container(i))
	}
	if g.chance(15) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, g.container(9))
	}
	if g.rarely(10) {
		pod.Spec.NodeSelector = map[string]string{"disk": pick(g, disks)}
	}
	for range g.IntN(3) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, g.toleration())
	}
	g.nodeAffinity(pod, nodes)
	g.podAffinity(pod)
	g.spread(pod)
	if g.rarely(2) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"},
		}}}
	}
	if g.rarely(2) {
		pod.Spec.NodeName = pick(g, nodes).Name
	}
	return pod
}

func (g *generator) container(i int) corev1.Container {
	c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: pick(g, images),
		Env: []corev1.EnvVar{{Name: "NUMBER", Value: fmt.Sprint(g.made)}}}
	c.Resources.Requests = corev1.ResourceList{}
	if g.chance(70) {
		c.Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(50*(1+g.IntN(20))),
			resource.DecimalSI)
	}
	if g.chance(60) {
		c.Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(int64(64*(1+g.IntN(16)))<<20,
			resource.BinarySI)
	}
	if g.rarely(5) {
		c.Resources.Requests["example.com/gpu"] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	if g.chance(8) {
		c.Ports = []corev1.ContainerPort{{HostPort: int32(8000 + g.IntN(3)), ContainerPort: 80,
			Protocol: corev1.ProtocolTCP}}
	}
	return c
}

func (g *generator) toleration() corev1.Toleration {
	t := corev1.Toleration{Key: pick(g, []string{"gpu", "team"}), Operator: corev1.TolerationOpExists}
	if g.chance(50) {
		t.Operator, t.Value = corev1.TolerationOpEqual, pick(g, apps)
	}
	if g.chance(40) {
		t.Effect = pick(g, []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule})
	}
	return t
}

func (g *generator) nodeAffinity(pod *corev1.Pod, nodes []*corev1.Node) {
	affinity := &corev1.NodeAffinity{}
	if g.rarely(12) {
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{g.nodeRequirement()}}
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{term},
		}
	} else if g.rarely(6) {
		// With node names, PreFilter leaves only these nodes.
		values := []string{"node-gone"}
		for range g.IntN(4) {
			values = append(values, pick(g, nodes).Name)
		}
		var terms []corev1.NodeSelectorTerm
		for _, value := range values {
			terms = append(terms, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
			}}})
		}
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
	}
	if g.chance(15) {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{
			Weight: int32(1 + g.IntN(100)),
			Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{g.nodeRequirement()}},
		}}
	}
	pod.Spec.Affinity.NodeAffinity = affinity
}

func (g *generator) nodeRequirement() corev1.NodeSelectorRequirement {
	switch g.IntN(3) {
	case 0:
		return corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpExists}
	case 1:
		return corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpNotIn,
			Values: []string{pick(g, disks)}}
	default:
		return corev1.NodeSelectorRequirement{Key: zone, Operator: corev1.NodeSelectorOpIn,
			Values: []string{"zone-0", "zone-1"}}
	}
}

func (g *generator) podAffinity(pod *corev1.Pod) {
	affinity, anti := &corev1.PodAffinity{}, &corev1.PodAntiAffinity{}
	if g.rarely(12) {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{g.podTerm()}
	}
	if g.rarely(15) {
		anti.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{g.podTerm()}
	}
	if g.chance(15) {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{
			{Weight: int32(1 + g.IntN(100)), PodAffinityTerm: g.podTerm()},
		}
	}
	if g.chance(15) {
		anti.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{
			{Weight: int32(1 + g.IntN(100)), PodAffinityTerm: g.podTerm()},
		}
	}
	pod.Spec.Affinity.PodAffinity, pod.Spec.Affinity.PodAntiAffinity = affinity, anti
}

func (g *generator) podTerm() corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{
		LabelSelector: g.selector(),
		TopologyKey:   pick(g, []string{zone, zone, zone, hostname, hostname, rack, "disk", "drained"}),
	}
	switch {
	case g.chance(20):
		term.Namespaces = []string{pick(g, namespaces), pick(g, namespaces)}
	case g.chance(20):
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}
	case g.chance(10):
		term.NamespaceSelector = &metav1.LabelSelector{}
	}
	return term
}

func (g *generator) selector() *metav1.LabelSelector {
	if g.chance(20) {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{pick(g, apps)},
		}}}
	}
	if g.chance(10) { // a label that pods get when they are bound
		return &metav1.LabelSelector{MatchLabels: map[string]string{zone: fmt.Sprintf("zone-%d", g.IntN(3))}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, apps)}}
}

func (g *generator) spread(pod *corev1.Pod) {
	for _, key := range []string{zone, hostname, rack} {
		if !g.rarely(18) {
			continue
		}
		constraint := corev1.TopologySpreadConstraint{
			MaxSkew: int32(1 + g.IntN(3)), TopologyKey: key, LabelSelector: g.selector(),
			WhenUnsatisfiable: pick(g,
				[]corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}),
		}
		if constraint.WhenUnsatisfiable == corev1.DoNotSchedule && g.chance(20) {
			constraint.MinDomains = ptr.To(int32(1 + g.IntN(4)))
		}
		if g.chance(20) {
			constraint.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor)
		}
		if g.chance(20) {
			constraint.NodeAffinityPolicy = ptr.To(corev1.NodeInclusionPolicyIgnore)
		}
		if g.chance(20) {
			constraint.MatchLabelKeys = []string{"version"}
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, constraint)
	}
}
