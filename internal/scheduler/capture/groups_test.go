// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// pluginsPodGroup returns a PodGroup of scheduler-plugins, as the informer has it.
func pluginsPodGroup(t testing.TB, group *podgroup.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(group)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(podgroup.Kind)
	return object
}

// groupsOfBothAPIs returns a cluster with a PodGroup of each API, a pod of each, and a node.
func groupsOfBothAPIs(t testing.TB, annotations map[string]string) *Input {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "ml", Name: "train", Labels: map[string]string{"owner": "anna"},
		Annotations: annotations}
	meta.Annotations["notes"] = "private"
	of := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}}
		change(pod)
		return pod
	}
	return &Input{
		Header: Header{Time: time.Unix(1700000000, 0),
			ResourceVersions: map[string]string{VersionKey(podgroup.Kind): "7"}},
		Nodes: []*corev1.Node{
			{ObjectMeta: metav1.ObjectMeta{Name: "n",
				Labels: map[string]string{"example.com/rack": "r1", "block": "b1"}}}},
		Pending: []*corev1.Pod{
			of("one", func(pod *corev1.Pod) { pod.Labels = map[string]string{podgroup.Label: "train"} }),
			of("two", func(pod *corev1.Pod) {
				pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("train")}
			}),
		},
		Objects: []any{
			pluginsPodGroup(t, &podgroup.Object{
				ObjectMeta: meta, Spec: podgroup.ObjectSpec{MinMember: 5, ScheduleTimeoutSeconds: ptr.To(int32(60))},
				Status: podgroup.ObjectStatus{Succeeded: 2},
			}),
			&schedulingv1beta1.PodGroup{ObjectMeta: meta, Spec: schedulingv1beta1.PodGroupSpec{
				SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
					Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 3}},
				SchedulingConstraints: &schedulingv1beta1.PodGroupSchedulingConstraints{
					Topology: []schedulingv1beta1.TopologyConstraint{{Key: "block"}}},
				DisruptionMode:    &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}},
				Priority:          ptr.To(int32(9)),
				PriorityClassName: "important",
				PreemptionPolicy:  ptr.To(schedulingv1beta1.PreemptNever),
			}},
		},
	}
}

// readGroups writes and reads a cluster of groupsOfBothAPIs. It returns the groups, the one
// of scheduler-plugins first, after it has checked that the pods name them.
func readGroups(t testing.TB, in *Input, redacted bool) (*Snapshot, [2]podgroup.Group) {
	t.Helper()
	snapshot, err := Read(compressed(t, plainText(t, in, redacted)), DefaultLimits)
	if err != nil || len(snapshot.PodGroups) != 1 || len(snapshot.Objects) != 1 {
		t.Fatalf("got %+v, %v", snapshot, err)
	}
	groups := [2]podgroup.Group{snapshot.PodGroups[0].Group(),
		podgroup.FromPodGroup(snapshot.Objects[0].(*schedulingv1beta1.PodGroup))}
	for i, pod := range snapshot.Pending {
		if key := podgroup.KeyOf(pod); key != groups[i].Key || (key.Name == "train") == redacted ||
			(key.Namespace == "ml") == redacted {
			t.Errorf("redacted=%v: the pod names the group %v, want %v", redacted, key, groups[i].Key)
		}
	}
	return snapshot, groups
}

func TestPodGroupsAskForTheSameInASnapshot(t *testing.T) {
	annotations := map[string]string{
		podgroup.AnnotationRequired:       "block",
		podgroup.AnnotationPreferred:      "example.com/rack, topology.kubernetes.io/zone",
		podgroup.AnnotationDisruptionMode: "PodGroup",
	}
	for _, redacted := range []bool{false, true} {
		in := groupsOfBothAPIs(t, annotations)
		snapshot, got := readGroups(t, in, redacted)
		rack, block := "example.com/rack", "block"
		for key, value := range snapshot.Nodes[0].Labels {
			switch {
			case redacted && strings.Contains(key, "/"):
				rack = key
			case redacted:
				block = key
			}
			if redacted && (strings.Contains(key, "rack") || strings.Contains(key, "block") || value == "r1") {
				t.Errorf("the label %s=%s is not redacted", key, value)
			}
		}
		want := [2]podgroup.Group{
			{
				Key: got[0].Key, MinMember: 5, Succeeded: 2, Begun: true, Timeout: time.Minute, EvictedWhole: true,
				Topology: podgroup.Topology{Required: block, Preferred: []string{rack, corev1.LabelTopologyZone}},
			},
			{Key: got[1].Key, MinMember: 3, Priority: ptr.To(int32(9)), EvictedWhole: true, PreemptionPolicy: ptr.To(corev1.PreemptNever),
				Topology: podgroup.Topology{Required: block}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("redacted=%v (-want +got):\n%s", redacted, diff)
		}
		if h := &snapshot.Header; !h.Served(podgroup.Kind) || h.Served(podgroup.KubernetesAPIs[0].Kind()) {
			t.Errorf("redacted=%v: served are %v", redacted, h.ResourceVersions)
		}
		text := plainText(t, in, redacted)
		for _, private := range []string{"private", "anna", "important"} {
			if strings.Contains(text, private) {
				t.Errorf("redacted=%v: the snapshot has %q", redacted, private)
			}
		}
	}
}

// TestAPodGroupThatIsRefusedIsRefusedInASnapshot redacts annotations that are not valid.
func TestAPodGroupThatIsRefusedIsRefusedInASnapshot(t *testing.T) {
	for _, annotations := range []map[string]string{
		{podgroup.AnnotationRequired: "not a key"}, {podgroup.AnnotationRequired: "a,b"},
		{podgroup.AnnotationPreferred: "a,,b"},
		{podgroup.AnnotationPreferred: "a/b/c"}, {podgroup.AnnotationPreferred: "a,b,c,d,e"},
		{podgroup.AnnotationPreferred: " "},
		{podgroup.AnnotationDisruptionMode: "Group"},
	} {
		for _, redacted := range []bool{false, true} {
			if _, got := readGroups(t, groupsOfBothAPIs(t, annotations), redacted); got[0].Problem == "" {
				t.Errorf("redacted=%v, %v: got %+v", redacted, annotations, got[0])
			}
		}
	}
}
