// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

var quiet = klog.Logger{}

// newPod returns a pod of 100m and 64Mi, named like its UID, changed by edits.
func newPod(uid, nodeName string, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := objects.Stored("ns", uid, onNode(nodeName))
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: requests("100m", "64Mi")}}
	return objects.Edited(pod, edits...)
}

func requests(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}
}

func onNode(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }

func labelled(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": value} }
}

func requesting(cpu string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources = requests(cpu, "64Mi") }
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

func running(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = append(p.Status.Conditions,
		corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
}

// reported adds the status that the kubelet reports once it has started the containers: their
// resources are the requested ones.
func reported(p *corev1.Pod) {
	running(p)
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "c", Resources: p.Spec.Containers[0].Resources.DeepCopy(),
		AllocatedResources: p.Spec.Containers[0].Resources.Requests.DeepCopy(),
	}}
}

func listening(port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{
			{HostPort: port, ContainerPort: port, Protocol: corev1.ProtocolTCP}}
	}
}

func claiming(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range names {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
	}
}

func prioritized(priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &priority }
}

func affinityTerm() corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}}
}

func withAffinity(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 1, PodAffinityTerm: affinityTerm()}},
	}}
}

func withRequiredAntiAffinity(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{affinityTerm()},
	}}
}

// newNode returns a node of 8 CPUs in a zone, changed by edits.
func newNode(name, zone string, edits ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name),
			Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
	if zone != "" {
		node.Labels[corev1.LabelTopologyZone] = zone
	}
	for _, edit := range edits {
		edit(node)
	}
	return node
}

func editedNode(node *corev1.Node, edits ...func(*corev1.Node)) *corev1.Node {
	node = node.DeepCopy()
	for _, edit := range edits {
		edit(node)
	}
	return node
}

func zoned(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }
}

func withImages(names ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Images = nil
		for _, name := range names {
			n.Status.Images = append(n.Status.Images,
				corev1.ContainerImage{Names: []string{name, name + "@sha256"}, SizeBytes: int64(len(name)) << 20})
		}
	}
}

// fixture is a cache with the snapshot that it feeds.
type fixture struct {
	*testing.T
	*Cache
	snapshot *Snapshot
	read     uint64
}

func newFixture(t *testing.T, nodes ...*corev1.Node) *fixture {
	f := &fixture{T: t, Cache: New(), snapshot: NewSnapshot()}
	for _, node := range nodes {
		f.AddNode(quiet, node)
	}
	f.refresh()
	return f
}

// refresh updates the snapshot and returns the new log entries, by node names.
func (f *fixture) refresh() []string {
	f.Helper()
	f.must(f.UpdateSnapshot(quiet, f.snapshot))
	changes, ok := f.snapshot.Log().Since(f.read)
	f.read = f.snapshot.Log().End()
	if !ok {
		return []string{"gap"}
	}
	var logged []string
	for _, change := range changes {
		name := fmt.Sprintf("slot%d", change.Slot)
		if f.snapshot.Alive(change.Slot) {
			name = f.snapshot.Info(change.Slot).Node().Name
		}
		entry := change.Kind.String() + " " + name
		if change.Pod != 0 {
			entry += fmt.Sprintf(" class%d", change.Pod)
		}
		logged = append(logged, entry)
	}
	return logged
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) assume(pod *corev1.Pod) {
	f.Helper()
	f.must(f.AssumePod(quiet, infoOf(pod)))
}

// expectLog refreshes and compares the log entries.
func (f *fixture) expectLog(want ...string) {
	f.Helper()
	if diff := cmp.Diff(want, f.refresh()); diff != "" {
		f.Errorf("change log (-want +got):\n%s", diff)
	}
}

// expectPods compares, by identity, the pods of a node in the snapshot; the node's sums must be
// the sums of these pods.
func (f *fixture) expectPods(nodeName string, want ...*corev1.Pod) {
	f.Helper()
	got, err := f.snapshot.NodeInfos().Get(nodeName)
	f.must(err)
	f.expectSame(nodeName, scratch(got.Node(), want), got)
}

func (f *fixture) expectSame(nodeName string, want, got fwk.NodeInfo) {
	f.Helper()
	if diff := diffNodeInfos(want, got); diff != "" {
		f.Errorf("node %s in the snapshot (-want +got):\n%s", nodeName, diff)
	}
}

func (f *fixture) expectCounts(nodes, pods, assumed int) {
	f.Helper()
	got := [3]int{f.Size().Nodes, f.Size().Pods, len(f.Dump().AssumedPods)}
	if want := [3]int{nodes, pods, assumed}; got != want {
		f.Errorf("nodes, pods and assumed pods in the cache: got %v, want %v", got, want)
	}
}

func infoOf(pod *corev1.Pod) *schedframework.PodInfo {
	info, err := schedframework.NewPodInfo(pod)
	if err != nil {
		panic(err)
	}
	return info
}

// scratch makes a NodeInfo from objects, as upstream does.
func scratch(node *corev1.Node, pods []*corev1.Pod) *schedframework.NodeInfo {
	info := schedframework.NewNodeInfo(pods...)
	if node != nil {
		info.SetNode(node)
	}
	return info
}

// nodeView is a comparable form of a NodeInfo: objects by identity, pods as sets. Images and the
// NodeInfo's generation are compared separately.
type nodeView struct {
	Node                                         string
	Pods, WithAffinity, WithRequiredAntiAffinity []string
	Ports                                        fwk.HostPortInfo
	Requested, NonZero, Allocatable              schedframework.Resource
	PVCs                                         map[string]int
	Features                                     string
}

func viewOf(info fwk.NodeInfo) nodeView {
	resources := func(r fwk.Resource) schedframework.Resource {
		resource := *r.(*schedframework.Resource)
		scalars := map[corev1.ResourceName]int64{}
		for name, value := range resource.ScalarResources {
			if value != 0 {
				scalars[name] = value
			}
		}
		resource.ScalarResources = scalars
		return resource
	}
	return nodeView{
		Node:                     fmt.Sprintf("%p", info.Node()),
		Pods:                     podSet(info.GetPods()),
		WithAffinity:             podSet(info.GetPodsWithAffinity()),
		WithRequiredAntiAffinity: podSet(info.GetPodsWithRequiredAntiAffinity()),
		Ports:                    info.GetUsedPorts(),
		Requested:                resources(info.GetRequested()),
		NonZero:                  resources(info.GetNonZeroRequested()),
		Allocatable:              resources(info.GetAllocatable()),
		PVCs:                     info.GetPVCRefCounts(),
		Features:                 fmt.Sprint(info.GetNodeDeclaredFeatures()),
	}
}

func podSet(pods []fwk.PodInfo) []string {
	set := []string{}
	for _, pod := range pods {
		set = append(set, fmt.Sprintf("%s %p", pod.GetPod().UID, pod.GetPod()))
	}
	slices.Sort(set)
	return set
}

func diffNodeInfos(want, got fwk.NodeInfo) string {
	w, g := viewOf(want), viewOf(got)
	if reflect.DeepEqual(w, g) {
		return "" // the usual case, a hundred times faster
	}
	return cmp.Diff(w, g)
}

// String returns the name of the kind, for differences between logs.
func (k ChangeKind) String() string {
	return [...]string{PodAdded: "PodAdded", PodRemoved: "PodRemoved", NodeObject: "NodeObject", NodeAdded: "NodeAdded",
		NodeRemoved: "NodeRemoved"}[k]
}
