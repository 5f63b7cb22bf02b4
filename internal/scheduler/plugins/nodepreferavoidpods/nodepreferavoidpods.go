// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodepreferavoidpods is the plugin NodePreferAvoidPods, which kube-scheduler had up to
// 1.22: it keeps the pods of a ReplicaSet or ReplicationController away from nodes whose annotation
// scheduler.alpha.kubernetes.io/preferAvoidPods names that controller. It implements the priority
// NodePreferAvoidPodsPriority of the legacy Policy API.
package nodepreferavoidpods

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/plugins/args"
)

// Name of the plugin.
const Name = "NodePreferAvoidPods"

// NodePreferAvoidPods is the plugin. It has no state and takes no arguments.
type NodePreferAvoidPods struct{}

var _ fwk.ScorePlugin = NodePreferAvoidPods{}

// CheckArgs refuses arguments.
func CheckArgs(object runtime.Object) error { return args.Decode(object, &struct{}{}) }

// New is the plugin's factory.
func New(_ context.Context, object runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	if err := CheckArgs(object); err != nil {
		return nil, err
	}
	return NodePreferAvoidPods{}, nil
}

// Name implements fwk.Plugin.
func (NodePreferAvoidPods) Name() string { return Name }

// Score returns 0 for a node that prefers to avoid the pod's controller, fwk.MaxScore for all
// others. An annotation that cannot be parsed is ignored.
func (NodePreferAvoidPods) Score(_ context.Context, _ fwk.CycleState, pod *corev1.Pod,
	nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	controller := metav1.GetControllerOf(pod)
	if controller == nil || controller.Kind != "ReplicaSet" && controller.Kind != "ReplicationController" {
		return fwk.MaxScore, nil
	}
	avoids, err := corev1helpers.GetAvoidPodsFromNodeAnnotations(nodeInfo.Node().Annotations)
	if err != nil {
		return fwk.MaxScore, nil
	}
	for _, avoid := range avoids.PreferAvoidPods {
		named := avoid.PodSignature.PodController
		if named != nil && named.Kind == controller.Kind && named.UID == controller.UID {
			return 0, nil
		}
	}
	return fwk.MaxScore, nil
}

// NodeLocalKey returns the key that the plugin's result depends on, for the fast path (see
// fastpath.NodeLocal): the pod's controller.
func (NodePreferAvoidPods) NodeLocalKey(pod *corev1.Pod) (string, bool) {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil || controller.Kind != "ReplicaSet" && controller.Kind != "ReplicationController" {
		return "", true
	}
	return controller.Kind + "/" + string(controller.UID), true
}

// ScoreExtensions implements fwk.ScorePlugin: Score returns normalised scores.
func (NodePreferAvoidPods) ScoreExtensions() fwk.ScoreExtensions { return nil }
