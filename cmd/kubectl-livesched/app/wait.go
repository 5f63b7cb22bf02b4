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

// pollInterval is the interval between two reads of an object's status while waiting for it.
const pollInterval = 200 * time.Millisecond

// awaitProgrammed waits, if --wait is set, until the current generation of an object is programmed,
// and reports it.
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
			return false, fmt.Errorf("not accepted (%s): %s", accepted.Reason, accepted.Message)
		}
		last = meta.FindStatusCondition(conditions, v1alpha1.ConditionProgrammed)
		return last != nil && last.ObservedGeneration >= generation && last.Status == metav1.ConditionTrue, nil
	})
	switch {
	case err == nil:
		r.say("programmed: %s", last.Message)
		return nil
	case !wait.Interrupted(err):
		return err
	case last == nil:
		return fmt.Errorf("not programmed after %v: livesched has not processed it: is livesched running?", r.timeout)
	case last.ObservedGeneration < generation:
		return fmt.Errorf(
			"not programmed after %v: livesched has not processed generation %d yet: is livesched running?", r.timeout,
			generation)
	}
	return fmt.Errorf("not programmed after %v (%s): %s", r.timeout, last.Reason, last.Message)
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
