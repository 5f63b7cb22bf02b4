// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

// pollInterval is how often the status of an object is read while it is waited for.
const pollInterval = 200 * time.Millisecond

// awaitProgrammed waits, if that is wanted, until the present generation of an object decides, and
// says so.
func (r *rollback) awaitProgrammed(ctx context.Context, object client.Object) error {
	if !r.wait || r.dryRun != dryRunNone {
		return nil
	}
	generation := object.GetGeneration()
	var last *metav1.Condition
	err := wait.PollUntilContextTimeout(ctx, pollInterval, r.timeout, true, func(ctx context.Context) (bool, error) {
		if err := r.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return false, err
		}
		conditions := conditionsOf(object)
		accepted := meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted)
		if accepted != nil && accepted.ObservedGeneration >= generation && accepted.Status == metav1.ConditionFalse {
			return false, fmt.Errorf("it is not accepted (%s): %s", accepted.Reason, accepted.Message)
		}
		last = meta.FindStatusCondition(conditions, v1alpha1.ConditionProgrammed)
		return last != nil && last.ObservedGeneration >= generation && last.Status == metav1.ConditionTrue, nil
	})
	switch {
	case err == nil:
		r.say("it decides: %s", last.Message)
		return nil
	case !wait.Interrupted(err):
		return err
	case last == nil:
		return fmt.Errorf("it does not decide after %v: livesched has not looked at it: does it run?", r.timeout)
	case last.ObservedGeneration < generation:
		return fmt.Errorf("it does not decide after %v: livesched has not looked at generation %d yet: does it run?", r.timeout, generation)
	}
	return fmt.Errorf("it does not decide after %v (%s): %s", r.timeout, last.Reason, last.Message)
}

func conditionsOf(object client.Object) []metav1.Condition {
	switch object := object.(type) {
	case *v1alpha1.SchedulerProfile:
		return object.Status.Conditions
	case *v1alpha1.SchedulingPolicy:
		return object.Status.Conditions
	}
	return nil
}
