// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"runtime/debug"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
)

// Parallelizer spreads work over goroutines as kube-scheduler's does, with the same chunks and the
// same scheduler_goroutines metric. Unlike there, a panic of the work is raised again in the
// goroutine that called Until. So a plugin that spreads its work with the handle's parallelizer
// panics where the framework can recover.
type Parallelizer struct {
	parallelism int
	workers     parallelize.Parallelizer
}

var _ fwk.Parallelizer = Parallelizer{}

// NewParallelizer returns a parallelizer that uses at most the given number of goroutines at a
// time. A number below 1 means kube-scheduler's default, 16.
func NewParallelizer(parallelism int) Parallelizer {
	if parallelism < 1 {
		parallelism = parallelize.DefaultParallelism
	}
	return Parallelizer{parallelism: parallelism, workers: parallelize.NewParallelizer(parallelism)}
}

// Until calls work for 0 to pieces-1 and returns when all calls have returned. Once ctx has ended
// it makes no further calls. operation is a label of the metric.
func (p Parallelizer) Until(ctx context.Context, pieces int, work workqueue.DoWorkPieceFunc, operation string) {
	if pieces == 1 || p.parallelism == 1 {
		for i := 0; i < pieces && ctx.Err() == nil; i++ {
			work(i)
		}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first atomic.Pointer[workerPanic]
	p.workers.Until(ctx, pieces, func(i int) {
		defer func() {
			if value := recover(); value != nil {
				first.CompareAndSwap(nil, &workerPanic{value: value, stack: debug.Stack()})
				cancel()
			}
		}()
		work(i)
	}, operation)
	if caught := first.Load(); caught != nil {
		panic(caught)
	}
}
