// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"fmt"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/livesched/livesched/test/testcluster"
)

const installer = client.FieldOwner("installer")

var _ = Describe("The manifests of config", func() {
	DescribeTable("are applied from top to bottom, as `kubectl apply --server-side` does:", func(ctx context.Context,
		dir string) {
		objects := kustomized(dir)
		DeferCleanup(uninstall, objects)
		namespaces := map[string]bool{"kube-system": true}
		versions := map[string]string{}
		for _, object := range objects {
			if object.GetKind() == "Namespace" {
				namespaces[object.GetName()] = true
			}
			if in := object.GetNamespace(); in != "" {
				Expect(namespaces).To(HaveKey(in), "%s %s comes before its namespace", object.GetKind(),
					object.GetName())
			}
			versions[nameOf(object)] = version(apply(ctx, object))
		}

		By("being known in full: a field that the API server does not know is an error")
		unknown := deploymentOf(objects)
		Expect(unstructured.SetNestedField(unknown.Object, true, "spec", "template", "spec", "unknown")).To(Succeed())
		Expect(k8s.Apply(ctx, client.ApplyConfigurationFromUnstructured(unknown), installer, client.DryRunAll)).
			To(MatchError(ContainSubstring("field not declared in schema")))

		By("establishing the CRDs")
		Eventually(func(g Gomega) {
			for _, name := range []string{"schedulerprofiles.livesched.io", "schedulingpolicies.livesched.io"} {
				crd := &unstructured.Unstructured{}
				crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
				g.Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, crd)).To(Succeed())
				conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
				g.Expect(err).NotTo(HaveOccurred())
				for _, condition := range []string{"Established", "NamesAccepted"} {
					g.Expect(conditions).
						To(ContainElement(And(HaveKeyWithValue("type", condition), HaveKeyWithValue("status", "True"))))
				}
			}
		}).WithContext(ctx).Should(Succeed())

		By("changing nothing when they are applied again")
		for _, object := range objects {
			if object.GetKind() == "APIService" {
				continue // the API server writes its status again and again
			}
			Expect(version(apply(ctx, object))).To(Equal(versions[nameOf(object)]), nameOf(object))
		}

		By("having pods that the namespace admits")
		var deployment appsv1.Deployment
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(deploymentOf(objects).Object, &deployment)).
			To(Succeed())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: "pod"},
			Spec: deployment.Spec.Template.Spec}
		Expect(k8s.Create(ctx, pod, client.DryRunAll)).To(Succeed())
		pod.Spec.Containers[0].SecurityContext = nil
		Expect(k8s.Create(ctx, pod, client.DryRunAll)).
			To(MatchError(ContainSubstring(`violates PodSecurity "restricted`)))
	},
		Entry("config/default, which is install.yaml of a release", "default"),
		Entry("config/with-webhook", "with-webhook"),
		Entry("config/with-visibility-api", "with-visibility-api"),
	)
})

// kustomized returns the objects of a directory of config, in the order in which `kustomize build`
// writes them.
func kustomized(dir string) (objects []*unstructured.Unstructured) {
	GinkgoHelper()
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	resources, err := krusty.MakeKustomizer(options).
		Run(filesys.MakeFsOnDisk(), filepath.Join(testcluster.Root(), "config", dir))
	Expect(err).NotTo(HaveOccurred())
	for _, resource := range resources.Resources() {
		text, err := resource.MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		object := &unstructured.Unstructured{}
		Expect(object.UnmarshalJSON(text)).To(Succeed())
		objects = append(objects, object)
	}
	return objects
}

// apply applies an object, and returns what the API server has then.
func apply(ctx context.Context, object *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	applied := object.DeepCopy()
	Expect(k8s.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), installer, client.ForceOwnership)).
		To(Succeed(), nameOf(object))
	return applied
}

// version changes with each change of what is applied. The status of objects with a generation may
// change besides.
func version(object *unstructured.Unstructured) string {
	if generation, found, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", "generation"); found {
		return fmt.Sprint("generation ", generation)
	}
	return "version " + object.GetResourceVersion()
}

func nameOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

func deploymentOf(objects []*unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			return object.DeepCopy()
		}
	}
	Fail("there is no Deployment")
	return nil
}

// uninstall deletes what was applied, except what the other specs need: the CRDs, and the namespace
// without its labels.
func uninstall(ctx context.Context, objects []*unstructured.Unstructured) {
	for _, object := range objects {
		switch object.GetKind() {
		case "CustomResourceDefinition":
		case "Namespace":
			object.SetLabels(nil)
			apply(ctx, object)
		default:
			if err := k8s.Delete(ctx, object); !apierrors.IsNotFound(err) { // it was not reached
				Expect(err).NotTo(HaveOccurred())
			}
		}
	}
}
