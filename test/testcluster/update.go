// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patience is the back-off for retry.RetryOnConflict. Other clients, livesched among them, may
// conflict more often than the retries of client-go's own back-offs allow.
var Patience = wait.Backoff{Duration: 10 * time.Millisecond, Jitter: 1, Steps: 1000}

// Update reads an object, changes it and writes it, and repeats that after each conflict.
func Update[T client.Object](ctx context.Context, c client.Client, object T, change func(T)) error {
	return retry.RetryOnConflict(Patience, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return c.Update(ctx, object)
	})
}
