// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
)

const namespace = "livesched-system"

// profileSpec and policySpec read a spec from YAML.
func profileSpec(t testing.TB, text string) *v1alpha1.SchedulerProfileSpec {
	t.Helper()
	spec := &v1alpha1.SchedulerProfileSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func policySpec(t testing.TB, text string) v1alpha1.SchedulingPolicySpec {
	t.Helper()
	spec := v1alpha1.SchedulingPolicySpec{}
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

const (
	packs = `{schedulerName: mine, pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: ` +
		`MostAllocated}}}], plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 3}]}}}`
	whole = `{algorithmSource: {provider: ClusterAutoscalerProvider}, podMaxBackoff: 20s, extenders: [{urlPrefix: ` +
		`"https://x", tlsConfig: {secretRef: {namespace: n, name: s}}}]}`
)

// samples are revisions with every combination of fields.
func samples(t testing.TB) map[string]Revision {
	return map[string]Revision{
		"a profile on the built-in defaults": {
			Number: 3, Kind: KindProfile, ObjectName: "mine", UID: "u1", Generation: 7, Hash: "abc",
			Profile: profileSpec(t, packs),
			Activation: Activation{Since: time.Date(2026, 11, 25, 5, 40, 0, 0, time.UTC), By: "kubectl",
				Cause: "pack more"},
		},
		"a profile on a policy": {
			Number: 1, Kind: KindProfile, ObjectName: "mine", UID: "u1", Generation: 1, Hash: "abc",
			Profile: profileSpec(t, `{policyRef: {name: shared}}`),
			Policy: &Policy{Name: "shared", UID: "u2", Generation: 4, Revision: "spol-shared-x",
				Spec: policySpec(t, whole)},
		},
		"a policy": {
			Name: "spol-shared-x", Number: 12, Kind: KindPolicy, ObjectName: "shared", UID: "u2", Generation: 4,
			Hash: "def",
			Policy: &Policy{Name: "shared", UID: "u2", Generation: 4, Revision: "spol-shared-x",
				Spec: policySpec(t, whole)},
		},
		"a profile with a long name": {
			Number: 1, Kind: KindProfile, ObjectName: strings.Repeat("long.", 50) + "a", UID: "u1", Generation: 1,
			Profile: profileSpec(t, `{schedulerName: short}`),
		},
	}
}

func TestDecodeReversesEncode(t *testing.T) {
	for name, want := range samples(t) {
		t.Run(name, func(t *testing.T) {
			object, err := Encode(&want, namespace)
			if err != nil {
				t.Fatal(err)
			}
			if len(object.Name) > 253 || len(object.Labels[LabelName]) > 63 {
				t.Errorf("name %q, label %q", object.Name, object.Labels[LabelName])
			}
			controller := true
			owner := []metav1.OwnerReference{{APIVersion: "livesched.io/v1alpha1", Kind: want.Kind,
				Name: want.ObjectName, UID: want.UID, Controller: &controller}}
			if diff := cmp.Diff(owner, object.OwnerReferences); diff != "" || object.Namespace != namespace {
				t.Errorf("namespace %s, owners: %s", object.Namespace, diff)
			}
			got, err := Decode(object)
			if err != nil {
				t.Fatal(err)
			}
			want.Name = object.Name
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheHistoryLimitIsNotPartOfARevision(t *testing.T) {
	r := samples(t)["a profile on a policy"]
	r.Profile.RevisionHistoryLimit, r.Policy.Spec.RevisionHistoryLimit = ptr.To[int32](3), ptr.To[int32](4)
	object, err := Encode(&r, namespace)
	if err != nil || strings.Contains(string(object.Data.Raw), "revisionHistoryLimit") {
		t.Errorf("%v: %s", err, object.Data.Raw)
	}
	if *r.Profile.RevisionHistoryLimit != 3 {
		t.Error("the spec that was given has been changed")
	}
}

func TestABrokenRevisionIsAnError(t *testing.T) {
	for name, test := range map[string]struct {
		breaks func(*appsv1.ControllerRevision)
		words  string
	}{
		"no UID": {func(o *appsv1.ControllerRevision) { delete(o.Labels, LabelUID) }, LabelUID},
		"no generation": {func(o *appsv1.ControllerRevision) { delete(o.Annotations, AnnotationGeneration) },
			AnnotationGeneration},
		"a generation of 0": {func(o *appsv1.ControllerRevision) { o.Annotations[AnnotationGeneration] = "0" },
			AnnotationGeneration},
		"no policy's generation": {
			func(o *appsv1.ControllerRevision) { o.Annotations[AnnotationPolicyGeneration] = "x" },
			AnnotationPolicyGeneration},
		"another kind": {func(o *appsv1.ControllerRevision) { o.Labels[LabelKind] = KindPolicy },
			"an extra one"},
		"another name":         {func(o *appsv1.ControllerRevision) { o.Labels[LabelName] = "yours" }, LabelName},
		"no data":              {func(o *appsv1.ControllerRevision) { o.Data.Raw = nil }, "data"},
		"data that is no JSON": {func(o *appsv1.ControllerRevision) { o.Data.Raw = o.Data.Raw[:30] }, "data"},
		"no items": {func(o *appsv1.ControllerRevision) {
			o.Data.Raw = []byte(`{"apiVersion":"v1","kind":"List","items":[]}`)
		}, "no manifest"},
		"an item of another kind": {replaces(`"kind":"SchedulingPolicy"`, `"kind":"Secret"`), "Secret"},
		"two profiles": {replaces(`"kind":"SchedulingPolicy"`, `"kind":"SchedulerProfile"`),
			"unknown field"},
		"another version":       {replaces(`livesched.io/v1alpha1`, `livesched.io/v2`), "livesched.io/v2"},
		"a field of the future": {replaces(`"podMaxBackoff"`, `"podMaxPatience"`), "podMaxPatience"},
		"a field twice":         {replaces(`"podMaxBackoff"`, `"podMaxBackoff":"1s","podMaxBackoff"`), "duplicate"},
	} {
		t.Run(name, func(t *testing.T) {
			r := samples(t)["a profile on a policy"]
			object, err := Encode(&r, namespace)
			if err != nil {
				t.Fatal(err)
			}
			test.breaks(object)
			if got, err := Decode(object); err == nil || !strings.Contains(err.Error(), test.words) {
				t.Errorf("decoded %+v, %v", got, err)
			}
		})
	}
}

func replaces(a, b string) func(*appsv1.ControllerRevision) {
	return func(o *appsv1.ControllerRevision) { o.Data.Raw = []byte(strings.ReplaceAll(string(o.Data.Raw), a, b)) }
}

func FuzzDecode(f *testing.F) {
	for _, r := range samples(f) {
		object, err := Encode(&r, namespace)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(object.Data.Raw, r.Kind, "mine", "7", "4")
	}
	f.Add([]byte(`{"items":[null,[],{"kind":"SchedulerProfile"}]}`), "", "", "-1", "")
	f.Fuzz(func(t *testing.T, data []byte, kind, name, generation, policyGeneration string) {
		object := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Name:   "r",
				Labels: map[string]string{LabelKind: kind, LabelName: name, LabelUID: "u"},
				Annotations: map[string]string{AnnotationGeneration: generation,
					AnnotationPolicyGeneration: policyGeneration},
			},
			Data: runtime.RawExtension{Raw: data},
		}
		first, err := Decode(object)
		if err != nil {
			return
		}
		again, err := Encode(first, namespace)
		if err != nil {
			return // the API server would have rejected it, such as arguments that are not an object
		}
		second, err := Decode(again)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, data, again.Data.Raw)
		}
		a, errA := content(first)
		b, errB := content(second)
		if a != b || errA != nil || errB != nil {
			t.Fatalf("%v, %v\n%s\n%s", errA, errB, a, b)
		}
	})
}

func TestListReturnsTheRevisionsOfOneObjectInOrder(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	// The fake client does not page: the pages are cut here.
	pages := 0
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			o := client.ListOptions{}
			o.ApplyOptions(opts)
			if o.Limit <= 0 {
				t.Error("listed without a limit")
			}
			if err := c.List(ctx, l, opts...); err != nil {
				return err
			}
			items := l.(*appsv1.ControllerRevisionList)
			pages++
			half := len(items.Items) / 2
			if o.Continue == "" {
				items.Items, items.Continue = items.Items[:half], "next"
			} else {
				items.Items, items.Continue = items.Items[half:], ""
			}
			return nil
		},
	})
	add := func(kind, name string, uid types.UID, number int64) {
		r := Revision{Kind: kind, ObjectName: name, UID: uid, Number: number, Generation: number,
			Profile: &v1alpha1.SchedulerProfileSpec{PercentageOfNodesToScore: ptr.To(int32(number))}}
		if kind == KindPolicy {
			r.Policy, r.Profile = &Policy{Name: name,
				Spec: v1alpha1.SchedulingPolicySpec{Parallelism: ptr.To(int32(number))}}, nil
		}
		object, err := Encode(&r, namespace)
		if err != nil {
			t.Fatal(err)
		}
		builder.WithObjects(object)
	}
	for _, number := range []int64{10, 2, 9} {
		add(KindProfile, "mine", "new", number)
	}
	add(KindProfile, "mine", "old", 5)
	add(KindProfile, "yours", "other", 1)
	add(KindPolicy, "mine", "policy", 1)
	builder.WithObjects(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: "of-a-statefulset"}, Revision: 1})
	builder.WithObjects(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "broken",
		Labels: map[string]string{LabelKind: KindProfile, LabelName: "mine"}}})
	c := builder.Build()

	got, err := List(t.Context(), c, namespace, KindProfile, "mine")
	if err != nil || numbers(got) != "[2 5 9 10]" || numbers(Of(got, "new")) != "[2 9 10]" || pages != 2 {
		t.Errorf("%v of %d pages, %v", numbers(got), pages, err)
	}
	var undecodable []string
	got, err = ListAll(t.Context(), c, namespace,
		func(o *appsv1.ControllerRevision, err error) { undecodable = append(undecodable, o.Name) })
	if err != nil || len(got) != 6 || fmt.Sprint(undecodable) != "[broken]" {
		t.Errorf("%v, undecodable %v, %v", numbers(got), undecodable, err)
	}
}

func numbers(revisions []Revision) string {
	all := []int64{}
	for _, r := range revisions {
		all = append(all, r.Number)
	}
	return fmt.Sprint(all)
}

func TestRevisionsOfOneNumberAreSortedByAge(t *testing.T) {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	revisions := []Revision{{Name: "b", Number: 1, Created: day.Add(time.Hour)}, {Name: "c", Number: 1, Created: day},
		{Name: "a", Number: 2, Created: day}}
	Sort(revisions)
	if revisions[0].Name != "c" || revisions[2].Name != "a" {
		t.Errorf("%+v", revisions)
	}
}
