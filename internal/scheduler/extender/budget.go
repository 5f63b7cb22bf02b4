// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// cycleBudget bounds the time from the first call of a scheduling cycle to the end of its last one,
// since the scheduling of all other pods waits. It has room for two calls of the longest timeout.
const cycleBudget = 30 * time.Second

// errBudget is the cause with which the context of calls ends when the budget is spent.
var errBudget = fmt.Errorf("the extenders took longer than %v in one scheduling attempt", cycleBudget)

// budget is the budget of one scheduling cycle. It is safe for concurrent use: extenders score at
// the same time.
type budget struct {
	once sync.Once
	end  time.Time // set by the first call
}

type budgetKey struct{}

// WithBudget returns a context for one scheduling cycle, in which the calls of all extenders share
// a budget.
func WithBudget(ctx context.Context) context.Context {
	return context.WithValue(ctx, budgetKey{}, &budget{})
}

// withinBudget returns a context that ends with the budget of the cycle, if there is one.
func withinBudget(ctx context.Context) (context.Context, context.CancelFunc) {
	b, ok := ctx.Value(budgetKey{}).(*budget)
	if !ok {
		return context.WithCancel(ctx)
	}
	b.once.Do(func() { b.end = time.Now().Add(cycleBudget) })
	return context.WithDeadlineCause(ctx, b.end, errBudget)
}
