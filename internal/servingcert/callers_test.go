// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"encoding/base64"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
)

const apiServiceName = "v1alpha1.visibility.livesched.io"

func TestAnAPIServiceGetsTheAuthorityAndKeepsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": map[string]any{"name": apiServiceName},
			"spec":     map[string]any{"group": "visibility.livesched.io", "groupPriorityMinimum": int64(100)},
		}}
		objects := objects()[:1]
		client := fake.NewClientset(objects...)
		services := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{apiServices: "APIServiceList"}, service)
		k := startKeeperFor(t, client, APIService{Client: client, Dynamic: services, Name: apiServiceName})
		bundle := func() string {
			got, err := services.Resource(apiServices).Get(t.Context(), apiServiceName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if priority, _, _ := unstructured.NestedInt64(got.Object, "spec", "groupPriorityMinimum"); priority != 100 {
				t.Errorf("the priority becomes %d", priority)
			}
			text, _, _ := unstructured.NestedString(got.Object, "spec", "caBundle")
			return text
		}
		authority := func() string {
			secret, err := client.CoreV1().Secrets("ns").Get(t.Context(), secretName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return base64.StdEncoding.EncodeToString(secret.Data[SecretCA])
		}
		pass(time.Minute)
		if got := bundle(); got == "" || got != authority() {
			t.Errorf("the APIService has %q", got)
		}
		if _, err := k.GetCertificate(nil); err != nil {
			t.Error(err)
		}
		wiped, err := services.Resource(apiServices).Get(t.Context(), apiServiceName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(wiped.Object, "spec", "caBundle")
		if _, err := services.Resource(apiServices).Update(t.Context(), wiped, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if got := bundle(); got == "" || got != authority() {
			t.Errorf("after it was wiped, it has %q", got)
		}
		writes := func() (n int) {
			for _, action := range services.Actions() {
				if action.Matches("update", apiServices.Resource) {
					n++
				}
			}
			return n
		}
		// The informer may see a write late, and then another one follows.
		before := writes()
		pass(24 * time.Hour)
		if after := writes(); after != before {
			t.Errorf("%d more writes without a change", after-before)
		}
	})
}
