// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
)

// manifest returns an object as a user writes it: a name and a spec in YAML.
func manifest(kind, name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if strings.TrimSpace(spec) != "" {
		object.Object["spec"] = parse(spec)
	}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	object.SetName(name)
	return object
}

// parse decodes YAML as kubectl does: integers stay integers.
func parse(text string) map[string]any {
	GinkgoHelper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	Expect(err).NotTo(HaveOccurred())
	var parsed map[string]any
	Expect(utiljson.Unmarshal(raw, &parsed)).To(Succeed())
	return parsed
}

func profile(name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	return manifest("SchedulerProfile", name, spec)
}

func policy(name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	return manifest("SchedulingPolicy", name, spec)
}

// create creates the object as kubectl does, with strict field validation, and deletes it when the
// spec ends.
func create(ctx context.Context, object client.Object) error {
	err := k8s.Create(ctx, object, client.FieldValidation("Strict"))
	if err == nil {
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(k8s.Delete(ctx, object))).To(Succeed())
		})
	}
	return err
}

// stored returns the object as the API server has stored it.
func stored(ctx context.Context, object *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	read := &unstructured.Unstructured{}
	read.SetGroupVersionKind(object.GroupVersionKind())
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(object), read)).To(Succeed())
	return read
}

// specOf returns the spec of an object as JSON.
func specOf(object *unstructured.Unstructured) string {
	GinkgoHelper()
	spec, err := json.Marshal(object.Object["spec"])
	Expect(err).NotTo(HaveOccurred())
	return string(spec)
}

// table lists a resource as kubectl get does. It returns the names of the columns and the cells of
// each row.
func table(ctx context.Context, resource string) (columns []string, rows [][]string) {
	GinkgoHelper()
	transport, err := rest.HTTPClientFor(restConfig)
	Expect(err).NotTo(HaveOccurred())
	server, _, err := rest.DefaultServerUrlFor(restConfig)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		server.JoinPath("apis", v1alpha1.GroupVersion.String(), resource).String(), nil)
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := transport.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(response.Body.Close()).To(Succeed()) }()
	var answer metav1.Table
	Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
	for _, column := range answer.ColumnDefinitions {
		columns = append(columns, column.Name)
	}
	for _, row := range answer.Rows {
		var cells []string
		for _, cell := range row.Cells {
			cells = append(cells, fmt.Sprint(cell))
		}
		rows = append(rows, cells)
	}
	return columns, rows
}
