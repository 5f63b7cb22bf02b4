// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/randfill"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// marker is in every string of a cluster that is full of them.
const marker = "zqmarker"

// markers are unique strings that each have the marker.
type markers int

func (m *markers) next() string {
	*m++
	return fmt.Sprintf("%s-%d", marker, *m)
}

// fill fills an object, so that all its strings have the marker.
func (m *markers) fill(filler *randfill.Filler, object any) {
	filler.Fill(object)
	m.mark(reflect.ValueOf(object).Elem())
}

// mark sets the strings of types with a name, which a Filler fills at random.
func (m *markers) mark(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() != reflect.TypeFor[string]() {
			v.SetString(m.next())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			m.mark(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			m.mark(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			m.mark(value)
			marked := reflect.New(v.Type().Key()).Elem()
			marked.Set(key)
			m.mark(marked)
			v.SetMapIndex(key, reflect.Value{})
			v.SetMapIndex(marked, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type() != reflect.TypeFor[resource.Quantity]() {
				m.mark(v.Field(i))
			}
		}
	}
}

func (m *markers) filler(seed uint64) *randfill.Filler {
	next := m.next
	return randfill.NewWithSeed(int64(seed)).NilChance(0).NumElements(1, 2).MaxDepth(12).Funcs(
		func(s *string, _ randfill.Continue) { *s = next() },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(m *metav1.Time, _ randfill.Continue) { *m = metav1.Unix(1700000000, 0) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"` + next() + `": {}}`) },
		func(r *runtime.RawExtension, _ randfill.Continue) {
			*r = runtime.RawExtension{Raw: []byte(`{"` + next() + `": ["` + next() + `", {"kind": "` + next() + `"}]}`)}
		},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			c.FillNoCustom(m)
			m.ResourceVersion = "17"  // a number
			if m.Annotations == nil { // of an object deep in another one
				return
			}
			m.Annotations[corev1.PreferAvoidPodsAnnotationKey] = `{"preferAvoidPods": [{"podSignature": ` +
				`{"podController": {"uid": "` + next() + `"}}}]}`
			m.Annotations[corev1.MirrorPodAnnotationKey] = next()
			m.Annotations[migratedPlugins] = "kubernetes.io/aws-ebs," + next()
			m.Annotations[podgroup.AnnotationRequired] = next()
			m.Annotations[podgroup.AnnotationPreferred] = next() + ", not a key " + next()
			m.Annotations[podgroup.AnnotationDisruptionMode] = next()
		},
	)
}

// fullOfMarkers returns a state in which each string has the marker.
func fullOfMarkers(t testing.TB, seed uint64) *Input {
	t.Helper()
	var m markers
	filler := m.filler(seed)
	in := &Input{Nodes: []*corev1.Node{{}}, Pods: []*corev1.Pod{{}}, Pending: []*corev1.Pod{{}}}
	in.Profiles, in.Policies = make([]v1alpha1.SchedulerProfile, 1), make([]v1alpha1.SchedulingPolicy, 1)
	in.Nominations, in.Decisions = make([]Nomination, 1), make([]decisionlog.Decision, 1)
	in.Objects = []any{
		&corev1.Namespace{}, &corev1.Service{}, &corev1.ReplicationController{}, &appsv1.ReplicaSet{},
		&appsv1.StatefulSet{},
		&corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &storagev1.StorageClass{}, &storagev1.CSINode{},
		&storagev1.CSIDriver{},
		&storagev1.CSIStorageCapacity{}, &storagev1.VolumeAttachment{}, &resourcev1.ResourceClaim{},
		&resourcev1.ResourceSlice{}, &resourcev1.DeviceClass{},
		&schedulingv1beta1.PodGroup{}, &schedulingv1alpha3.CompositePodGroup{},
	}
	group := &podgroup.Object{}
	in.Header.Profiles = make([]Profile, 1)
	for _, object := range append([]any{
		in.Nodes[0], in.Pods[0], in.Pending[0], &in.Profiles[0], &in.Policies[0], &in.Nominations[0], &in.Decisions[0],
		&in.Header.Profiles[0], group,
	}, in.Objects...) {
		m.fill(filler, object)
	}
	in.Objects = append(in.Objects, pluginsPodGroup(t, group))
	in.Pending[0].Spec.NodeName = ""
	in.Header.Time = time.Unix(1700000000, 0)
	in.Decisions[0].Result = decisionlog.Bound
	in.Decisions[0].Time = in.Header.Time
	return in
}

// plainText writes a snapshot and returns it without compression.
func plainText(t testing.TB, in *Input, redacted bool) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(t.Context(), &out, in, redacted); err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNoStringOfTheClusterSurvivesRedaction(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for run := range uint64(20) {
		in := fullOfMarkers(t, seed+run)
		if plain := plainText(t, in, false); strings.Count(plain, marker) < 100 {
			t.Fatalf("the plain snapshot has only %d markers", strings.Count(plain, marker))
		}
		text := plainText(t, in, true)
		for _, line := range strings.Split(text, "\n") {
			if at := strings.Index(line, marker); at >= 0 {
				t.Fatalf("a string has survived: ...%s", line[max(0, at-200):min(len(line), at+60)])
			}
		}
		if _, err := Read(compressed(t, text), DefaultLimits); err != nil {
			t.Fatalf("the redacted snapshot cannot be read: %v", err)
		}
	}
}

// TestWhatNobodyNeedsIsInNoSnapshot fills the fields that a plain snapshot must not have.
func TestWhatNobodyNeedsIsInNoSnapshot(t *testing.T) {
	in := fullOfMarkers(t, 1)
	pod := in.Pods[0]
	const secret = "zqsecret"
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Command, c.Args = []string{secret}, []string{secret}
		c.Env = []corev1.EnvVar{{Name: secret, Value: secret}}
		c.EnvFrom = []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}}
		c.WorkingDir = secret
	}
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: secret}}
	pod.Spec.ServiceAccountName, pod.Spec.Hostname = secret, secret
	pod.Spec.Volumes = []corev1.Volume{
		{Name: secret, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}}
	pod.Annotations = map[string]string{secret: secret, corev1.MirrorPodAnnotationKey: secret}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: secret}}
	pod.Status.Message, pod.Status.PodIP = secret, secret
	in.Nodes[0].Annotations, in.Nodes[0].Spec.ProviderID = map[string]string{secret: secret}, secret
	in.Nodes[0].Status.Addresses = []corev1.NodeAddress{{Address: secret}}
	in.Nodes[0].Status.NodeInfo.MachineID = secret
	in.Objects = append(in.Objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: secret}})
	text := plainText(t, in, false)
	if at := strings.Index(text, secret); at >= 0 {
		t.Errorf("the snapshot has ...%s", text[max(0, at-200):min(len(text), at+60)])
	}
}

func TestPseudonyms(t *testing.T) {
	n := newNames(sets.New("17"))
	for _, kept := range []string{
		"", "NoSchedule", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "cpu", "hugepages-2Mi", "17",
		"default-scheduler", "NodeResourcesFit",
	} {
		if got := n.of(kept); got != kept {
			t.Errorf("%q became %q", kept, got)
		}
	}
	seen := map[string]string{}
	for _, hidden := range []string{
		"a", "b", "18", "hugepages-mine", "example.com/a", "a/b", "example.com", "node-role.kubernetes.io/mine",
		"kubernetes.io/mine", "/", "a/", "/a", "Ü",
	} {
		got := n.of(hidden)
		if got != n.of(hidden) || seen[got] != "" {
			t.Errorf("%q became %q, and then %q; %q is that, too", hidden, got, n.of(hidden), seen[got])
		}
		seen[got] = hidden
		if strings.Count(got, "/") > strings.Count(hidden, "/") || len(hidden) > 2 && strings.Contains(got, hidden) {
			t.Errorf("%q became %q", hidden, got)
		}
	}
	if n.of("a/b") != n.of("a")+"/"+n.of("b") {
		t.Error("the parts of a name have other pseudonyms")
	}
	if n.of("a") == newNames(nil).of("a") {
		t.Error("two snapshots have the same pseudonyms")
	}
	if n.ofPodImage("registry/app") != n.ofImage("registry/app:latest") ||
		n.ofPodImage("registry:5000/app:1") != n.ofImage("registry:5000/app:1") ||
		n.ofPodImage("registry:5000/app") != n.ofImage("registry:5000/app:latest") {
		t.Error("an image in a pod is not the one on a node")
	}
}

// TestWordsHaveThePlugins fails if a plugin would get a pseudonym.
func TestWordsHaveThePlugins(t *testing.T) {
	registry, err := plugins.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name := range registry {
		if !words().Has(name) {
			t.Errorf("the plugin %s is no word", name)
		}
	}
}

func TestNumbersThatAreComparedStay(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "cores", Operator: corev1.NodeSelectorOpGt, Values: []string{"8"}},
					{Key: "phone", Operator: corev1.NodeSelectorOpIn, Values: []string{"555"}},
				}},
			}}}}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "level", Operator: corev1.TolerationOpLt, Value: "3"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"cores": "16", "phone": "556",
		"level": "x"}}}
	node.Spec.Taints = []corev1.Taint{{Key: "level", Value: "2"}, {Key: "other", Value: "9"}}
	volume := &corev1.PersistentVolume{}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
		Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpLt,
				Values: []string{"4"}}},
		}}}}
	got := findNumbers(&Input{Nodes: []*corev1.Node{node}, Pending: []*corev1.Pod{pod}, Objects: []any{volume}})
	if want := sets.New("8", "16", "3", "2", "4"); !got.Equal(want) {
		t.Errorf("got %v, want %v", sets.List(got), sets.List(want))
	}
}

// TestImagesOfVolumesAreThoseOfNodes: ImageLocality scores the images that a pod mounts, too.
func TestImagesOfVolumesAreThoseOfNodes(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	pod.Spec.NodeName = "n"
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "model", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: "registry/model"}}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"registry/model:latest"}, SizeBytes: 1 << 30}}
	for _, redacted := range []bool{false, true} {
		got, err := Read(compressed(t,
			plainText(t, &Input{Nodes: []*corev1.Node{node}, Pods: []*corev1.Pod{pod}}, redacted)), DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Pods[0].Spec.Volumes) != 1 {
			t.Fatalf("redacted: %t; the pod has no volume", redacted)
		}
		image, onNode := got.Pods[0].Spec.Volumes[0].Image.Reference, got.Nodes[0].Status.Images[0].Names[0]
		if strings.TrimSuffix(onNode, ":latest") != strings.TrimSuffix(image, ":latest") ||
			redacted == strings.Contains(image, "model") {
			t.Errorf("redacted: %t; the pod mounts %q, and the node has %q", redacted, image, onNode)
		}
	}
}

func TestWriteLeavesTheObjectsAsTheyAre(t *testing.T) {
	in := fullOfMarkers(t, 2)
	before, err := json.Marshal([]any{in.Nodes, in.Pods, in.Pending, in.Objects, in.Profiles, in.Policies})
	if err != nil {
		t.Fatal(err)
	}
	plainText(t, in, true)
	plainText(t, in, false)
	after, err := json.Marshal([]any{in.Nodes, in.Pods, in.Pending, in.Objects, in.Profiles, in.Policies})
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the objects have changed (%v)", err)
	}
}

func TestWriteEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := &Input{}
	for i := range 2 * checkEvery {
		in.Pods = append(in.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(fmt.Sprint(i))}})
	}
	if err := Write(ctx, io.Discard, in, false); err == nil {
		t.Error("it did not end")
	}
}
