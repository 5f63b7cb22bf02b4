// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// NewTransform returns what informers do to an object before they keep it, so that a large cluster
// fits into memory. It may be called from any goroutine, and again with what it has returned.
//
//   - managed fields go, of any kind: nothing here reads them, and they are a large part of a pod;
//   - bound pods lose what only kubelets read, if trimBoundPods is set. docs/operations.md lists
//     it. A pod that waits for a node is kept whole, since plugins and extenders may go by anything
//     in it;
//   - bound pods and nodes share what is equal in them (see sharer).
//
// Objects are changed in place, which is right for an informer: nobody has seen them before.
func NewTransform(trimBoundPods bool) toolscache.TransformFunc {
	strip := ctrlcache.TransformStripManagedFields()
	shared := newSharer(maxShared, trimBoundPods)
	return func(obj any) (any, error) {
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
				trimPod(obj)
			}
			shared.sharePod(obj)
		case *corev1.Node:
			shared.shareNode(obj)
		}
		return obj, nil
	}
}
