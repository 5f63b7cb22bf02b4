// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
)

// placement has the node of each pod of a recipe, by the name of its Deployment or Job.
type placement map[string][]*corev1.Node

// apply applies the objects of a recipe, as `kubectl apply` does, and returns the nodes of its
// pods when all of them are bound.
func apply(ctx context.Context, manifest string) placement {
	GinkgoHelper()
	strict := client.WithFieldValidation(K8s, metav1.FieldValidationStrict)
	pods := map[string][]*corev1.Pod{}
	for _, object := range objectsIn(manifest) {
		if object.GetKind() != "SchedulerProfile" && object.GetKind() != "SchedulingPolicy" {
			object.SetNamespace(metav1.NamespaceDefault)
		}
		Expect(strict.Create(ctx, object)).To(Succeed())
		switch object.GetKind() {
		case "SchedulerProfile":
			ExpectProgrammed(ctx, object.GetName())
		case "Deployment":
			pods[object.GetName()] = podsOfDeployment(ctx, object)
		case "Job":
			pods[object.GetName()] = podsOfJob(ctx, object)
		}
	}
	Expect(pods).NotTo(BeEmpty(), "a recipe has a workload")
	placed := placement{}
	for name, pods := range pods {
		for _, pod := range pods {
			node := &corev1.Node{}
			Expect(K8s.Get(ctx, client.ObjectKey{Name: ExpectBound(ctx, pod)}, node)).To(Succeed())
			placed[name] = append(placed[name], node)
		}
	}
	return placed
}

// objectsIn returns the objects of a manifest, which are deleted at the end of the spec.
func objectsIn(manifest string) []*unstructured.Unstructured {
	GinkgoHelper()
	var all []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			break
		}
		Expect(err).NotTo(HaveOccurred())
		all = append(all, object)
	}
	DeferCleanup(func(ctx context.Context) {
		for _, object := range all {
			Expect(client.IgnoreNotFound(K8s.Delete(ctx, object,
				client.PropagationPolicy(metav1.DeletePropagationBackground)))).To(Succeed())
		}
	})
	return all
}

// podsOfDeployment creates the ReplicaSet and the pods of a Deployment: what spreads the pods of a
// workload looks for the selector of their ReplicaSet.
func podsOfDeployment(ctx context.Context, object *unstructured.Unstructured) []*corev1.Pod {
	GinkgoHelper()
	d := &appsv1.Deployment{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d)).To(Succeed())
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-1"},
		Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector,
			Template: d.Spec.Template},
	}
	CreateFor(ctx, set)
	return createPods(ctx, *d.Spec.Replicas, d.Spec.Template,
		metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID})
}

func podsOfJob(ctx context.Context, object *unstructured.Unstructured) []*corev1.Pod {
	GinkgoHelper()
	job := &batchv1.Job{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, job)).To(Succeed())
	return createPods(ctx, *job.Spec.Parallelism, job.Spec.Template,
		metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID})
}

func createPods(ctx context.Context, count int32, template corev1.PodTemplateSpec,
	owner metav1.OwnerReference) []*corev1.Pod {
	GinkgoHelper()
	owner.Controller = ptr.To(true)
	pods := make([]*corev1.Pod, 0, count)
	for i := range count {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = metav1.NamespaceDefault, fmt.Sprintf("%s-%d", owner.Name, i)
		pod.OwnerReferences = []metav1.OwnerReference{owner}
		Create(ctx, pod)
		pods = append(pods, pod)
	}
	return pods
}

// perValue counts the pods of a workload by the value that a label of their node has.
func (p placement) perValue(workload, label string) map[string]int {
	counts := map[string]int{}
	for _, node := range p[workload] {
		counts[node.Labels[label]]++
	}
	return counts
}

// perNode counts the pods of a workload by the name of their node.
func (p placement) perNode(workload string) map[string]int {
	return p.perValue(workload, corev1.LabelHostname)
}
