// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestReadOnlySendsNothingThatWrites(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`))
	}))
	defer server.Close()
	original := &rest.Config{Host: server.URL}
	client, err := kubernetes.NewForConfig(ReadOnly(original))
	if err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods("default")
	if _, err := pods.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a list: %v", err)
	}
	for verb, err := range map[string]error{
		"delete":     pods.Delete(t.Context(), "p", metav1.DeleteOptions{}),
		"collection": pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}),
		"upgrade": client.CoreV1().RESTClient().Get().AbsPath("/exec").SetHeader("Upgrade", "websocket").
			Do(t.Context()).Error(),
		"post": client.CoreV1().RESTClient().Post().AbsPath("/p").Body([]byte("{}")).Do(t.Context()).Error(),
		"put":  client.CoreV1().RESTClient().Put().AbsPath("/p").Body([]byte("{}")).Do(t.Context()).Error(),
	} {
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: got %v", verb, err)
		}
	}
	if len(seen) != 1 || seen[0] != http.MethodGet {
		t.Errorf("the server got %v", seen)
	}
	if original.WrapTransport != nil {
		t.Error("the original configuration has changed")
	}
}
