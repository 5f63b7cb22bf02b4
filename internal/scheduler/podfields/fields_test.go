// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podfields

import (
	_ "embed"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"github.com/livesched/livesched/internal/mapkey"
)

//go:embed testdata/fields.txt
var knownFields string

// looked are the types whose fields testdata/fields.txt names. What is in fields of other types is
// read as a whole, or not at all.
var looked = map[reflect.Type]bool{
	reflect.TypeFor[corev1.Pod](): true, reflect.TypeFor[metav1.ObjectMeta](): true,
	reflect.TypeFor[metav1.OwnerReference](): true,
	reflect.TypeFor[corev1.PodSpec]():        true, reflect.TypeFor[corev1.PodStatus](): true,
	reflect.TypeFor[corev1.PodCondition](): true,
	reflect.TypeFor[corev1.Container]():    true, reflect.TypeFor[corev1.ContainerPort](): true,
	reflect.TypeFor[corev1.ContainerStatus]():      true,
	reflect.TypeFor[corev1.ContainerRestartRule](): true, reflect.TypeFor[corev1.ResourceRequirements](): true,
	reflect.TypeFor[corev1.Volume](): true, reflect.TypeFor[corev1.VolumeSource](): true,
	reflect.TypeFor[corev1.VolumeMount]():       true,
	reflect.TypeFor[corev1.ImageVolumeSource](): true,
	reflect.TypeFor[corev1.ISCSIVolumeSource](): true, reflect.TypeFor[corev1.RBDVolumeSource](): true,
	reflect.TypeFor[corev1.Affinity](): true, reflect.TypeFor[corev1.NodeAffinity](): true,
	reflect.TypeFor[corev1.NodeSelector]():     true,
	reflect.TypeFor[corev1.NodeSelectorTerm](): true, reflect.TypeFor[corev1.NodeSelectorRequirement](): true,
	reflect.TypeFor[corev1.PreferredSchedulingTerm](): true, reflect.TypeFor[corev1.PodAffinity](): true,
	reflect.TypeFor[corev1.PodAntiAffinity](): true, reflect.TypeFor[corev1.PodAffinityTerm](): true,
	reflect.TypeFor[corev1.WeightedPodAffinityTerm](): true, reflect.TypeFor[metav1.LabelSelector](): true,
	reflect.TypeFor[metav1.LabelSelectorRequirement](): true, reflect.TypeFor[corev1.Toleration](): true,
	reflect.TypeFor[corev1.TopologySpreadConstraint](): true,
	reflect.TypeFor[corev1.Node]():                     true, reflect.TypeFor[corev1.NodeSpec](): true,
	reflect.TypeFor[corev1.NodeStatus](): true,
	reflect.TypeFor[corev1.Taint]():      true, reflect.TypeFor[corev1.ContainerImage](): true,
}

// reader is a group of functions that read the same fields. sees reports whether they take two
// objects for different.
type reader[T any] struct {
	name string
	sees func(a, b T) bool
}

var podReaders = []reader[*corev1.Pod]{
	{"node-affinity", written(WriteNodeAffinity)},
	{"tolerations", written(WriteTolerations)},
	{"requests", written(WriteRequests)},
	{"ports", written(WriteHostPorts)},
	{"images", func(a, b *corev1.Pod) bool { return !slices.Equal(imagesOf(a), imagesOf(b)) }},
	{"spread", written(WriteSpread)},
	{"pod-affinity", written(WritePodAffinity)},
	{"controller", written(func(w *mapkey.Writer, pod *corev1.Pod) bool { WriteController(w, pod); return true })},
	{"same-requests", func(a, b *corev1.Pod) bool { return !SameRequests(a, b) }},
	{"same-reported", func(a, b *corev1.Pod) bool { return SameRequests(a, b) && !SameRequestInputs(a, b) }},
	{"same-for-others", func(a, b *corev1.Pod) bool { return !SameForOthers(a, b) }},
	{"claims", func(a, b *corev1.Pod) bool { return claimsOf(a) != claimsOf(b) }},
	{"stays", func(a, b *corev1.Pod) bool { return StaysWithNode(a) != StaysWithNode(b) }},
	{"kept", func(a, b *corev1.Pod) bool { return !apiequality.Semantic.DeepEqual(Keep(a), Keep(b)) }},
	{"dropped", func(a, b *corev1.Pod) bool { return !drops(a) && drops(b) }},
}

var nodeReaders = []reader[*corev1.Node]{
	{"same-node", func(a, b *corev1.Node) bool { return !SameNode(a, b) }},
	{"kept-node", func(a, b *corev1.Node) bool { return !apiequality.Semantic.DeepEqual(KeepNode(a), KeepNode(b)) }},
}

func written(write func(*mapkey.Writer, *corev1.Pod) bool) func(a, b *corev1.Pod) bool {
	return func(a, b *corev1.Pod) bool {
		var of, other mapkey.Writer
		if !write(&of, a) || !write(&other, b) {
			panic("a pod cannot be encoded")
		}
		return string(of.Bytes()) != string(other.Bytes())
	}
}

func imagesOf(pod *corev1.Pod) []string { return slices.Collect(Images(pod)) }

func claimsOf(pod *corev1.Pod) [5]bool {
	fromMars := func(name corev1.ResourceName) bool { return strings.Contains(string(name), "mars") }
	return [...]bool{HasClaims(pod), UsesVolumeClaims(pod), UsesDevices(pod, fromMars), RequestsExtended(pod),
		ReportsResources(pod)}
}

func drops(pod *corev1.Pod) bool {
	left := pod.DeepCopy()
	Drop(left)
	return !apiequality.Semantic.DeepEqual(left, pod)
}

// ordinaryPods are pods in which fields are changed. Some fields are read only beside others.
func ordinaryPods() []*corev1.Pod {
	list := func(cpu string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(cpu)} }
	port := []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "u",
		Controller: ptr.To(true)}
	status := []corev1.ContainerStatus{{Name: "c", Resources: &corev1.ResourceRequirements{Requests: list("2")},
		AllocatedResources: list("2")}}
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "c", Ports: port, Resources: corev1.ResourceRequirements{Requests: list("1")}}},
			InitContainers: []corev1.Container{
				{Name: "c", Ports: port, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: claim}},
		},
		Status: corev1.PodStatus{
			ContainerStatuses: status, InitContainerStatuses: status,
			Conditions: []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}},
		},
	}
	static := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{corev1.MirrorPodAnnotationKey: ""}}}
	return []*corev1.Pod{{}, pod, static}
}

// change calls visit for each field of the types that are looked at, with two copies of the object:
// base has all structs in which the field is, and in changed the field has another value.
func change[T any](object *T, deepCopy func(*T) *T, visit func(field string, base, changed *T)) {
	filler := randfill.NewWithSeed(1).NilChance(0).NumElements(1, 1).Funcs(
		func(q *resource.Quantity, _ randfill.Continue) { *q = resource.MustParse("7") },
		func(t *metav1.Time, _ randfill.Continue) { *t = metav1.Unix(1700000000, 0) },
		func(l *corev1.ResourceList, _ randfill.Continue) {
			*l = corev1.ResourceList{"mars.example.com/rover": resource.MustParse("7")}
		},
	)
	var walk func(t reflect.Type, path []int)
	walk = func(t reflect.Type, path []int) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if !looked[t] {
			return
		}
		for i := range t.NumField() {
			if t.Field(i).Type == reflect.TypeFor[metav1.TypeMeta]() {
				continue
			}
			path := append(slices.Clone(path), i)
			base := deepCopy(object)
			at(base, path)
			zero, filled := deepCopy(base), deepCopy(base)
			at(zero, path).SetZero()
			at(filled, path).SetZero()
			fill(filler, at(filled, path))
			for _, changed := range []*T{zero, filled} {
				visit(t.Name()+"."+t.Field(i).Name, base, changed)
			}
			walk(t.Field(i).Type, path)
		}
	}
	walk(reflect.TypeFor[T](), nil)
}

// fill sets a field to a value other than zero.
func fill(filler *randfill.Filler, field reflect.Value) {
	filler.Fill(field.Addr().Interface())
	switch {
	case !field.IsZero():
	case field.Kind() == reflect.Bool:
		field.SetBool(true)
	case field.Kind() == reflect.String:
		field.SetString("mars")
	}
}

// at returns a field of an object, and makes the structs in which it is.
func at(object any, path []int) reflect.Value {
	v := reflect.ValueOf(object).Elem()
	for _, i := range path {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		case reflect.Slice:
			if v.Len() == 0 {
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			}
			v = v.Index(0)
		}
		v = v.Field(i)
	}
	return v
}

// readersOf returns who reads each field.
func readersOf() map[string][]string {
	found := map[string][]string{}
	note := func(field, reader string, reads bool) {
		if reads && !slices.Contains(found[field], reader) {
			found[field] = append(found[field], reader)
		}
	}
	for _, pod := range ordinaryPods() {
		change(pod, (*corev1.Pod).DeepCopy, func(field string, base, changed *corev1.Pod) {
			found[field] = append([]string{}, found[field]...)
			for _, r := range podReaders {
				note(field, r.name, r.sees(base, changed))
			}
		})
	}
	change(&corev1.Node{}, (*corev1.Node).DeepCopy, func(field string, base, changed *corev1.Node) {
		found[field] = append([]string{}, found[field]...)
		for _, r := range nodeReaders {
			note(field, r.name, r.sees(base, changed))
		}
	})
	for _, readers := range found {
		slices.Sort(readers)
	}
	return found
}

// TestEveryFieldIsKnown compares testdata/fields.txt with the types of this version of k8s.io/api
// and with what the functions of this package read.
func TestEveryFieldIsKnown(t *testing.T) {
	got, known := readersOf(), map[string]bool{}
	for line := range strings.Lines(knownFields) {
		line, why, _ := strings.Cut(line, "#")
		field, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		want = strings.Join(strings.Fields(want), " ")
		readers, exists := got[field]
		switch {
		case field == "":
			continue
		case known[field]:
			t.Errorf("%s is in testdata/fields.txt twice", field)
		case !exists:
			t.Errorf("testdata/fields.txt has %s, which the API has not: remove it there, and where it is read", field)
		case want != strings.Join(readers, " "):
			t.Errorf("in testdata/fields.txt, %s is read by [%s], but it is read by %v", field, want, readers)
		case want == "" && strings.TrimSpace(why) == "":
			t.Errorf("testdata/fields.txt does not say why nothing reads %s", field)
		}
		known[field] = true
	}
	for field, readers := range got {
		if !known[field] {
			t.Errorf(
				`the API has a new field, %s. Look for it in kube-scheduler's plugins, in k8s.io/component-helpers and in
livesched's plugins. If one of them reads it, let the functions of this package read it that this concerns:
write.go (keys of pods), same.go (is an update a change?), traits.go and keep.go (snapshots and memory).
Then add it to testdata/fields.txt, with its readers, or why there are none.
Now its readers are %v.`,
				field, readers)
		}
	}
}

// TestWhatIsReadIsKept fails if a snapshot lacks a field that decisions read, or a bound pod loses
// one.
func TestWhatIsReadIsKept(t *testing.T) {
	for field, readers := range readersOf() {
		read := slices.ContainsFunc(readers, func(r string) bool {
			return r != "claims" && r != "kept" && r != "kept-node" && r != "same-node" && r != "dropped"
		})
		if read && !slices.Contains(readers, "kept") {
			t.Errorf("%s is not kept, but read by %v", field, readers)
		}
		if read && slices.Contains(readers, "dropped") && !isLookedAt(field) {
			t.Errorf("%s is dropped, but read by %v", field, readers)
		}
	}
}

// TestWhatOthersReadIsKept fails if KeepForOthers lacks a field that PodTopologySpread and
// InterPodAffinity read of a pod.
func TestWhatOthersReadIsKept(t *testing.T) {
	read := []string{"spread", "pod-affinity", "node-affinity", "tolerations", "controller"}
	seen := map[string]bool{}
	for _, pod := range ordinaryPods() {
		change(pod, (*corev1.Pod).DeepCopy, func(field string, base, changed *corev1.Pod) {
			for _, r := range podReaders {
				if !slices.Contains(read, r.name) || !r.sees(base, changed) {
					continue
				}
				seen[r.name] = true
				if !r.sees(KeepForOthers(base), KeepForOthers(changed)) {
					t.Errorf("%s is not kept, but read by %s", field, r.name)
				}
			}
		})
	}
	if len(seen) != len(read) {
		t.Errorf("only %v see any change", seen)
	}
}

// isLookedAt reports whether the fields in a field are in testdata/fields.txt, too: then some may
// be dropped.
func isLookedAt(field string) bool {
	typeName, name, _ := strings.Cut(field, ".")
	for t := range looked {
		if t.Name() != typeName {
			continue
		}
		f, _ := t.FieldByName(name)
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		return looked[inner]
	}
	return false
}
