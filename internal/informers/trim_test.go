// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"sigs.k8s.io/randfill"
)

// fillerOf fills objects at random, with what the API server would let through where it matters to
// a scheduler.
func fillerOf(random *rand.Rand, nilChance float64, minElements, maxElements int) *randfill.Filler {
	operators := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn}
	return randfill.NewWithSeed(int64(random.Uint64()>>1)).NilChance(nilChance).NumElements(minElements, maxElements).Funcs(
		func(q *resource.Quantity, _ randfill.Continue) {
			*q = *resource.NewMilliQuantity(1+random.Int64N(8), resource.DecimalSI)
		},
		func(t *metav1.Time, _ randfill.Continue) { *t = metav1.Unix(random.Int64N(1<<32), 0) },
		func(o *metav1.LabelSelectorOperator, _ randfill.Continue) {
			*o = operators[random.IntN(len(operators))]
		},
		func(l *corev1.ResourceList, _ randfill.Continue) {
			*l = corev1.ResourceList{}
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, "example.com/gpu"} {
				if random.IntN(3) > 0 {
					(*l)[name] = *resource.NewQuantity(1+random.Int64N(8), resource.DecimalSI)
				}
			}
		},
	)
}

// randomPod is a pod on a node, of which the statuses belong to the containers.
func randomPod(random *rand.Rand) *corev1.Pod {
	pod := &corev1.Pod{}
	fillerOf(random, 0.4, 1, 3).Fill(pod)
	pod.Spec.NodeName = "node"
	statusesOf := func(containers []corev1.Container, statuses []corev1.ContainerStatus) {
		for i := range statuses {
			if len(containers) > 0 {
				statuses[i].Name = containers[i%len(containers)].Name
			}
		}
	}
	statusesOf(pod.Spec.Containers, pod.Status.ContainerStatuses)
	statusesOf(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	for i := range pod.Spec.Volumes {
		pod.Spec.Volumes[i].VolumeSource = randomVolume(random)
	}
	if conditions := pod.Status.Conditions; len(conditions) > 0 {
		conditions[0].Type = []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.PodResizePending}[random.IntN(3)]
	}
	return pod
}

// randomVolume is a volume of one source, as all are.
func randomVolume(random *rand.Rand) corev1.VolumeSource {
	var source corev1.VolumeSource
	field := reflect.ValueOf(&source).Elem().Field(random.IntN(reflect.TypeFor[corev1.VolumeSource]().NumField()))
	fillerOf(random, 0, 1, 2).Fill(field.Addr().Interface())
	return source
}

// TestWhatABoundPodLoses fills every field there is, so that one which a later version of the API
// brings is seen here.
func TestWhatABoundPodLoses(t *testing.T) {
	pod := &corev1.Pod{}
	fillerOf(rand.New(rand.NewPCG(1, 0)), 0, 1, 1).Fill(pod)
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	pod.Spec.NodeName = ""
	transform := NewTransform(true)
	whole := pod.DeepCopy()
	whole.ManagedFields = nil
	if _, err := transform(pod); err != nil || !apiequality.Semantic.DeepEqual(pod, whole) {
		t.Errorf("%v; a pod that waits has changed:\n%s", err, cmp.Diff(whole, pod))
	}

	pod.Spec.NodeName, whole.Spec.NodeName = "node", "node"
	untrimmed := pod.DeepCopy()
	if _, err := NewTransform(false)(untrimmed); err != nil || !apiequality.Semantic.DeepEqual(untrimmed, whole) {
		t.Errorf("%v; a pod that is not to be trimmed has changed:\n%s", err, cmp.Diff(whole, untrimmed))
	}
	if _, err := transform(pod); err != nil {
		t.Fatal(err)
	}
	got := lost("", reflect.ValueOf(*whole), reflect.ValueOf(*pod))
	container := []string{
		"Command", "Args", "WorkingDir", "EnvFrom", "Env", "VolumeMounts", "VolumeDevices", "LivenessProbe", "ReadinessProbe", "StartupProbe",
		"Lifecycle", "TerminationMessagePath", "TerminationMessagePolicy",
	}
	status := []string{"State", "LastTerminationState", "ContainerID", "VolumeMounts", "User"}
	want := slices.Concat(under(".Spec.InitContainers[0].", container), under(".Spec.Containers[0].", container), []string{".Spec.EphemeralContainers"},
		[]string{".Status.HostIPs", ".Status.PodIPs"}, under(".Status.InitContainerStatuses[0].", status), under(".Status.ContainerStatuses[0].", status),
		[]string{".Status.EphemeralContainerStatuses"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
}

func under(prefix string, fields []string) []string {
	var paths []string
	for _, field := range fields {
		paths = append(paths, prefix+field)
	}
	return paths
}

// lost returns the paths of what is in before, and in after is not or is something else.
func lost(path string, before, after reflect.Value) []string {
	if apiequality.Semantic.DeepEqual(before.Interface(), after.Interface()) {
		return nil
	}
	var paths []string
	switch before.Kind() {
	case reflect.Struct:
		if after.IsZero() {
			return []string{path}
		}
		for i := range before.NumField() {
			name := before.Type().Field(i).Name
			if before.Type().Field(i).Anonymous {
				name = ""
			} else {
				name = "." + name
			}
			paths = append(paths, lost(path+name, before.Field(i), after.Field(i))...)
		}
	case reflect.Slice:
		if before.Len() == 1 && after.Len() == 1 {
			return lost(path+"[0]", before.Index(0), after.Index(0))
		}
		paths = []string{path}
	default:
		paths = []string{path}
	}
	return paths
}

func TestVolumesOfFilesAreDropped(t *testing.T) {
	sources := reflect.TypeFor[corev1.VolumeSource]()
	random := rand.New(rand.NewPCG(2, 0))
	dropped := []string{}
	for i := range sources.NumField() {
		var source corev1.VolumeSource
		fillerOf(random, 0, 1, 1).Fill(reflect.ValueOf(&source).Elem().Field(i).Addr().Interface())
		other := corev1.Volume{Name: "other", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node", Volumes: []corev1.Volume{{Name: "this", VolumeSource: source}, other}}}
		trimPod(pod)
		switch volumes := pod.Spec.Volumes; {
		case len(volumes) == 1 && volumes[0].Name == "other":
			dropped = append(dropped, sources.Field(i).Name)
		case len(volumes) != 2:
			t.Errorf("%s: %d volumes are left", sources.Field(i).Name, len(volumes))
		}
	}
	if diff := cmp.Diff([]string{"Secret", "DownwardAPI", "ConfigMap", "Projected"}, dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
}

func TestConditionsOfStartingAreDropped(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node"}}
	all := []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
		corev1.DisruptionTarget, corev1.PodResizePending, corev1.PodResizeInProgress, "example.com/gate",
	}
	for _, condition := range all {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, LastTransitionTime: metav1.Unix(1, 0)})
	}
	trimPod(pod)
	var kept []corev1.PodConditionType
	for _, condition := range pod.Status.Conditions {
		kept = append(kept, condition.Type)
		if condition.LastTransitionTime.IsZero() {
			t.Errorf("%s has lost its time", condition.Type)
		}
	}
	want := []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget, corev1.PodResizePending, corev1.PodResizeInProgress, "example.com/gate"}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// seenByAScheduler is what kube-scheduler works out about a pod on a node, and what an update of it
// means.
func seenByAScheduler(pod, before *corev1.Pod) map[string]any {
	node := schedframework.NewNodeInfo(pod)
	info, err := schedframework.NewPodInfo(pod)
	var volumes [][]byte // those that may be mounted once, or count towards a limit
	for _, v := range pod.Spec.Volumes {
		if v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil || v.CSI != nil || v.Ephemeral != nil ||
			v.AzureDisk != nil || v.Cinder != nil || v.VsphereVolume != nil || v.PersistentVolumeClaim != nil {
			encoded, _ := v.Marshal()
			volumes = append(volumes, encoded)
		}
	}
	var scheduled []metav1.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			scheduled = append(scheduled, c.LastTransitionTime)
		}
	}
	return map[string]any{
		"requested": node.Requested, "non-zero requested": node.NonZeroRequested, "ports": node.UsedPorts, "claims": node.PVCRefCounts,
		"terms":     []any{info.RequiredAffinityTerms, info.RequiredAntiAffinityTerms, info.PreferredAffinityTerms, info.PreferredAntiAffinityTerms},
		"unparsed":  err != nil,
		"QoS class": qos.ComputePodQOS(pod), "priority": corev1helpers.PodPriority(pod), "start": schedutil.GetPodStartTime(pod).UnixNano(),
		"labels": pod.Labels, "annotations": pod.Annotations, "tolerations": pod.Spec.Tolerations, "volumes": volumes,
		"resource claims": []any{pod.Spec.ResourceClaims, pod.Status.ResourceClaimStatuses, pod.Status.ExtendedResourceClaimStatus},
		"scheduled since": scheduled,
		"events":          schedframework.PodSchedulingPropertiesChange(pod, before),
	}
}

// TestASchedulerSeesTheSameOfATrimmedPod holds what upstream works out about whole pods against
// what it works out about what informers keep of them.
func TestASchedulerSeesTheSameOfATrimmedPod(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	transform := NewTransform(true)
	trimmed := 0
	for range 200 {
		before, pod := randomPod(random), randomPod(random)
		pod.UID, before.UID = types.UID("u"), types.UID("u")
		want := seenByAScheduler(pod, before)
		keptBefore, kept := before.DeepCopy(), pod.DeepCopy()
		for _, p := range []*corev1.Pod{keptBefore, kept} {
			if _, err := transform(p); err != nil {
				t.Fatal(err)
			}
		}
		for what, got := range seenByAScheduler(kept, keptBefore) {
			if !reflect.DeepEqual(want[what], got) {
				t.Fatalf("%s of the whole pod: %+v\nof what is kept: %+v", what, want[what], got)
			}
		}
		if kept.Size() < pod.Size()*2/3 {
			trimmed++
		}
	}
	if trimmed < 50 {
		t.Errorf("only %d of 200 pods have become a third smaller", trimmed)
	}
}
