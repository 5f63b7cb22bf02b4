// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

import (
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// maxParts limits what an interner remembers of each type: at most twice as much. That is more than
// there are workloads in most clusters of a million pods. Pods that are all different, for example
// in large annotations, take 16 MiB for each type of part in which they differ, and as much again
// for parts of deleted pods.
var maxParts = limits{values: 16 << 10, bytes: 8 << 20}

// NewTransform returns a transform function that reduces the memory that an object takes:
//
//   - It removes the managed fields of all objects but profiles and policies, whose revisions
//     record who changed them. Nothing else in livesched reads them, and they are a large part of a
//     pod.
//   - If trimBoundPods is set, it removes from bound pods the fields that only kubelets read;
//     docs/operate/tuning.md lists them. A pod that waits for a node stays whole, because plugins
//     and extenders may base their decision on any of its fields.
//   - It makes bound pods and nodes share equal parts.
//
// The function changes objects in place, so it must run before anything else reads the object, as
// an informer's transform does. It is safe for concurrent use, and it accepts its own results.
func NewTransform(trimBoundPods bool) toolscache.TransformFunc {
	strip := ctrlcache.TransformStripManagedFields()
	parts := newInterner(maxParts, trimBoundPods)
	return func(obj any) (any, error) {
		switch obj.(type) {
		case *v1alpha1.SchedulerProfile, *v1alpha1.SchedulingPolicy:
			return obj, nil
		}
		obj, err := strip(obj)
		if err != nil {
			return nil, err
		}
		switch obj := obj.(type) {
		case *corev1.Pod:
			if obj.Spec.NodeName == "" {
				break
			}
			if trimBoundPods {
				podfields.Drop(obj)
			}
			parts.internPod(obj)
		case *corev1.Node:
			parts.internNode(obj)
		}
		return obj, nil
	}
}
