// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// eventUnreserved is the event of ReservationEnded. No plugin registers for it.
var eventUnreserved = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: reservationEnded}

// ReservationEnded reports that a pod no longer holds the volumes and devices that plugins had
// reserved for it in memory. Other pods may use them now, but plugins register for changes of
// claims and volumes at the API server, where nothing has changed. So the waiting pods with such
// claims are retried. In kube-scheduler they wait for another event, or five minutes.
func (q *Queue) ReservationEnded(logger klog.Logger, pod *corev1.Pod) {
	volumes, devices := podfields.UsesVolumeClaims(pod), usesDevices(pod)
	if !volumes && !devices {
		return
	}
	q.Move(logger, eventUnreserved, pod, nil, func(other *corev1.Pod) bool {
		return other.UID != pod.UID && (volumes && podfields.UsesVolumeClaims(other) || devices && usesDevices(other))
	})
}

// usesDevices counts extended resources, which may be devices, too.
func usesDevices(pod *corev1.Pod) bool {
	return podfields.UsesDevices(pod, schedutil.IsDRAExtendedResourceName)
}
