// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// selectPodsOf makes a simulation decide the pods of the object that the arguments name, in its
// namespace.
func (o *simulateOptions) selectPodsOf(ctx context.Context, args []string, s *v1alpha1.Simulation) error {
	object, err := o.podObject(args, o.namespace)
	if err != nil {
		return err
	}
	name := strings.ToLower(object.GetKind()) + "/" + object.GetName()
	o.namespace = object.GetNamespace()
	s.Metadata.Namespace = o.namespace
	pods := &s.Spec.Pods
	if object.GetKind() == "Pod" {
		pods.Names = []string{object.GetName()}
		return nil
	}
	selector, selects, err := selectorOf(object)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case selects && pods.LabelSelector != "":
		pods.LabelSelector = selector.String() + "," + pods.LabelSelector
		return nil
	case selects:
		pods.LabelSelector = selector.String()
		return nil
	}
	if pods.Names, err = o.podsOf(ctx, object); err != nil {
		return err
	}
	switch {
	case len(pods.Names) == 0:
		return fmt.Errorf("%s in namespace %s has no pods", name, o.namespace)
	case len(pods.Names) > maxDecided:
		return fmt.Errorf("%s in namespace %s has %d pods, and a simulation decides at most %d: use --selector", name,
			o.namespace, len(pods.Names), maxDecided)
	}
	return nil
}

// podsOf returns the names of the pods that an object owns, directly or not, or that name it as
// their PodGroup.
func (o *simulateOptions) podsOf(ctx context.Context, object *unstructured.Unstructured) (names []string, err error) {
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	group := groupKeyOf(object)
	owners := &owners{client: c, target: object.GetUID(), known: map[types.UID]bool{}}
	err = eachPod(ctx, c, func(pod *corev1.Pod) (err error) {
		belongs := group != podgroup.Key{} && podgroup.KeyOf(pod) == group
		if !belongs {
			belongs, err = owners.has(ctx, pod.Namespace, pod.OwnerReferences, maxOwners)
		}
		if belongs {
			names = append(names, pod.Name)
		}
		return err
	}, client.InNamespace(object.GetNamespace()))
	return names, err
}

// groupKeyOf returns the key of the group that an object describes, the zero Key if it is no
// PodGroup.
func groupKeyOf(object *unstructured.Unstructured) podgroup.Key {
	key := podgroup.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	switch kind := object.GroupVersionKind(); {
	case kind == podgroup.Kind:
		key.Source = podgroup.SchedulerPlugins
	case podgroup.IsKubernetesKind(kind):
		key.Source = podgroup.Kubernetes
	default:
		return podgroup.Key{}
	}
	return key
}
