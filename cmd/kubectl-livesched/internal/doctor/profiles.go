// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// profiles looks for profiles and policies whose present generation is not active.
func (e *examination) profiles(ctx context.Context) {
	var profiles v1alpha1.SchedulerProfileList
	if err := e.Client.List(ctx, &profiles); err != nil {
		e.unreadable(viewerPermits, "SchedulerProfiles", err)
		return
	}
	var policies v1alpha1.SchedulingPolicyList
	if err := e.Client.List(ctx, &policies); err != nil {
		e.unreadable(viewerPermits, "SchedulingPolicies", err)
		return
	}
	before := len(e.findings)
	for i := range profiles.Items {
		p := &profiles.Items[i]
		e.conditions("schedulerprofile/"+p.Name, p.Generation, p.Status.Conditions)
	}
	for i := range policies.Items {
		p := &policies.Items[i]
		e.conditions("schedulingpolicy/"+p.Name, p.Generation, p.Status.Conditions)
	}
	if len(e.findings) == before {
		e.add(OK, "", "all SchedulerProfiles (%d) and SchedulingPolicies (%d) are active", len(profiles.Items),
			len(policies.Items))
	}
}

// conditions reports an object whose generation is not active.
func (e *examination) conditions(object string, generation int64, conditions []metav1.Condition) {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil { // an older livesched does not write it
		ready = meta.FindStatusCondition(conditions, v1alpha1.ConditionProgrammed)
	}
	switch {
	case ready == nil || ready.ObservedGeneration < generation:
		e.add(Failed, "see that livesched runs, and its log", "livesched has not processed %s", object)
	case ready.Status == metav1.ConditionTrue:
	case ready.Reason == v1alpha1.ReasonSchedulerNameConflict || ready.Reason == v1alpha1.ReasonQueueSortConflict:
		e.add(Failed, "delete one of the two, or give it another scheduler name or queue sort",
			"%s is shadowed by another: %s", object, ready.Message)
	case ready.Reason == v1alpha1.ReasonRollingOut:
		e.add(OK, "", "%s is being rolled out: %s", object, ready.Message)
	case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled):
		e.add(Failed, "correct the spec; docs/reference/conditions.md explains the reason", "%s is rejected (%s): %s",
			object, ready.Reason, ready.Message)
	default:
		e.add(Warning, fmt.Sprintf("kubectl livesched status; docs/troubleshoot.md has what to do about %s",
			ready.Reason), "%s is not active (%s): %s", object, ready.Reason, ready.Message)
	}
}
