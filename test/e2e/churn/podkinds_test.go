// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/objects"
)

// Labels of pods. Those of kind, app and apart never change once the pod is bound.
const (
	kindLabel = "churn.example/kind"
	appLabel  = "churn.example/app"
	// apartLabel has the pod's group. No node may have two pods of a group.
	apartLabel = "churn.example/apart"
	// tickLabel changes, but means nothing.
	tickLabel = "churn.example/tick"
	// actLabel selects what the plugin does to the pod; holdLabel makes the plugin gate it.
	actLabel  = "churn.example/act"
	holdLabel = "churn.example/hold"
)

const (
	gate         = "churn.example/gate"
	runtimeClass = "churn-heavy"
	colorLabel   = "churn.example/color"
	taintKey     = "churn.example/taint"
)

// kind is a kind of pod.
type kind struct {
	name string
	// weight is the share of these among all pods.
	weight int
	make   func(a *actor, pod *corev1.Pod)
}

var kinds = []kind{
	{"basic", 14, func(*actor, *corev1.Pod) {}},
	{"large", 5, func(a *actor, pod *corev1.Pod) { requests(pod, one(a, "1500m", "2", "3"), "1Gi") }},
	{"huge", 1, func(_ *actor, pod *corev1.Pod) { requests(pod, "64", "1Gi") }},
	{"priority", 8, func(a *actor, pod *corev1.Pod) {
		pod.Spec.PriorityClassName = one(a, "churn-low", "churn-high", "churn-higher", "churn-polite")
		requests(pod, one(a, "500m", "1", "2500m"), "512Mi")
	}},
	{"zones", 6, func(a *actor, pod *corev1.Pod) {
		spread(pod, corev1.LabelTopologyZone, one(a, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway))
	}},
	{"hosts", 3, func(a *actor, pod *corev1.Pod) {
		spread(pod, corev1.LabelHostname, one(a, corev1.DoNotSchedule, corev1.ScheduleAnyway))
	}},
	{"apart", 6, func(a *actor, pod *corev1.Pod) {
		group := one(a, "one", "two")
		pod.Labels[apartLabel] = group
		affinity(pod).PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				term(corev1.LabelHostname, apartLabel, group)},
		}
	}},
	{"alone", 2, func(_ *actor, pod *corev1.Pod) {
		affinity(pod).PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				term(corev1.LabelTopologyZone, kindLabel, "alone")},
		}
	}},
	{"together", 5, func(a *actor, pod *corev1.Pod) {
		affinity(pod).PodAffinity = &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(
				one(a, corev1.LabelTopologyZone, corev1.LabelHostname), appLabel,
				one(a, "web", "db", "cache", "rare"))},
		}
	}},
	{"colored", 5, func(a *actor, pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{colorLabel: one(a, "red", "blue", "green", "none")}
	}},
	{"preferring", 3, func(a *actor, pod *corev1.Pod) {
		affinity(pod).NodeAffinity = &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
				{Weight: 50, Preference: corev1.NodeSelectorTerm{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: colorLabel,
						Operator: corev1.NodeSelectorOpIn,
						Values:   []string{one(a, "red", "blue")}}},
				}}},
		}
	}},
	{"named", 2, func(a *actor, pod *corev1.Pod) {
		affinity(pod).NodeAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchFields: []corev1.NodeSelectorRequirement{
						{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn,
							Values: []string{one(a, nodeNames...)}}},
				}}},
		}
	}},
	{"gated", 4, func(_ *actor, pod *corev1.Pod) {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
	}},
	{"held", 3, func(_ *actor, pod *corev1.Pod) { pod.Labels[holdLabel] = "yes" }},
	{"port", 5, func(a *actor, pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{
			{ContainerPort: 80, HostPort: one[int32](a, 8001, 8002, 8003)}}
	}},
	{"tolerant", 3, func(a *actor, pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: taintKey, Operator: corev1.TolerationOpExists,
			Effect: one(a, corev1.TaintEffectNoSchedule, "")}}
	}},
	{"podlevel", 3, func(_ *actor, pod *corev1.Pod) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("800m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
		}}
	}},
	{"overhead", 3, func(_ *actor, pod *corev1.Pod) { pod.Spec.RuntimeClassName = ptr.To(runtimeClass) }},
	{"init", 3, func(_ *actor, pod *corev1.Pod) {
		sidecar, first := pod.Spec.Containers[0], pod.Spec.Containers[0]
		sidecar.Name, sidecar.RestartPolicy = "sidecar", ptr.To(corev1.ContainerRestartPolicyAlways)
		first.Name = "first"
		first.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900m")}
		pod.Spec.InitContainers = []corev1.Container{sidecar, first}
	}},
	{"claim", 4, func(a *actor, pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(a.rng.IntN(claims))},
		}}}
	}},
	{"lateclaim", 4, func(a *actor, pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: lateClaimName(a.rng.IntN(lateClaims))},
		}}}
	}},
	{"device", 4, func(a *actor, pod *corev1.Pod) {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{
			{Name: "device", ResourceClaimName: ptr.To(deviceClaimName(a.rng.IntN(deviceClaims)))}}
	}},
	{"job", 5, func(a *actor, pod *corev1.Pod) {
		a.newOwner(pod)
		requests(pod, one(a, "100m", "1", "5"), "64Mi") // some fit nowhere
	}},
	{"permit", 6, func(_ *actor, pod *corev1.Pod) { pod.Labels[actLabel] = "permit" }},
	{"prebind", 5, func(_ *actor, pod *corev1.Pod) { pod.Labels[actLabel] = "prebind" }},
	{"reserve", 2, func(_ *actor, pod *corev1.Pod) { pod.Labels[actLabel] = "reserve" }},
	{"reject", 2, func(_ *actor, pod *corev1.Pod) { pod.Labels[actLabel] = "reject" }},
	{"panic", 1, func(_ *actor, pod *corev1.Pod) { pod.Labels[actLabel] = "panic" }},
}

// newPod returns a pod of a random kind, whose name earlier pods may have had.
func (a *actor) newPod() *corev1.Pod {
	scheduler := one(a, schedulerNames...)
	if a.chance(6) {
		scheduler = nobody
	}
	pod := objects.Pod(metav1.NamespaceDefault, fmt.Sprintf("pod-%d", a.rng.IntN(2*maxPods)), scheduler,
		one(a, "50m", "300m", "800m"), "64Mi")
	pod.Labels = map[string]string{appLabel: one(a, "web", "db", "cache")}
	pod.Spec.TerminationGracePeriodSeconds = ptr.To(one[int64](a, 0, 0, 30))
	k := a.kind()
	pod.Labels[kindLabel] = k.name
	k.make(a, pod)
	if a.chance(15) && pod.Spec.PriorityClassName == "" {
		pod.Spec.PriorityClassName = one(a, "churn-low", "churn-high", "churn-higher")
	}
	return pod
}

// newOwner gives a pod a Job of its own as its controller. The Job does not exist: livesched reads
// none.
func (a *actor) newOwner(pod *corev1.Pod) {
	name := fmt.Sprintf("job-%d", a.rng.Uint32())
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID(name), Controller: ptr.To(true),
	}}
}

func (a *actor) kind() kind {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := a.rng.IntN(total)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			return k
		}
	}
	panic("the weights do not add up")
}

func requests(pod *corev1.Pod, cpu, memory string) {
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
}

func affinity(pod *corev1.Pod) *corev1.Affinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	return pod.Spec.Affinity
}

func term(topology, label, value string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: topology,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: value}}}
}

func spread(pod *corev1.Pod, topology string, when corev1.UnsatisfiableConstraintAction) {
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: topology, WhenUnsatisfiable: when,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: pod.Labels[appLabel]}},
	}}
}
