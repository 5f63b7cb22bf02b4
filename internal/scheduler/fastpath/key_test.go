// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// podWithEverything sets every field that a key depends on.
func podWithEverything() *corev1.Pod {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a", "tier": "b"}}
	term := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: selector}
	requirement := corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpIn,
		Values: []string{"ssd"}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p-1", UID: "1", Labels: map[string]string{"app": "a", "pod-template-hash": "x"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "u",
				Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"a": "1", "b": "2"},
			Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpEqual, Value: "v",
				Effect: corev1.TaintEffectNoSchedule}},
			Overhead:  quantities("cpu", "10m"),
			Resources: &corev1.ResourceRequirements{Requests: quantities("cpu", "1")},
			Affinity: &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
						{Weight: 1,
							Preference: corev1.NodeSelectorTerm{
								MatchExpressions: []corev1.NodeSelectorRequirement{requirement}}},
					}},
				PodAffinity: &corev1.PodAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}},
				PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}},
			},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: "zone", LabelSelector: selector}},
			Containers: []corev1.Container{
				{
					Name: "c", Image: "img:1",
					Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "100m", "memory", "1Gi")},
					Ports:     []corev1.ContainerPort{{HostPort: 80, Protocol: corev1.ProtocolTCP, HostIP: "10.0.0.1"}},
				},
				{Name: "d", Image: "img:2"},
			},
			InitContainers: []corev1.Container{
				{Name: "i", Image: "img:3", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
			Volumes: []corev1.Volume{
				{Name: "image",
					VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "img:4"}}},
				{Name: "kube-api-access-x",
					VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
			},
		},
	}
}

// mentionsOf returns what a pod's own terms mention.
func mentionsOf(t testing.TB, pod *corev1.Pod) *topology.Mentions {
	t.Helper()
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	m := topology.NewMentions(0)
	m.ReadTerms(info)
	return m
}

// withImages returns a snapshot of two nodes with large images. One node has a small one, too.
func withImages(t testing.TB, names ...string) *cache.Snapshot {
	t.Helper()
	c, snapshot := cache.New(), cache.NewSnapshot()
	for i := range 2 {
		node := realNode(i)
		for _, name := range names {
			node.Status.Images = append(node.Status.Images,
				corev1.ContainerImage{Names: []string{name}, SizeBytes: 500 << 20})
		}
		if i == 0 {
			node.Status.Images = append(node.Status.Images,
				corev1.ContainerImage{Names: []string{"small:1"}, SizeBytes: 1 << 20})
		}
		c.AddNode(logr.Discard(), node)
	}
	if err := c.UpdateSnapshot(logr.Discard(), snapshot); err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// keysOf returns the two parts of a pod's key, if nodes have some images. A profile that scores by
// images has weight 1.
func keysOf(t testing.TB, pod *corev1.Pod, weight int64, images ...string) (local, cross []byte) {
	t.Helper()
	var w keyWriter
	if !w.local(&Plan{rowPlan: rowPlan{imageWeight: weight}}, pod, withImages(t, images...)) {
		t.Fatal("no local key")
	}
	n := w.Len()
	if !w.cross(pod, mentionsOf(t, podWithEverything())) {
		t.Fatal("no cross key")
	}
	return w.Bytes()[:n:n], w.Bytes()[n:]
}

func TestKeysDifferWhereThePodsDo(t *testing.T) {
	const (
		neither = iota
		local
		cross
	)
	for _, test := range []struct {
		name   string
		in     int
		change func(*corev1.Pod)
	}{
		{"name and UID", neither, func(p *corev1.Pod) { p.Name, p.UID, p.GenerateName = "p-2", "2", "p-" }},
		{"the name of a volume", neither, func(p *corev1.Pod) { p.Spec.Volumes[1].Name = "kube-api-access-y" }},
		{"annotations", neither, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }},
		{"environment", neither,
			func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "POD", Value: "p-2"}} }},
		{"a container port", neither,
			func(p *corev1.Pod) { p.Spec.Containers[1].Ports = []corev1.ContainerPort{{ContainerPort: 8080}} }},
		{"limits", neither, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = quantities("cpu", "9") }},
		{"priority", neither, func(p *corev1.Pod) { p.Spec.Priority = ptr.To(int32(7)) }},
		{"node", local, func(p *corev1.Pod) { p.Spec.NodeName = "n" }},
		{"node selector", local, func(p *corev1.Pod) { p.Spec.NodeSelector["b"] = "3" }},
		{"no node selector", local, func(p *corev1.Pod) { p.Spec.NodeSelector = nil }},
		{"node affinity", local, func(p *corev1.Pod) {
			p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight = 2
		}},
		{"no node affinity", local, func(p *corev1.Pod) { p.Spec.Affinity.NodeAffinity = nil }},
		{"a toleration's key", local, func(p *corev1.Pod) { p.Spec.Tolerations[0].Key = "l" }},
		{"a toleration's operator", local,
			func(p *corev1.Pod) { p.Spec.Tolerations[0].Operator = corev1.TolerationOpExists }},
		{"a toleration's value", local, func(p *corev1.Pod) { p.Spec.Tolerations[0].Value = "w" }},
		{"a toleration's effect", local, func(p *corev1.Pod) { p.Spec.Tolerations[0].Effect = "" }},
		{"overhead", local, func(p *corev1.Pod) { p.Spec.Overhead = quantities("cpu", "11m") }},
		{"requests of the pod", local, func(p *corev1.Pod) { p.Spec.Resources.Requests = quantities("cpu", "2") }},
		{"requests", local, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = quantities("cpu", "101m", "memory", "1Gi")
		}},
		{"requests of nothing, which is not the same as none", local, func(p *corev1.Pod) {
			p.Spec.Containers[1].Resources.Requests = quantities("cpu", "0")
		}},
		{"the order of containers", local, func(p *corev1.Pod) { slices.Reverse(p.Spec.Containers) }},
		{"a container that does nothing", local, func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{})
		}},
		{"a container that is an init container", local, func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, p.Spec.Containers[1])
			p.Spec.Containers = p.Spec.Containers[:1]
		}},
		{"image", local, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "img:9" }},
		{"image of a volume", local, func(p *corev1.Pod) { p.Spec.Volumes[0].Image.Reference = "img:9" }},
		{"host port", local, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].HostPort = 81 }},
		{"host port's protocol", local,
			func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP }},
		{"host port's address", local, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].HostIP = "" }},
		{"sidecar", local, func(p *corev1.Pod) { p.Spec.InitContainers[0].RestartPolicy = nil }},
		{"namespace", cross, func(p *corev1.Pod) { p.Namespace = "other" }},
		{"a label", cross, func(p *corev1.Pod) { p.Labels["app"] = "b" }},
		{"a label less", cross, func(p *corev1.Pod) { delete(p.Labels, "app") }},
		{"an additional label, which a selector mentions", cross, func(p *corev1.Pod) { p.Labels["tier"] = "" }},
		{"an additional label, which no selector mentions", neither, func(p *corev1.Pod) { p.Labels["more"] = "" }},
		{"a label that no selector mentions", neither, func(p *corev1.Pod) { p.Labels["pod-template-hash"] = "y" }},
		{"spread constraint", cross, func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].MaxSkew = 2 }},
		{"spread constraint's matchLabelKeys", cross, func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints[0].MatchLabelKeys = []string{"app"}
		}},
		{"no spread constraint", cross, func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = nil }},
		{"pod affinity", cross, func(p *corev1.Pod) {
			p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = "rack"
		}},
		{"affinity that is anti-affinity", cross, func(p *corev1.Pod) { p.Spec.Affinity.PodAffinity = nil }},
		{"anti-affinity that is affinity", cross, func(p *corev1.Pod) { p.Spec.Affinity.PodAntiAffinity = nil }},
		{"a selector of all instead of none", cross, func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints[0].LabelSelector = &metav1.LabelSelector{}
		}},
		{"controller", cross, func(p *corev1.Pod) { p.OwnerReferences[0].Name = "s" }},
		{"a controller of another kind that selects pods", cross,
			func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "StatefulSet" }},
		{"a controller of a kind without default constraints", cross,
			func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }},
		{"no controller", cross, func(p *corev1.Pod) { p.OwnerReferences = nil }},
	} {
		pod, other := podWithEverything(), podWithEverything()
		test.change(other)
		pulled := []string{"img:1", "img:2", "img:3", "img:4"}
		local1, cross1 := keysOf(t, pod, 1, pulled...)
		local2, cross2 := keysOf(t, other, 1, pulled...)
		if same := bytes.Equal(local1, local2); same == (test.in == local) {
			t.Errorf("%s: the same local key: %t", test.name, same)
		}
		if same := bytes.Equal(cross1, cross2); same == (test.in == cross) {
			t.Errorf("%s: the same cross key: %t", test.name, same)
		}
	}
}

// TestImagesThatMakeNoDifferenceAreNotInTheKey has pods that differ in their images alone.
func TestImagesThatMakeNoDifferenceAreNotInTheKey(t *testing.T) {
	pod := func(images ...string) *corev1.Pod {
		p := &corev1.Pod{}
		for _, image := range images {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: image})
		}
		return p
	}
	for _, test := range []struct {
		name   string
		pulled []string
		weight int64
		a, b   *corev1.Pod
		same   bool
	}{
		{"no node has them", []string{"c:1"}, 1, pod("a:1"), pod("b:1"), true},
		{"no node has one of them", []string{"a:1"}, 1, pod("a:1"), pod("b:1"), false},
		{"nodes have both", []string{"a:1", "b:1"}, 1, pod("a:1"), pod("b:1"), false},
		{"nodes have both, and the profile does not score by images", []string{"a:1", "b:1"}, 0, pod("a:1"),
			pod("b:1"), true},
		{"too small for a score", nil, 1, pod("small:1"), pod("b:1"), true},
		{"too small for a score, beside a large one", []string{"a:1"}, 1, pod("a:1", "small:1"), pod("a:1", "b:1"),
			false},
		{"no node has those beside", []string{"a:1"}, 1, pod("a:1", "b:1"), pod("a:1", "c:1"), true},
		{"one more beside", []string{"a:1"}, 1, pod("a:1", "b:1"), pod("a:1", "b:1", "b:1"), false},
		{"twice the same", []string{"a:1"}, 1, pod("a:1", "a:1"), pod("a:1", "b:1"), false},
		{"without a tag, as nodes report it", []string{"a:latest"}, 1, pod("a"), pod("a:latest"), true},
	} {
		// Requests, which differ with the number of containers, come before the images.
		imagesOf := func(pod *corev1.Pod) string {
			var w keyWriter
			if !w.local(&Plan{rowPlan: rowPlan{imageWeight: test.weight}}, pod, withImages(t, test.pulled...)) {
				t.Fatal("no local key")
			}
			return string(w.imagesPart())
		}
		if same := imagesOf(test.a) == imagesOf(test.b); same != test.same {
			t.Errorf("%s: the same key: %t", test.name, same)
		}
	}
}

func TestKeysDoNotDependOnTheOrderOfMaps(t *testing.T) {
	local, cross := keysOf(t, podWithEverything(), 1, "img:1", "img:3")
	for range 50 {
		again, crossAgain := keysOf(t, podWithEverything(), 1, "img:1", "img:3")
		if !bytes.Equal(local, again) || !bytes.Equal(cross, crossAgain) {
			t.Fatal("two keys of one pod")
		}
	}
}

func TestPodsThatNeedPlugins(t *testing.T) {
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: source}) }
	}
	for name, change := range map[string]func(*corev1.Pod){
		"a claim of a volume": volume(
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}),
		"a claim to be made": volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}),
		"a disk": volume(
			corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}),
		"a volume of some new kind": volume(corev1.VolumeSource{}),
		"a claim of devices":        func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{}} },
	} {
		pod := podWithEverything()
		local, cross := keysOf(t, pod, 1, "img:1")
		if podfields.HasClaims(pod) || podfields.ReportsResources(pod) {
			t.Fatal("the pod is not ordinary to begin with")
		}
		if change(pod); !podfields.HasClaims(pod) {
			t.Errorf("a pod with %s has no claims", name)
		}
		if localAfter, crossAfter := keysOf(t, pod, 1, "img:1"); !bytes.Equal(local, localAfter) ||
			!bytes.Equal(cross, crossAfter) {
			t.Errorf("a pod with %s is of a class of its own", name)
		}
	}
}

func TestPodsWithReportedResources(t *testing.T) {
	for name, change := range map[string]func(*corev1.PodStatus){
		"of containers":      func(s *corev1.PodStatus) { s.ContainerStatuses = []corev1.ContainerStatus{{}} },
		"of init containers": func(s *corev1.PodStatus) { s.InitContainerStatuses = []corev1.ContainerStatus{{}} },
		"of the pod":         func(s *corev1.PodStatus) { s.Resources = &corev1.ResourceRequirements{} },
	} {
		pod := podWithEverything()
		if change(&pod.Status); !podfields.ReportsResources(pod) {
			t.Errorf("resources %s are not seen", name)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	simple := podWithEverything()
	simple.Spec.Affinity, simple.Spec.TopologySpreadConstraints, simple.Spec.InitContainers = nil, nil, nil
	simple.Spec.Overhead, simple.Spec.Resources = nil, nil
	mentions := mentionsOf(b, podWithEverything())
	plan, snapshot := &Plan{rowPlan: rowPlan{imageWeight: 1}}, withImages(b, "img:1", "img:2")
	for name, pod := range map[string]*corev1.Pod{"simple": simple, "everything": podWithEverything()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var w keyWriter
			for b.Loop() {
				if !w.write(plan, pod, mentions, snapshot) {
					b.Fatal("no key")
				}
			}
		})
	}
}
