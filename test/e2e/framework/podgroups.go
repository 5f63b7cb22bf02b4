// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// podGroupClient is a client with which specs about the PodGroups of Kubernetes, in v1beta1, also
// run on API servers of 1.36, which serve v1alpha2 instead.
type podGroupClient struct{ client.Client }

// served returns a PodGroup in the version that the API server serves, or else the object itself.
func served(object client.Object) (_ client.Object, other *unstructured.Unstructured) {
	group, ok := object.(*schedulingv1beta1.PodGroup)
	if !ok || ServerAtLeast("1.37") {
		return object, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(group)
	if err != nil {
		panic(err) // it has only fields that can be converted
	}
	delete(fields, "status")
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion("scheduling.k8s.io/v1alpha2")
	u.SetKind("PodGroup")
	if mode := group.Spec.DisruptionMode; mode != nil {
		value := "Pod"
		if mode.All != nil {
			value = "PodGroup"
		}
		fields["spec"].(map[string]any)["disruptionMode"] = value
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
		if c := &read.Status.Conditions[i]; c.Type == "PodGroupScheduled" {
			c.Type = schedulingv1beta1.PodGroupInitiallyScheduled
		}
	}
	read.DeepCopyInto(object.(*schedulingv1beta1.PodGroup))
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

func (c podGroupClient) Patch(ctx context.Context, object client.Object, patch client.Patch,
	options ...client.PatchOption) error {
	inVersion, answer := served(object)
	if err := c.Client.Patch(ctx, inVersion, patch, options...); err != nil {
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
