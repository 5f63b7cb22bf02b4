// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload makes the nodes and pods that benchmarks schedule. All benchmarks, with and
// without an API server, measure the same kinds of pods, under the names in
// docs/compare/performance.md.
package workload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// The kinds of pods. All except the unique ones request 100m of CPU and 200Mi of memory.
const (
	// Basic pods have no other requirements.
	Basic = "basic"
	// Owned pods are selected by [Service], so that PodTopologySpread's default constraints apply.
	Owned = "owned"
	// Spread pods have a DoNotSchedule constraint on zones and a ScheduleAnyway one on nodes.
	Spread = "spread"
	// Anti pods avoid each other's nodes (required anti-affinity).
	Anti = "anti"
	// Affinity pods prefer the zone of the others (preferred affinity).
	Affinity = "affinity"
	// Mixed pods are basic, spread, anti and affinity in turn.
	Mixed = "mixed"
	// Unique pods request amounts that no other pod requests, and have labels of their own.
	Unique = "unique"
	// Labels pods have labels of their own, like those of Jobs.
	Labels = "labels"
	// Pulled pods have an image that a third of the nodes have, so that ImageLocality prefers
	// these. No node has the image of the other kinds.
	Pulled = "pulled"
	// Daemon pods name their node, like those of DaemonSets.
	Daemon = "daemon"
	// Claims pods are owned pods with a volume each, like those of StatefulSets: a bound claim of a
	// volume that the nodes of one zone can mount. Claims and volumes must exist: see [Pods.Claim].
	Claims = "claims"
	// Limited pods are like Claims pods, with volumes that every node can mount, of a driver that
	// limits the volumes of a node: see [CSINode].
	Limited = "limited"
	// InTree pods are like Limited pods, with in-tree volumes that are migrated to this driver.
	InTree = "intree"
)

// Kinds are all kinds of pods that need only nodes and [Service].
var Kinds = []string{Basic, Owned, Spread, Anti, Affinity, Mixed, Unique, Labels, Pulled, Daemon}

// ClaimKinds are the kinds of pods that need claims, too.
var ClaimKinds = []string{Claims, Limited, InTree}

// DefaultSeries is the default number of sets of pods with equal labels.
const DefaultSeries = 20

// Namespace is the namespace of the pods.
const Namespace = metav1.NamespaceDefault

// Pods makes pods of a kind.
type Pods struct {
	// Kind is one of [Kinds], or of [ClaimKinds].
	Kind string
	// Nodes is the number of nodes for daemon pods to name.
	Nodes int
	// Series is the number of sets of pods with equal labels. The sets take turns. A pod's
	// selectors select its own set. 0 means DefaultSeries.
	Series int
	// SchedulerName is the scheduler name of the pods. Empty means the default scheduler.
	SchedulerName string
}

// Validate returns an error if the kind is invalid.
func (p Pods) Validate() error {
	if kinds := slices.Concat(Kinds, ClaimKinds); !slices.Contains(kinds, p.Kind) {
		return fmt.Errorf("pods of kind %q: the kinds are %s", p.Kind, strings.Join(kinds, ", "))
	}
	if p.Kind == Daemon && p.Nodes < 1 {
		return fmt.Errorf("pods of kind %q need nodes", p.Kind)
	}
	return nil
}

// Pod returns the i-th pod as a controller would create it. Its name contains kind and number. The
// kind must be valid.
func (p Pods) Pod(i int) *corev1.Pod {
	kind := p.Kind
	if kind == Mixed {
		turns := []string{Basic, Spread, Anti, Affinity}
		kind = turns[i%len(turns)]
	}
	series := p.Series
	if series == 0 {
		series = DefaultSeries
	}
	name := fmt.Sprintf("%s-%d", kind, i)
	app := fmt.Sprintf("%s-%d", kind, i%series)
	if kind == Unique || kind == Labels {
		app = name
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name,
			Labels: map[string]string{"app": app, "kind": kind}},
		Spec: corev1.PodSpec{
			SchedulerName: p.SchedulerName,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/app:1",
				Resources: corev1.ResourceRequirements{Requests: requests("100m", "200Mi")},
			}},
		},
	}
	p.shape(pod, kind, i)
	return pod
}

// shape adds the requirements of a kind.
func (p Pods) shape(pod *corev1.Pod, kind string, i int) {
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}
	switch kind {
	case Spread:
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: own},
			{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: own},
		}
	case Anti:
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: own}},
		}}
	case Affinity:
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 10, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelTopologyZone,
					LabelSelector: own}},
			},
		}}
	case Unique:
		// The CPU request fits on a node. The memory request makes the pair unique.
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(100+i%100), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(200<<20+int64(i/100)<<10, resource.BinarySI),
		}
	case Pulled:
		pod.Spec.Containers[0].Image = PulledImage
	case Claims, Limited, InTree:
		pod.Labels["kind"] = Owned
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pod.Name},
		}}}
	case Daemon:
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchFields: []corev1.NodeSelectorRequirement{
						{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn,
							Values: []string{NodeName(i % p.Nodes)}},
					},
				}}},
		}}
	}
}

// Admit adds to a pod what the API server and its admission plugins add and the scheduler reads. It
// is for benchmarks without an API server.
func Admit(pod *corev1.Pod) *corev1.Pod {
	pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations,
			corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name:         "kube-api-access-" + pod.Name,
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}},
	})
	return pod
}

// filler is the kind of the pods that fill nodes.
const filler = "filler"

// Filler returns the i-th pod that takes half a node. 2n of them fill the first n nodes. The pod
// ends immediately when it is preempted.
func Filler(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: FillerName(i),
			Labels: map[string]string{"kind": filler}},
		Spec: corev1.PodSpec{
			NodeName:                      NodeName(i / 2),
			TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/app:1",
				Resources: corev1.ResourceRequirements{Requests: requests("4", "4Gi")},
			}},
		},
	}
}

// FillerName returns the name of the i-th pod that fills nodes.
func FillerName(i int) string { return fmt.Sprintf("%s-%d", filler, i) }

// IsFiller reports whether a pod is one that fills nodes.
func IsFiller(pod *corev1.Pod) bool { return pod.Labels["kind"] == filler }

// Service selects the pods of kind [Owned].
func Service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "owner"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"kind": Owned},
			Ports:    []corev1.ServicePort{{Port: 80}},
		},
	}
}

func requests(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory)}
}
