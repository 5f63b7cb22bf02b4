// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// podGroupClient is a client with which specs about the PodGroups of Kubernetes, in v1alpha2, also
// run on API servers since 1.37, which serve v1beta1 instead.
type podGroupClient struct{ client.Client }

// served returns a PodGroup in the version that the API server serves, or else the object itself.
func served(object client.Object) (_ client.Object, other *unstructured.Unstructured) {
	group, ok := object.(*schedulingv1alpha2.PodGroup)
	if !ok || !ServerAtLeast("1.37") {
		return object, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(group)
	if err != nil {
		panic(err) // it has only fields that can be converted
	}
	delete(fields, "status")
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion("scheduling.k8s.io/v1beta1")
	u.SetKind("PodGroup")
	if mode := group.Spec.DisruptionMode; mode != nil {
		field := map[schedulingv1alpha2.DisruptionMode]string{
			schedulingv1alpha2.DisruptionModePod: "single", schedulingv1alpha2.DisruptionModePodGroup: "all",
		}[*mode]
		fields["spec"].(map[string]any)["disruptionMode"] = map[string]any{field: map[string]any{}}
	}
	return u, u
}

// readBack makes a PodGroup what the API server has answered.
func readBack(object client.Object, answer *unstructured.Unstructured) error {
	if answer == nil {
		return nil
	}
	read, err := podgroup.ReadKubernetes(answer)
	if err != nil {
		return err
	}
	for i := range read.Status.Conditions {
		if c := &read.Status.Conditions[i]; c.Type == "PodGroupInitiallyScheduled" {
			c.Type = schedulingv1alpha2.PodGroupScheduled
		}
	}
	read.DeepCopyInto(object.(*schedulingv1alpha2.PodGroup))
	return nil
}

func (c podGroupClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	inVersion, answer := served(object)
	if err := c.Client.Create(ctx, inVersion, options...); err != nil {
		return err
	}
	return readBack(object, answer)
}

func (c podGroupClient) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	options ...client.GetOption) error {
	inVersion, answer := served(object)
	if err := c.Client.Get(ctx, key, inVersion, options...); err != nil {
		return err
	}
	return readBack(object, answer)
}

func (c podGroupClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	inVersion, _ := served(object)
	return c.Client.Delete(ctx, inVersion, options...)
}

func (c podGroupClient) DeleteAllOf(ctx context.Context, object client.Object,
	options ...client.DeleteAllOfOption) error {
	inVersion, _ := served(object)
	return c.Client.DeleteAllOf(ctx, inVersion, options...)
}
