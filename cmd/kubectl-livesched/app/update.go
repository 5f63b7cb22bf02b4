// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// update stores an object that was read before, with the spec that set gives it. It fails if the
// spec has changed since. Other changes, such as changes of the status by livesched, do not
// matter: then it retries.
func (r *rollback) update(ctx context.Context, object client.Object, set func()) error {
	uid, generation := object.GetUID(), object.GetGeneration()
	for {
		set()
		if r.dryRun == dryRunClient {
			return nil
		}
		err := r.client.Update(ctx, object)
		if !apierrors.IsConflict(err) {
			return err
		}
		key := client.ObjectKeyFromObject(object)
		reflect.ValueOf(object).Elem().SetZero() // fields that are absent now would stay
		if err := r.client.Get(ctx, key, object); err != nil {
			return err
		}
		if object.GetUID() != uid || object.GetGeneration() != generation {
			return fmt.Errorf("the spec of %q has changed in the meantime: check the change and try again", object.GetName())
		}
	}
}

// create stores a new object.
func (r *rollback) create(ctx context.Context, object client.Object) error {
	if r.dryRun == dryRunClient {
		return nil
	}
	return r.client.Create(ctx, object)
}
