// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// bindByExtender lets an extender that binds, and is interested in the pod, bind it instead of the
// Bind plugins. If an ignorable extender fails, the plugins bind the pod.
func (c *Cycle) bindByExtender(ctx context.Context) (taken bool, status *fwk.Status) {
	if c.Extenders == nil {
		return false, nil
	}
	pod := c.Pod.Pod
	for _, extender := range c.Extenders(ctx) {
		if !extender.IsBinder() || !extender.IsInterested(pod) {
			continue
		}
		err := extender.Bind(&corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: c.NodeName},
		})
		if err != nil && extender.IsIgnorable() {
			klog.FromContext(ctx).Info("Binding without an extender that failed and may be ignored",
				"extender", extender.Name(), "pod", klog.KObj(pod), "node", c.NodeName, "err", err)
			continue
		}
		return true, fwk.AsStatus(err)
	}
	return false, nil
}
