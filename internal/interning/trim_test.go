// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

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

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// newFiller returns a filler of objects with random values. Fields that matter to a scheduler get
// values that the API server would accept.
func newFiller(random *rand.Rand, nilChance float64, minElements, maxElements int) *randfill.Filler {
	operators := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn}
	return randfill.NewWithSeed(int64(random.Uint64()>>1)).NilChance(nilChance).NumElements(minElements, maxElements).
		Funcs(
			func(q *resource.Quantity, _ randfill.Continue) {
				*q = *resource.NewMilliQuantity(1+random.Int64N(8), resource.DecimalSI)
			},
			func(t *metav1.Time, _ randfill.Continue) { *t = metav1.Unix(random.Int64N(1<<32), 0) },
			func(o *metav1.LabelSelectorOperator, _ randfill.Continue) {
				*o = operators[random.IntN(len(operators))]
			},
			func(l *corev1.ResourceList, _ randfill.Continue) {
				*l = corev1.ResourceList{}
				for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory,
					"example.com/gpu"} {
					if random.IntN(3) > 0 {
						(*l)[name] = *resource.NewQuantity(1+random.Int64N(8), resource.DecimalSI)
					}
				}
			},
		)
}

// randomPod returns a pod on a node. Its container statuses belong to its containers.
func randomPod(random *rand.Rand) *corev1.Pod {
	pod := &corev1.Pod{}
	newFiller(random, 0.4, 1, 3).Fill(pod)
	pod.Spec.NodeName = "node"
	matchNames := func(containers []corev1.Container, statuses []corev1.ContainerStatus) {
		for i := range statuses {
			if len(containers) > 0 {
				statuses[i].Name = containers[i%len(containers)].Name
			}
		}
	}
	matchNames(pod.Spec.Containers, pod.Status.ContainerStatuses)
	matchNames(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	for i := range pod.Spec.Volumes {
		pod.Spec.Volumes[i].VolumeSource = randomVolume(random)
	}
	if conditions := pod.Status.Conditions; len(conditions) > 0 {
		conditions[0].Type = []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized,
			corev1.PodResizePending}[random.IntN(3)]
	}
	return pod
}

// randomVolume returns a volume source of a random type. Only one type is set, as in every volume.
func randomVolume(random *rand.Rand) corev1.VolumeSource {
	var source corev1.VolumeSource
	field := reflect.ValueOf(&source).Elem().Field(random.IntN(reflect.TypeFor[corev1.VolumeSource]().NumField()))
	newFiller(random, 0, 1, 2).Fill(field.Addr().Interface())
	return source
}

// TestProfilesAndPoliciesKeepTheirManagedFields: their revisions record who changed them.
func TestProfilesAndPoliciesKeepTheirManagedFields(t *testing.T) {
	meta := metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}
	for want, object := range map[int]metav1.Object{
		1: &v1alpha1.SchedulerProfile{ObjectMeta: meta}, 0: &corev1.Namespace{ObjectMeta: meta},
	} {
		got, err := NewTransform(true)(object)
		if err != nil || len(got.(metav1.Object).GetManagedFields()) != want {
			t.Errorf("%T: %v, %+v", object, err, got)
		}
	}
}

// TestTrimmingRemovesOnlyTheListedFields fills every field of a pod, so that it also covers fields
// that later versions of the API add.
func TestTrimmingRemovesOnlyTheListedFields(t *testing.T) {
	pod := &corev1.Pod{}
	newFiller(rand.New(rand.NewPCG(1, 0)), 0, 1, 1).Fill(pod)
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	pod.Spec.InitContainers[0].TerminationMessagePolicy = corev1.TerminationMessageReadFile
	// Mounts with such options stay, since they need a feature of the node.
	pod.Spec.InitContainers[0].VolumeMounts[0].BindMountOptions = nil
	pod.Spec.Containers[0].VolumeMounts[0].BindMountOptions = nil
	pod.Spec.NodeName = ""
	transform := NewTransform(true)
	whole := pod.DeepCopy()
	whole.ManagedFields = nil
	if _, err := transform(pod); err != nil || !apiequality.Semantic.DeepEqual(pod, whole) {
		t.Errorf("%v; an unbound pod has changed:\n%s", err, cmp.Diff(whole, pod))
	}

	pod.Spec.NodeName, whole.Spec.NodeName = "node", "node"
	untrimmed := pod.DeepCopy()
	if _, err := NewTransform(false)(untrimmed); err != nil || !apiequality.Semantic.DeepEqual(untrimmed, whole) {
		t.Errorf("%v; with trimming off, a bound pod has changed:\n%s", err, cmp.Diff(whole, untrimmed))
	}
	if _, err := transform(pod); err != nil {
		t.Fatal(err)
	}
	got := removedFields("", reflect.ValueOf(*whole), reflect.ValueOf(*pod))
	container := []string{
		"Command", "Args", "WorkingDir", "EnvFrom", "Env", "VolumeMounts", "VolumeDevices", "LivenessProbe",
		"ReadinessProbe", "StartupProbe",
		"Lifecycle", "TerminationMessagePath", "TerminationMessagePolicy",
	}
	status := []string{"State", "LastTerminationState", "ContainerID", "VolumeMounts", "User"}
	want := slices.Concat(under(".Spec.InitContainers[0].", container), under(".Spec.Containers[0].", container),
		[]string{".Spec.EphemeralContainers"},
		[]string{".Status.HostIPs", ".Status.PodIPs"}, under(".Status.InitContainerStatuses[0].", status),
		under(".Status.ContainerStatuses[0].", status),
		[]string{".Status.EphemeralContainerStatuses"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("removed fields (-want +got):\n%s", diff)
	}
}

func under(prefix string, fields []string) []string {
	var paths []string
	for _, field := range fields {
		paths = append(paths, prefix+field)
	}
	return paths
}

// removedFields returns the paths of the fields of before that are missing or different in after.
func removedFields(path string, before, after reflect.Value) []string {
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
			paths = append(paths, removedFields(path+name, before.Field(i), after.Field(i))...)
		}
	case reflect.Slice:
		if before.Len() == 1 && after.Len() == 1 {
			return removedFields(path+"[0]", before.Index(0), after.Index(0))
		}
		paths = []string{path}
	default:
		paths = []string{path}
	}
	return paths
}

func TestTrimmingRemovesVolumesWhoseFilesTheKubeletWrites(t *testing.T) {
	sources := reflect.TypeFor[corev1.VolumeSource]()
	random := rand.New(rand.NewPCG(2, 0))
	removed := []string{}
	for i := range sources.NumField() {
		var source corev1.VolumeSource
		newFiller(random, 0, 1, 1).Fill(reflect.ValueOf(&source).Elem().Field(i).Addr().Interface())
		other := corev1.Volume{Name: "other",
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node",
			Volumes: []corev1.Volume{{Name: "this", VolumeSource: source}, other}}}
		podfields.Drop(pod)
		switch volumes := pod.Spec.Volumes; {
		case len(volumes) == 1 && volumes[0].Name == "other":
			removed = append(removed, sources.Field(i).Name)
		case len(volumes) != 2:
			t.Errorf("%s: %d volumes are left", sources.Field(i).Name, len(volumes))
		}
	}
	if diff := cmp.Diff([]string{"Secret", "DownwardAPI", "ConfigMap", "Projected"}, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
}

func TestTrimmingRemovesStartupConditions(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node"}}
	all := []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady,
		corev1.PodScheduled,
		corev1.DisruptionTarget, corev1.PodResizePending, corev1.PodResizeInProgress, "example.com/gate",
	}
	for _, condition := range all {
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: condition, LastTransitionTime: metav1.Unix(1, 0)})
	}
	podfields.Drop(pod)
	var kept []corev1.PodConditionType
	for _, condition := range pod.Status.Conditions {
		kept = append(kept, condition.Type)
		if condition.LastTransitionTime.IsZero() {
			t.Errorf("%s has no time", condition.Type)
		}
	}
	want := []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget,
		corev1.PodResizePending, corev1.PodResizeInProgress, "example.com/gate"}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// schedulerView returns what kube-scheduler derives from a pod on a node, and the events that it
// derives from the update of the pod.
func schedulerView(pod, before *corev1.Pod) map[string]any {
	node := schedframework.NewNodeInfo(pod)
	info, err := schedframework.NewPodInfo(pod)
	var volumes [][]byte // those that only one pod may mount, or that count towards a limit
	for _, v := range pod.Spec.Volumes {
		if v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil ||
			v.CSI != nil || v.Ephemeral != nil ||
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
		"requested": node.Requested, "non-zero requested": node.NonZeroRequested, "ports": node.UsedPorts,
		"claims": node.PVCRefCounts,
		"terms": []any{info.RequiredAffinityTerms, info.RequiredAntiAffinityTerms, info.PreferredAffinityTerms,
			info.PreferredAntiAffinityTerms},
		"invalid":   err != nil,
		"QoS class": qos.ComputePodQOS(pod), "priority": corev1helpers.PodPriority(pod),
		"start":  schedutil.GetPodStartTime(pod).UnixNano(),
		"labels": pod.Labels, "annotations": pod.Annotations, "tolerations": pod.Spec.Tolerations, "volumes": volumes,
		"resource claims": []any{pod.Spec.ResourceClaims, pod.Status.ResourceClaimStatuses,
			pod.Status.ExtendedResourceClaimStatus},
		"scheduled since": scheduled,
		"events":          schedframework.PodSchedulingPropertiesChange(pod, before, false),
	}
}

// TestKubeSchedulerDerivesTheSameFromATrimmedPod compares what kube-scheduler's code derives from
// whole pods with what it derives from transformed ones.
func TestKubeSchedulerDerivesTheSameFromATrimmedPod(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	transform := NewTransform(true)
	trimmed := 0
	for range 200 {
		before, pod := randomPod(random), randomPod(random)
		pod.UID, before.UID = types.UID("u"), types.UID("u")
		want := schedulerView(pod, before)
		keptBefore, kept := before.DeepCopy(), pod.DeepCopy()
		for _, p := range []*corev1.Pod{keptBefore, kept} {
			if _, err := transform(p); err != nil {
				t.Fatal(err)
			}
		}
		for what, got := range schedulerView(kept, keptBefore) {
			if !reflect.DeepEqual(want[what], got) {
				t.Fatalf("%s of the whole pod: %+v\nof the trimmed pod: %+v", what, want[what], got)
			}
		}
		if kept.Size() < pod.Size()*2/3 {
			trimmed++
		}
	}
	if trimmed < 50 {
		t.Errorf("only %d of 200 pods are a third smaller", trimmed)
	}
}
