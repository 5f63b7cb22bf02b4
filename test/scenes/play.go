// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/test/objects"
)

// Cluster holds the objects that a script describes.
type Cluster struct {
	Nodes []*corev1.Node
	// Pods are the existing pods, on the nodes that they name.
	Pods []*corev1.Pod
	// Pod is the pod to schedule, by the profile that it names.
	Pod *corev1.Pod
}

// Cluster reads the scene's script.
func (s Scene) Cluster() (*Cluster, error) {
	var script script
	if err := yaml.UnmarshalStrict([]byte(s.Script), &script); err != nil {
		return nil, fmt.Errorf("scene %q: %w", s.Name, err)
	}
	c := &Cluster{Pod: script.Pod.pod("pod", DefaultProfile)}
	for _, name := range slices.Sorted(maps.Keys(script.Nodes)) {
		c.Nodes = append(c.Nodes, script.Nodes[name].node(name))
	}
	for _, name := range slices.Sorted(maps.Keys(script.Pods)) {
		c.Pods = append(c.Pods, script.Pods[name].pod(name, "somebody-else"))
	}
	return c, nil
}

// script is the shape of a scene's YAML.
type script struct {
	// Nodes are the nodes by name.
	Nodes map[string]node `json:"nodes"`
	// Pods are the existing pods by name.
	Pods map[string]pod `json:"pods"`
	// Pod is the pod to schedule. It uses the default profile if it names no other.
	Pod pod `json:"pod"`
}

// node has room for 4 CPUs, 8 GiB and 110 pods by default.
type node struct {
	Labels           map[string]string       `json:"labels"`
	Taints           []corev1.Taint          `json:"taints"`
	Unschedulable    bool                    `json:"unschedulable"`
	Allocatable      corev1.ResourceList     `json:"allocatable"` // added to the defaults, or replacing them
	Images           []corev1.ContainerImage `json:"images"`
	DeclaredFeatures []string                `json:"declaredFeatures"`
}

func (n node) node(name string) *corev1.Node {
	node := objects.Node(name, "4", "8Gi", n.Labels)
	node.Spec.Taints, node.Spec.Unschedulable = n.Taints, n.Unschedulable
	maps.Copy(node.Status.Allocatable, n.Allocatable)
	maps.Copy(node.Status.Capacity, n.Allocatable)
	node.Status.Images, node.Status.DeclaredFeatures = n.Images, n.DeclaredFeatures
	return node
}

// pod has its spec inline, and short names for deeply nested fields.
type pod struct {
	Namespace      string            `json:"namespace"`
	Labels         map[string]string `json:"labels"`
	corev1.PodSpec `json:",inline"`

	// Requests are the requests of the only container of a pod whose spec has no containers.
	// Default: 100m of CPU and 100Mi of memory.
	Requests corev1.ResourceList `json:"requests"`
	// Ports are the ports of that container.
	Ports []corev1.ContainerPort `json:"ports"`
	// Spread has a maxSkew of 1 and DoNotSchedule by default.
	Spread []corev1.TopologySpreadConstraint `json:"spread"`
	// The affinities, required and preferred.
	OnNodes      []corev1.NodeSelectorTerm        `json:"onNodes"`
	RatherNodes  []corev1.PreferredSchedulingTerm `json:"ratherNodes"`
	NearPods     []corev1.PodAffinityTerm         `json:"nearPods"`
	RatherNear   []corev1.WeightedPodAffinityTerm `json:"ratherNear"`
	AwayFromPods []corev1.PodAffinityTerm         `json:"awayFromPods"`
	RatherAway   []corev1.WeightedPodAffinityTerm `json:"ratherAway"`
}

func (p pod) pod(name, schedulerName string) *corev1.Pod {
	pod := objects.Pod(cmp.Or(p.Namespace, metav1.NamespaceDefault), name, schedulerName, "100m", "100Mi")
	usual := pod.Spec.Containers[0]
	pod.Labels = p.Labels
	pod.Spec = p.PodSpec
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	pod.Spec.SchedulerName = cmp.Or(pod.Spec.SchedulerName, schedulerName)
	pod.Spec.Affinity = p.affinity()
	pod.Spec.TopologySpreadConstraints = p.Spread
	for i := range p.Spread {
		c := &p.Spread[i]
		c.MaxSkew = max(c.MaxSkew, 1)
		c.WhenUnsatisfiable = cmp.Or(c.WhenUnsatisfiable, corev1.DoNotSchedule)
	}
	if len(pod.Spec.Containers) == 0 {
		usual.Ports = p.Ports
		if p.Requests != nil {
			usual.Resources.Requests = p.Requests
			usual.Resources.Limits = extended(p.Requests)
		}
		pod.Spec.Containers = []corev1.Container{usual}
	}
	for prefix, containers := range map[string][]corev1.Container{"c": pod.Spec.Containers,
		"i": pod.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			c.Name = cmp.Or(c.Name, fmt.Sprintf("%s%d", prefix, i))
			c.Image = cmp.Or(c.Image, usual.Image)
		}
	}
	return pod
}

func (p pod) affinity() *corev1.Affinity {
	a := &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: p.RatherNodes},
		PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  p.NearPods,
			PreferredDuringSchedulingIgnoredDuringExecution: p.RatherNear,
		},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  p.AwayFromPods,
			PreferredDuringSchedulingIgnoredDuringExecution: p.RatherAway,
		},
	}
	if p.OnNodes != nil {
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: p.OnNodes}
	}
	return a
}

// extended returns the extended resources of a list. Their limits must equal the requests.
func extended(requests corev1.ResourceList) corev1.ResourceList {
	limits := corev1.ResourceList{}
	for name, quantity := range requests {
		if strings.Contains(string(name), "/") {
			limits[name] = quantity
		}
	}
	return limits
}
