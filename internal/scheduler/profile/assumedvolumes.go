// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// assumedVolumes remembers what the volume binder has assumed for pods that are not bound yet,
// since the binder cannot list it: a fork assumes the same. The scheduling loop and binding cycles
// use it.
type assumedVolumes struct {
	// of holds an assumption by the *volumebinding.PodVolumes that a pod's scheduling cycle passes
	// on.
	of sync.Map
}

// assumption is what the binder was asked to assume.
type assumption struct {
	pod     *corev1.Pod
	node    string
	volumes volumebinding.PodVolumes
}

// assumeAgain makes another binder assume the same. What the API server has already confirmed, the
// binder knows from its informers: assuming it again fails, and need not succeed.
func (a *assumedVolumes) assumeAgain(logger klog.Logger, binder volumebinding.SchedulerVolumeBinder) {
	for _, value := range a.of.Range {
		as := value.(assumption)
		volumes := as.volumes
		if _, err := binder.AssumePodVolumes(logger, as.pod, as.node, &volumes); err != nil {
			logger.V(4).Info("The volumes of a pod are not assumed again", "pod", klog.KObj(as.pod), "err", err)
		}
	}
}

// copyOf returns the lists of volumes, which AssumePodVolumes replaces by those that it assumed.
func copyOf(volumes *volumebinding.PodVolumes) volumebinding.PodVolumes {
	return volumebinding.PodVolumes{
		StaticBindings:    slices.Clone(volumes.StaticBindings),
		DynamicProvisions: slices.Clone(volumes.DynamicProvisions),
	}
}
