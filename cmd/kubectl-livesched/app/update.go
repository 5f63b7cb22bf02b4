// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

// update stores an object that was read before, with the spec that set gives it. It fails if the
// spec has changed since. Other changes, such as those that livesched makes to the status, do not
// matter: then it retries.
func (r *rollback) update(ctx context.Context, object client.Object, set func()) error {
	uid, generation := object.GetUID(), object.GetGeneration()
	for {
		set()
		if r.dryRun == dryRunClient {
			return nil
		}
		var options []client.UpdateOption
		if r.dryRun == dryRunServer {
			options = append(options, client.DryRunAll)
		}
		err := r.client.Update(ctx, object, options...)
		if !apierrors.IsConflict(err) {
			return err
		}
		if err := r.read(ctx, object); err != nil {
			return err
		}
		if object.GetUID() != uid || object.GetGeneration() != generation {
			return fmt.Errorf("the spec of %q has changed in the meantime: check the change and try again", object.GetName())
		}
	}
}

// create stores a new object.
func (r *rollback) create(ctx context.Context, object client.Object) error {
	switch r.dryRun {
	case dryRunClient:
		return nil
	case dryRunServer:
		return r.client.Create(ctx, object, client.DryRunAll)
	}
	return r.client.Create(ctx, object)
}

// read replaces an object by its current state.
func (r *rollback) read(ctx context.Context, object client.Object) error {
	key := client.ObjectKeyFromObject(object)
	switch object := object.(type) {
	case *v1alpha1.SchedulerProfile:
		*object = v1alpha1.SchedulerProfile{}
	case *v1alpha1.SchedulingPolicy:
		*object = v1alpha1.SchedulingPolicy{}
	}
	return r.client.Get(ctx, key, object)
}
