// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
)

// afterRollback describes the side that a dry run would bring about.
const afterRollback = "after the rollback"

// showsDifferences returns whether the command prints what would change.
func (r *rollback) showsDifferences() bool { return r.dryRun != dryRunNone && r.output == "" }

// present returns the side of the profile before the rollback, if it is going to be printed: the
// active revision or, if that is not stored, the applied spec.
func (r *rollback) present(ctx context.Context) (side, error) {
	if !r.showsDifferences() {
		return side{}, nil
	}
	if from, err := r.differ.active(ctx, r.past); err == nil {
		return from, nil
	}
	return r.differ.applied(ctx, r.past)
}

// showProfile prints in a dry run what the rollback would change for the profile, which builds on
// policy then.
func (r *rollback) showProfile(from side, policy *v1alpha1.SchedulingPolicy) error {
	if !r.showsDifferences() {
		return nil
	}
	to, err := r.differ.resolve(afterRollback, r.past.profile, policy)
	if err != nil {
		return err
	}
	d := newDifference(history.KindProfile, r.past.profile.Name, from, to)
	return d.print(r.Out, r.ErrOut)
}

// showPolicy prints in a dry run what the rollback would change in a policy. It did not exist if
// before is nil.
func (r *rollback) showPolicy(before, after *v1alpha1.SchedulingPolicy) error {
	if !r.showsDifferences() {
		return nil
	}
	from := side{label: "does not exist"}
	if before != nil {
		from = policySide(fmt.Sprintf("applied (generation %d)", before.Generation), before)
	}
	d := newDifference(history.KindPolicy, after.Name, from, policySide(afterRollback, after))
	return d.print(r.Out, r.ErrOut)
}

// printObjects prints the objects that have, or would have, the spec of the revision: with -o name
// their names, and otherwise one object or a list, as kubectl does.
func (r *rollback) printObjects() error {
	if r.output == "" {
		return nil
	}
	var objects []any
	for _, object := range r.restored {
		kind := history.KindProfile
		if _, isPolicy := object.(*v1alpha1.SchedulingPolicy); isPolicy {
			kind = history.KindPolicy
		}
		if r.output == formatName {
			_, _ = fmt.Fprintf(r.Out, "%s.%s/%s\n", strings.ToLower(kind), v1alpha1.GroupVersion.Group, object.GetName())
			continue
		}
		objects = append(objects, printable(object, kind))
	}
	switch {
	case r.output == formatName:
		return nil
	case len(objects) == 1:
		return writeAs(r.Out, r.output, objects[0])
	}
	return writeAs(r.Out, r.output, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
}

// printable returns an object with its kind and without managed fields.
func printable(object client.Object, kind string) client.Object {
	object = object.DeepCopyObject().(client.Object)
	object.SetManagedFields(nil)
	object.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	return object
}
