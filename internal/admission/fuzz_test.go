// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// FuzzHandler posts random requests: the handler returns a response or an error, and never panics.
func FuzzHandler(f *testing.F) {
	f.Add(
		[]byte(
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"kind":"SchedulerProfile"},"operation":"CREATE","object":{"metadata":{"name":"p"}}}}`))
	f.Add(
		[]byte(
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u","kind":{"kind":"SchedulingPolicy"},"operation":"DELETE","oldObject":{"metadata":{"name":"p"}}}}`))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, body []byte) {
		v := newValidator(t, &objects{})
		// The handler turns a panic into HTTP 500, as any error, so look at the text.
		response, code, text := postRaw(t, v, body)
		if response == nil && code != http.StatusInternalServerError && code != http.StatusBadRequest {
			t.Fatalf("HTTP %d", code)
		}
		noPanic(t, text)
	})
}

// FuzzReview reviews random objects: an allowed object resolves as accepted on its own, and a
// denied one does not.
func FuzzReview(f *testing.F) {
	seeds, err := filepath.Glob(filepath.Join("..", "scheduler", "resolve", "testdata", "*", "*.in.yaml"))
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, seed := range seeds {
		for _, document := range documents(f, seed) {
			f.Add(document, true)
			f.Add(document, false)
		}
	}
	f.Fuzz(func(t *testing.T, object []byte, isProfile bool) {
		kind := "SchedulingPolicy"
		if isProfile {
			kind = "SchedulerProfile"
		}
		if !json.Valid(object) {
			return // the API server sends only valid JSON
		}
		request := &admissionv1.AdmissionRequest{
			UID: "u", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
			Kind: metav1.GroupVersionKind{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
				Kind: kind},
		}
		body, err := json.Marshal(
			admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1",
				Kind: "AdmissionReview"}, Request: request})
		if err != nil {
			return
		}
		v := newValidator(t, &objects{})
		response, _, text := postRaw(t, v, body)
		noPanic(t, text)
		if response == nil {
			return
		}
		in := resolve.Input{SecretsUnknown: true, AllowedHosts: v.AllowedHosts, Registered: v.Registered}
		var result resolve.Result
		var deleted bool
		if isProfile {
			var p v1alpha1.SchedulerProfile
			if err := utiljson.Unmarshal(object, &p); err != nil {
				t.Fatalf("a verdict on what cannot be read: %v", err)
			}
			in.Profiles, deleted = []v1alpha1.SchedulerProfile{p}, p.DeletionTimestamp != nil
			// The policy that the profile references may be applied later, and so may the profile
			// that it follows.
			in.Policies = []v1alpha1.SchedulingPolicy{{ObjectMeta: metav1.ObjectMeta{Name: p.Spec.PolicyRef.Name}}}
			if s := p.Spec.Shadow; s != nil && s.ProfileRef.Name != p.Name {
				followed := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: s.ProfileRef.Name}}
				in.Profiles = append(in.Profiles, followed)
			}
			result = resolve.Objects(in).ProfileResults[p.Name]
		} else {
			var p v1alpha1.SchedulingPolicy
			if err := utiljson.Unmarshal(object, &p); err != nil {
				t.Fatalf("a verdict on what cannot be read: %v", err)
			}
			in.Policies, deleted = []v1alpha1.SchedulingPolicy{p}, p.DeletionTimestamp != nil
			result = resolve.Objects(in).PolicyResults[p.Name]
		}
		if response.Allowed != result.Accepted && !deleted && !missesItsPolicy(result, in) {
			t.Fatalf("let through: %v; then: %s", response.Allowed, result.Message)
		}
	})
}

// missesItsPolicy reports whether all problems of a profile depend on its policy, which does not
// exist yet.
func missesItsPolicy(result resolve.Result, in resolve.Input) bool {
	if len(in.Profiles) == 0 || in.Profiles[0].Spec.PolicyRef.Name == "" ||
		in.Profiles[0].Spec.PolicyRef.Name == resolve.DefaultPolicyName {
		return false
	}
	for _, problem := range result.Problems {
		if problem.Path != "spec.plugins.bind" && problem.Path != "spec.plugins.queueSort.enabled" &&
			problem.Path != "spec.plugins.queueSort.disabled" &&
			problem.Path != "spec.plugins.queueSort.enabled[0].name" {
			return false
		}
	}
	return true
}

func documents(f *testing.F, file string) (all [][]byte) {
	f.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	for _, document := range splitYAML(text) {
		object, err := yaml.YAMLToJSON(document)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}
