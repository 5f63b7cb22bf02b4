// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	compbasemetrics "k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// instance holds what is kept for one instance of a profile: its classes and rows.
type instance struct {
	*Plan
	classes     map[string]*class
	locals      map[string]*localRows
	eligibility map[string]*eligibilityRows

	filterDuration, scoreDuration, preFilterDuration compbasemetrics.ObserverMetric
}

func newInstance(plan *Plan) *instance {
	duration := func(point string) compbasemetrics.ObserverMetric {
		return schedmetrics.FrameworkExtensionPointDuration.WithLabelValues(point, fwk.Success.String(), plan.framework.ProfileName())
	}
	i := &instance{
		Plan: plan, classes: map[string]*class{}, locals: map[string]*localRows{}, eligibility: map[string]*eligibilityRows{},
	}
	if !plan.scalar {
		i.preFilterDuration, i.filterDuration, i.scoreDuration =
			duration(schedmetrics.PreFilter), duration(schedmetrics.Filter), duration(schedmetrics.Score)
	}
	return i
}

// isClosed reports whether the instance is closed.
func (i *instance) isClosed() bool {
	select {
	case <-i.closed:
		return true
	default:
		return false
	}
}
