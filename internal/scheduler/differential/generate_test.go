// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const (
	schedulerName = "differential"

	hostname = corev1.LabelHostname
	zone     = corev1.LabelTopologyZone
	region   = corev1.LabelTopologyRegion
	gpu      = "example.com/gpu"
)

var (
	namespaces = []string{"red", "green", "blue"}
	apps       = []string{"web", "db", "cache", "batch"}
	versions   = []string{"1", "2"}
	disks      = []string{"ssd", "hdd"}
	images     = []string{"registry.example.com/a:1", "registry.example.com/b:1", "registry.example.com/c:1",
		"registry.example.com/d"}
	features = []string{"UserNamespacesHostNetworkSupport", "RestartAllContainersOnContainerExits",
		"VolumeBindMountOptions"}

	// start is the earliest start time of the cluster's pods.
	start = time.Date(2026, 1, 17, 0, 0, 0, 0, time.UTC)
)

// generator makes the objects of one case. The seed determines all of them.
type generator struct {
	*rand.Rand
	nodesMade, podsMade, objectsMade int
	zones                            int
	// rarity divides the chances of properties that keep pods off nodes: with 1, pods often fit
	// nowhere.
	rarity int
	// nodeNames lets pods select nodes by name.
	nodeNames bool
	volumes   bool
	// crowded means that nodes are full, and new pods have a higher priority than those on them.
	crowded bool
	// sampled means that not all feasible nodes are scored.
	sampled bool
}

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	g.rarity = pick(g, []int{1, 2, 4, 12})
	g.zones = 2 + g.IntN(4)
	g.volumes, g.crowded = g.chance(40), g.chance(40)
	return g
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// rarely is chance for properties that keep pods off nodes.
func (g *generator) rarely(percent int) bool { return g.IntN(100*g.rarity) < percent }

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// oneOf is pick with the elements as arguments.
func oneOf[T any](g *generator, from ...T) T { return pick(g, from) }

func (g *generator) name(kind string) string {
	g.objectsMade++
	return fmt.Sprintf("%s-%d", kind, g.objectsMade)
}

// surroundings are the objects that plugins read, apart from nodes, pods and volumes.
func (g *generator) surroundings() []runtime.Object {
	var out []runtime.Object
	for i, name := range namespaces {
		out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"tier": []string{"front", "back"}[i%2],
				corev1.LabelMetadataName: name},
		}})
	}
	for _, namespace := range namespaces {
		for _, app := range apps {
			meta := metav1.ObjectMeta{Namespace: namespace, Name: app}
			match := map[string]string{"app": app}
			if g.chance(40) {
				out = append(out, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: match}})
			}
			if g.chance(40) {
				out = append(out, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: match},
				}})
			}
			if g.chance(20) {
				out = append(out, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app, "version": "1"}},
				}})
			}
			if g.chance(15) {
				out = append(out,
					&corev1.ReplicationController{ObjectMeta: meta,
						Spec: corev1.ReplicationControllerSpec{Selector: match}})
			}
			if g.chance(35) {
				out = append(out, g.budget(namespace, app))
			}
		}
	}
	return out
}

func (g *generator) budget(namespace, app string) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: g.name(app)},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(g.IntN(3))},
	}
	switch g.IntN(12) {
	case 0:
		budget.Spec.Selector = nil
	case 1:
		// An empty selector would differ: livesched takes it as policy/v1 describes it.
		budget.Spec.Selector = &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}
	case 2:
		budget.Spec.Selector = &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Nonsense"}}}
	case 3:
		budget.Status.DisruptedPods = map[string]metav1.Time{}
		for range 5 {
			budget.Status.DisruptedPods[podName(1+g.IntN(80))] = metav1.NewTime(start)
		}
	}
	return budget
}

func (g *generator) node() *corev1.Node {
	g.nodesMade++
	name := fmt.Sprintf("node-%03d", g.nodesMade)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{hostname: name},
	}}
	g.label(node)
	g.taint(node)
	g.allocate(node)
	g.pull(node)
	for _, feature := range features {
		if g.chance(60) {
			node.Status.DeclaredFeatures = append(node.Status.DeclaredFeatures, feature)
		}
	}
	return node
}

func (g *generator) label(node *corev1.Node) {
	if g.chance(92) {
		node.Labels[zone] = fmt.Sprintf("zone-%d", g.IntN(g.zones))
	}
	if g.chance(30) {
		node.Labels[region] = fmt.Sprintf("region-%d", g.IntN(2))
	}
	if g.chance(70) {
		node.Labels["disk"] = pick(g, disks)
	}
	if g.chance(40) {
		node.Labels["cores"] = fmt.Sprint(g.IntN(64))
	}
	if g.chance(5) {
		delete(node.Labels, hostname)
	}
}

func (g *generator) taint(node *corev1.Node) {
	node.Spec.Taints, node.Spec.Unschedulable = nil, g.rarely(6)
	if node.Spec.Unschedulable && g.chance(70) {
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		if g.rarely(9) {
			node.Spec.Taints = append(node.Spec.Taints,
				corev1.Taint{Key: oneOf(g, "gpu", "team"), Value: pick(g, apps), Effect: effect})
		}
	}
	if g.chance(12) {
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: oneOf(g, "gpu", "team"), Value: pick(g, apps),
				Effect: corev1.TaintEffectPreferNoSchedule})
	}
}

func (g *generator) allocate(node *corev1.Node) {
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(int64(1000+500*g.IntN(12)), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(int64(1+g.IntN(16))<<30, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(10+g.IntN(50))<<30, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(int64(4+g.IntN(14)), resource.DecimalSI),
	}
	if g.chance(25) {
		node.Status.Allocatable[gpu] = *resource.NewQuantity(int64(1+g.IntN(4)), resource.DecimalSI)
	}
	if g.chance(15) {
		node.Status.Allocatable[corev1.ResourceHugePagesPrefix+"2Mi"] = *resource.NewQuantity(int64(1+g.IntN(8))<<21,
			resource.BinarySI)
	}
	node.Status.Capacity = node.Status.Allocatable.DeepCopy()
}

func (g *generator) pull(node *corev1.Node) {
	node.Status.Images = nil
	for i, image := range images {
		if g.chance(35) {
			names := []string{image, fmt.Sprintf("%s@sha256:%064d", image, i)}
			if i == 3 {
				names = []string{image + ":latest"} // what a tagless image is normalised to
			}
			node.Status.Images = append(node.Status.Images,
				corev1.ContainerImage{Names: names, SizeBytes: int64(i+1) * 300 << 20})
		}
	}
}

func podName(n int) string { return fmt.Sprintf("pod-%05d", n) }

// pod makes a pod. Each feature has its own chance, so that most pods have few features and some
// have many.
func (g *generator) pod(nodes []*corev1.Node) *corev1.Pod {
	g.podsMade++
	name := podName(g.podsMade)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pick(g, namespaces), Name: name, UID: types.UID(name), ResourceVersion: "1",
			Labels: map[string]string{"app": pick(g, apps), "version": pick(g, versions)},
		},
		Spec: corev1.PodSpec{SchedulerName: schedulerName, Affinity: &corev1.Affinity{}},
	}
	// No two pods started at the same time, so that preemption can order them.
	pod.Status.StartTime = ptr.To(
		metav1.NewTime(start.Add(time.Duration(g.IntN(100000))*time.Second +
			time.Duration(g.podsMade)*time.Millisecond)))
	if g.chance(4) {
		pod.Labels = nil
	}
	if g.chance(92) {
		pod.Spec.Priority = ptr.To(oneOf[int32](g, -10, 0, 0, 10, 10, 20, 30))
	}
	if g.chance(8) {
		pod.Spec.PreemptionPolicy = ptr.To(oneOf(g, corev1.PreemptNever, corev1.PreemptLowerPriority))
	}
	if g.chance(40) && pod.Labels != nil {
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: oneOf(g, "ReplicaSet", "StatefulSet"), Name: pod.Labels["app"],
			Controller: ptr.To(true),
		}}
	}
	g.containers(pod)
	g.placement(pod, nodes)
	g.podAffinity(pod)
	g.spread(pod)
	return pod
}

func (g *generator) containers(pod *corev1.Pod) {
	spec := &pod.Spec
	for i := range 1 + g.IntN(3) {
		spec.Containers = append(spec.Containers, g.container(i))
	}
	for i := range g.IntN(8) / 5 {
		spec.InitContainers = append(spec.InitContainers, g.container(10+i))
		if g.chance(40) {
			spec.InitContainers[i].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
	}
	if g.chance(8) {
		spec.Overhead = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("150m"), corev1.ResourceMemory: resource.MustParse("100Mi"),
		}
	}
	if g.chance(8) {
		spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(1000+100*g.IntN(25)), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(256*(4+g.IntN(8)))<<20, resource.BinarySI),
		}}
	}
	if g.rarely(6) {
		spec.HostNetwork, spec.HostUsers = true, ptr.To(g.chance(50))
	}
	if g.rarely(4) {
		spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{
			{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
	}
	if g.rarely(4) {
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "files", BindMountOptions: []string{"noexec"}}}
	}
	if g.chance(5) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "image", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: pick(g, images)},
		}})
	}
}

func (g *generator) container(i int) corev1.Container {
	c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: pick(g, images)}
	c.Resources.Requests = corev1.ResourceList{}
	if g.chance(75) {
		c.Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(50*(1+g.IntN(24))),
			resource.DecimalSI)
	}
	if g.chance(65) {
		c.Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(int64(64*(1+g.IntN(20)))<<20,
			resource.BinarySI)
	}
	if g.chance(10) {
		c.Resources.Requests[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(1+g.IntN(9))<<30,
			resource.BinarySI)
	}
	if g.rarely(8) {
		c.Resources.Requests[gpu] = *resource.NewQuantity(int64(1+g.IntN(2)), resource.DecimalSI)
	}
	if g.rarely(4) {
		c.Resources.Requests[corev1.ResourceHugePagesPrefix+"2Mi"] = *resource.NewQuantity(1<<21, resource.BinarySI)
	}
	if g.chance(10) {
		c.Ports = []corev1.ContainerPort{{
			HostPort: int32(8000 + g.IntN(3)), ContainerPort: 80,
			Protocol: oneOf(g, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP),
			HostIP:   oneOf(g, "", "", "10.0.0.1", "0.0.0.0"),
		}}
	}
	return c
}
