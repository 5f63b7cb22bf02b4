// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/history"
)

// afterRollback describes the side that a dry run would bring about.
const afterRollback = "after the rollback"

// showsDifferences returns whether the command prints what would change.
func (r *rollback) showsDifferences() bool { return r.dryRun != dryRunNone && r.output == "" }

// present returns the side of the profile before the rollback, if it is going to be printed: the
// active revision or, if that is not stored, the applied spec.
func (r *rollback) present(ctx context.Context) (print.Side, error) {
	if !r.showsDifferences() {
		return print.Side{}, nil
	}
	if from, err := r.differ.active(ctx, r.past); err == nil {
		return from, nil
	}
	return r.differ.applied(ctx, r.past)
}

// showProfile prints in a dry run what the rollback would change for the profile, which builds on
// policy then.
func (r *rollback) showProfile(from print.Side, policy *v1alpha1.SchedulingPolicy) error {
	if !r.showsDifferences() {
		return nil
	}
	to, err := r.differ.resolve(afterRollback, r.past.profile, policy)
	if err != nil {
		return err
	}
	d := print.NewDifference(history.KindProfile, r.past.profile.Name, from, to)
	return d.Print(r.Out, r.ErrOut)
}

// showPolicy prints in a dry run what the rollback would change in a policy. It did not exist if
// before is nil.
func (r *rollback) showPolicy(before, after *v1alpha1.SchedulingPolicy) error {
	if !r.showsDifferences() {
		return nil
	}
	from := print.Side{Label: "does not exist"}
	if before != nil {
		from = policySide(fmt.Sprintf("applied (generation %d)", before.Generation), before)
	}
	d := print.NewDifference(history.KindPolicy, after.Name, from, policySide(afterRollback, after))
	return d.Print(r.Out, r.ErrOut)
}
