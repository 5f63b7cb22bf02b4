// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

const (
	// bindTimeout bounds the Bind plugins of one pod: their context ends. It is the time after
	// which an API server gives up a request by default. Extenders have timeouts of their own.
	bindTimeout = time.Minute
	// overdueAfter is when a call of Bind counts as overdue. A plugin that heeds its context
	// returns before.
	overdueAfter = bindTimeout + 5*time.Second
)

// assignInTime binds the pod. The context of the Bind plugins ends after bindTimeout. A call that
// goes on nevertheless cannot be ended, and the pod may still become bound: it keeps its room on
// the node, and its goroutine, but gives its place in Limit to another pod. So calls that hang hold
// up no other pod. PreBind has no timeout here: it holds no place, and may wait for a volume or a
// device as long as the arguments of VolumeBinding or the device allow.
func (b *Binder) assignInTime(ctx context.Context, c *Cycle, leave func()) *fwk.Status {
	reported := make(chan struct{})
	timer := time.AfterFunc(overdueAfter, func() {
		defer close(reported)
		metrics.BindCalls.WithLabelValues(metrics.BindCallOverdue).Inc()
		c.reportOverdue(ctx)
		leave()
	})
	defer func() {
		if !timer.Stop() {
			<-reported
			metrics.BindCalls.WithLabelValues(metrics.BindCallOverdue).Dec()
		}
	}()
	return c.assign(ctx)
}

// reportOverdue reports in the log and in an Event that the call of Bind has not returned.
func (c *Cycle) reportOverdue(ctx context.Context) {
	logger := klog.FromContext(ctx)
	pod := c.Pod.Pod
	logger.Error(nil,
		"A Bind plugin or an extender does not return; the pod keeps its room on the node, and other pods are bound",
		"pod", klog.KObj(pod), "node", c.NodeName, "after", overdueAfter)
	c.Recorder.WithLogger(logger).Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Binding",
		"binding to node %s has not ended after %v: a Bind plugin or an extender does not return", c.NodeName,
		overdueAfter)
}

// runBindPlugins runs the Bind plugins with a context that ends after bindTimeout.
func (c *Cycle) runBindPlugins(ctx context.Context) *fwk.Status {
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	status := c.Framework.RunBindPlugins(ctx, c.State, c.Pod.Pod, c.NodeName)
	switch {
	case status.IsSkip():
		return fwk.AsStatus(errNobodyBinds)
	case status.IsError() && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fwk.AsStatus(fmt.Errorf("not bound within %v: %w", bindTimeout, status.AsError()))
	}
	return status
}
