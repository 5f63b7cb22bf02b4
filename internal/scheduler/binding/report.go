// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Refused turns a plugin's refusal of a chosen node, on Reserve or Permit, into the error of a pod
// that fits on no node, so that its message and its retries are the same. Other failures pass
// unchanged.
func Refused(pod *corev1.Pod, nodeName string, status *fwk.Status) *fwk.Status {
	if !status.IsRejected() {
		return status
	}
	fitError := &schedframework.FitError{
		NumAllNodes: 1,
		Pod:         pod,
		Diagnosis:   schedframework.Diagnosis{NodeToStatus: schedframework.NewDefaultNodeToStatus()},
	}
	fitError.Diagnosis.NodeToStatus.Set(nodeName, status)
	fitError.Diagnosis.AddPluginStatus(status)
	return fwk.NewStatus(status.Code()).WithError(fitError)
}

// observe records kube-scheduler's metrics of a bound pod.
func observe(c *Cycle) {
	schedmetrics.PodScheduled(c.Framework.ProfileName(), schedmetrics.SinceInSeconds(c.Start))
	schedmetrics.PodSchedulingAttempts.Observe(float64(c.Pod.Attempts))
	if first := c.Pod.InitialAttemptTimestamp; first != nil {
		schedmetrics.PodSchedulingSLIDuration.WithLabelValues(attempts(c.Pod.Attempts)).
			Observe(schedmetrics.SinceInSeconds(*first))
	}
	if c.Pod.WasFlushedFromUnschedulable {
		schedmetrics.PodScheduledAfterFlush.Inc()
	}
}

// attempts is the metric label of a number of attempts, capped to bound the number of series.
func attempts(n int) string {
	if n >= 15 {
		return "15+"
	}
	return strconv.Itoa(n)
}
