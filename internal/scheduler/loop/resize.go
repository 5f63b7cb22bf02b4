// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/binding"
)

// fits is the reason of the plugin DeferredPodScheduling for a resize that needs no victims.
const fits = "pod resize fits, waiting for Kubelet actuation"

// resizes reports whether the pod is on its node, and in the queue because its resize is deferred.
func (c *cycle) resizes() bool { return c.pod.Pod.Spec.NodeName != "" }

// resizeFits returns the status of an attempt at a deferred resize. If the resize fits, the pod
// waits for its kubelet: there is nothing to assume, to reserve or to bind. It is as if the plugin
// DeferredPodScheduling refused it on Permit. NodeResourcesFit also counts as a plugin that refused
// it, because its events tell when the resize may not fit any more.
func resizeFits(pod *corev1.Pod, status *fwk.Status) *fwk.Status {
	if !status.IsSuccess() {
		return status
	}
	waits := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fits).WithPlugin(names.DeferredPodScheduling)
	status = binding.Refused(pod, pod.Spec.NodeName, waits)
	if fitError := (*schedframework.FitError)(nil); errors.As(status.AsError(), &fitError) {
		fitError.Diagnosis.UnschedulablePlugins.Insert(names.NodeResourcesFit)
	}
	return status
}
