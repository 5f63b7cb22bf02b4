// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package noderesources

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/plugins/args"
)

// LimitsName is the name of the plugin that prefers nodes that could provide all that a pod's
// limits allow. kube-scheduler had it up to 1.18, behind a feature gate. It implements the priority
// ResourceLimitsPriority of the legacy Policy API.
const LimitsName = "NodeResourceLimits"

// Limits is the plugin. It has no state and takes no arguments.
type Limits struct{}

var _ fwk.ScorePlugin = Limits{}

// CheckLimitsArgs refuses arguments.
func CheckLimitsArgs(object runtime.Object) error { return args.Decode(object, &struct{}{}) }

// NewLimits is the plugin's factory.
func NewLimits(_ context.Context, object runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	if err := CheckLimitsArgs(object); err != nil {
		return nil, err
	}
	return Limits{}, nil
}

// Name implements fwk.Plugin.
func (Limits) Name() string { return LimitsName }

// Score returns 1 for a node whose allocatable cpu or memory is no less than the pod's limit, 0 for
// all others: enough to break a tie. It ignores what other pods use, and pods without limits.
func (Limits) Score(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	limits, allocatable := limitsOf(pod), nodeInfo.GetAllocatable()
	if within(limits.MilliCPU, allocatable.GetMilliCPU()) || within(limits.Memory, allocatable.GetMemory()) {
		return 1, nil
	}
	return 0, nil
}

// limitsOf returns the sum of the limits of the containers or, if that is greater, the greatest
// limit of the init containers.
func limitsOf(pod *corev1.Pod) *schedframework.Resource {
	limits := &schedframework.Resource{}
	for i := range pod.Spec.Containers {
		limits.Add(pod.Spec.Containers[i].Resources.Limits)
	}
	for i := range pod.Spec.InitContainers {
		limits.SetMaxResource(pod.Spec.InitContainers[i].Resources.Limits)
	}
	return limits
}

func within(limit, allocatable int64) bool {
	return limit != 0 && allocatable != 0 && limit <= allocatable
}

// ScoreExtensions implements fwk.ScorePlugin: Score returns normalised scores.
func (Limits) ScoreExtensions() fwk.ScoreExtensions { return nil }
