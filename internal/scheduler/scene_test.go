// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/test/objects"
)

// scene is a cluster and a pod that comes to it, written in YAML. Scenes look at nothing but the
// API, so that kube-scheduler can play them, too (see oracle).
type scene struct {
	// Nodes are by name. They have room for 4 CPUs, 8 GiB and 110 pods.
	Nodes map[string]struct {
		Labels           map[string]string       `json:"labels"`
		Taints           []corev1.Taint          `json:"taints"`
		Unschedulable    bool                    `json:"unschedulable"`
		Allocatable      corev1.ResourceList     `json:"allocatable"` // beside the usual, or instead
		Images           []corev1.ContainerImage `json:"images"`
		DeclaredFeatures []string                `json:"declaredFeatures"`
	} `json:"nodes"`
	// Pods are by name. They are there already, on the nodes that they name.
	Pods map[string]scenePod `json:"pods"`
	// Pod is the one that is to be scheduled, by "mine" if it names no other scheduler.
	Pod scenePod `json:"pod"`
}

// scenePod is a pod with its spec inline, and short names for what is deep in there.
type scenePod struct {
	Namespace      string            `json:"namespace"`
	Labels         map[string]string `json:"labels"`
	corev1.PodSpec `json:",inline"`

	// Requests are those of the one container of a pod whose spec has none: 100m of CPU and 100Mi
	// of memory by default.
	Requests corev1.ResourceList `json:"requests"`
	// Ports are those of that container.
	Ports []corev1.ContainerPort `json:"ports"`
	// Spread has a maxSkew of 1 and DoNotSchedule by default.
	Spread []corev1.TopologySpreadConstraint `json:"spread"`
	// The affinities: what is required, and what is preferred.
	OnNodes      []corev1.NodeSelectorTerm        `json:"onNodes"`
	RatherNodes  []corev1.PreferredSchedulingTerm `json:"ratherNodes"`
	NearPods     []corev1.PodAffinityTerm         `json:"nearPods"`
	RatherNear   []corev1.WeightedPodAffinityTerm `json:"ratherNear"`
	AwayFromPods []corev1.PodAffinityTerm         `json:"awayFromPods"`
	RatherAway   []corev1.WeightedPodAffinityTerm `json:"ratherAway"`
}

func (p scenePod) pod(name, schedulerName string) *corev1.Pod {
	pod := objects.Pod(metav1.NamespaceDefault, name, schedulerName, "100m", "100Mi")
	usual := pod.Spec.Containers[0]
	pod.Labels = p.Labels
	if p.Namespace != "" {
		pod.Namespace = p.Namespace
	}
	pod.Spec = p.PodSpec
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = schedulerName
	}
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
	for prefix, containers := range map[string][]corev1.Container{"c": pod.Spec.Containers, "i": pod.Spec.InitContainers} {
		for i := range containers {
			if c := &containers[i]; c.Name == "" {
				c.Name = fmt.Sprintf("%s%d", prefix, i)
			}
			if c := &containers[i]; c.Image == "" {
				c.Image = usual.Image
			}
		}
	}
	return pod
}

func (p scenePod) affinity() *corev1.Affinity {
	a := &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: p.RatherNodes},
		PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: p.NearPods, PreferredDuringSchedulingIgnoredDuringExecution: p.RatherNear,
		},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: p.AwayFromPods, PreferredDuringSchedulingIgnoredDuringExecution: p.RatherAway,
		},
	}
	if p.OnNodes != nil {
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: p.OnNodes}
	}
	return a
}

// extended returns the extended resources of a list, whose limits have to be the requests.
func extended(requests corev1.ResourceList) corev1.ResourceList {
	limits := corev1.ResourceList{}
	for name, quantity := range requests {
		if strings.Contains(string(name), "/") {
			limits[name] = quantity
		}
	}
	return limits
}

// build creates what is there before the pod comes, and waits until the scheduler knows of it.
func (s *scene) build(ctx context.Context) {
	GinkgoHelper()
	for name, n := range s.Nodes {
		node := objects.Node(name, "4", "8Gi", n.Labels)
		node.Spec.Taints, node.Spec.Unschedulable = n.Taints, n.Unschedulable
		maps.Copy(node.Status.Allocatable, n.Allocatable)
		maps.Copy(node.Status.Capacity, n.Allocatable)
		node.Status.Images, node.Status.DeclaredFeatures = n.Images, n.DeclaredFeatures
		create(ctx, node)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Pods)) {
		pod := s.Pods[name].pod(name, "somebody-else")
		if pod.Namespace == metav1.NamespaceDefault {
			create(ctx, pod)
		} else {
			createFor(ctx, pod)
		}
	}
	expectSeen(ctx, len(s.Nodes))
}

// play builds a scene, has the pod come, and waits for what becomes of it.
func play(ctx context.Context, script string, outcome outcome) {
	GinkgoHelper()
	var s scene
	Expect(yaml.UnmarshalStrict([]byte(script), &s)).To(Succeed())
	s.build(ctx)
	pod := s.Pod.pod("pod", "mine")
	if pod.Namespace == metav1.NamespaceDefault {
		create(ctx, pod)
	} else {
		createFor(ctx, pod)
	}
	outcome(ctx, pod, len(s.Nodes))
}

// outcome is what becomes of the pod of a scene.
type outcome func(ctx context.Context, pod *corev1.Pod, nodes int)

// goesTo says that the pod is bound to one of some nodes.
func goesTo(nodes ...string) outcome {
	return func(ctx context.Context, pod *corev1.Pod, _ int) {
		GinkgoHelper()
		Expect(expectBound(ctx, pod)).To(BeElementOf(nodes))
	}
}

// goesNowhere says that the pod fits on no node, and why: the counted reasons as kube-scheduler
// writes them.
func goesNowhere(reasons string) outcome {
	return func(ctx context.Context, pod *corev1.Pod, nodes int) {
		GinkgoHelper()
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix(fmt.Sprintf("0/%d nodes are available: %s. ", nodes, reasons)))
	}
}

// stage has the specs of an Ordered container share one scheduler, with profiles in YAML by name.
// Starting one for each would take most of their time. Each spec begins with a scheduler that knows
// of no node and of no pod.
func stage(profiles map[string]string) {
	BeforeAll(func(ctx context.Context) {
		DeferCleanup(func(ctx context.Context) {
			shared = false
			Expect(cluster.Clear(ctx)).To(Succeed())
		})
		shared = true
		startProfiles(ctx, profiles)
	})
	BeforeEach(func(ctx context.Context) { expectSeen(ctx, 0) })
}

// expectSeen waits until the scheduler knows of that many nodes, and of all pods that came or went
// until now: it lets a pod that fits nowhere ask. Pods come to the scheduler in the order in which
// they change, so those before it are known when it is; nodes come by another way.
func expectSeen(ctx context.Context, nodes int) {
	GinkgoHelper()
	want := fmt.Sprintf("0/%d nodes are available: ", nodes)
	if nodes == 0 {
		want = "no nodes available to schedule pods"
	}
	for probe := 0; ; probe++ {
		pod := createPod(ctx, "mine", fmt.Sprintf("probe-%d", probe), selecting("no-node", "has-this"))
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, Not(BeEmpty()))
		message := pod.Status.Conditions[0].Message
		Expect(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		if strings.HasPrefix(message, want) {
			return
		}
		Expect(probe).To(BeNumerically("<", 1000), "the scheduler says %q", message)
	}
}
