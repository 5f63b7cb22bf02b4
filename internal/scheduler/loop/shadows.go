// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/shadow"
)

// compare lets the shadows of the profile decide, too, before anything follows from the decision,
// and returns how long that took. A decision that failed, a trial and one about a resize are not
// compared.
func (c *cycle) compare(ctx context.Context, pod *corev1.Pod, extenders []fwk.Extender, decision *algorithm.Decision,
	err error) time.Duration {
	if c.loop.Shadows == nil || !c.loop.Shadows.Wanted() || c.trial || c.resizes() {
		return 0
	}
	d := shadow.Decided{Profile: c.profile, Pod: pod, Node: decision.SuggestedHost}
	var fitError *schedframework.FitError
	switch {
	case errors.As(err, &fitError):
		d.Refusals = fitError.Diagnosis.NodeToStatus
	case err != nil && !errors.Is(err, algorithm.ErrNoNodesAvailable):
		return 0
	}
	// A nominated node is looked at first, and alone if the pod fits it. The pods of a group share
	// the devices that were chosen for the first of them.
	d.Incomparable = pod.Status.NominatedNodeName != "" || c.groupState != nil && len(pod.Spec.ResourceClaims) > 0
	for _, e := range extenders {
		d.Incomparable = d.Incomparable || (e.IsFilter() || e.IsPrioritizer()) && e.IsInterested(pod)
	}
	return c.loop.Shadows.Compare(ctx, d)
}
