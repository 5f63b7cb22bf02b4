// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// restSearch is one search for nodes that the rest lets pass. The fields from passed on are shared
// by the goroutines that search.
type restSearch struct {
	nodes  []cache.Slot
	enough int32
	ask    func(context.Context, cache.Slot) *fwk.Status

	passed       []bool // by position in nodes; each written by one goroutine
	found, asked atomic.Int32
	failure      atomic.Pointer[fwk.Status]
}

// run returns how many nodes were asked about.
func (s *restSearch) run(ctx context.Context, parallelizer fwk.Parallelizer) (int, error) {
	clear(s.passed)
	searchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	parallelizer.Until(searchCtx, len(s.nodes), func(i int) {
		status := s.ask(searchCtx, s.nodes[i])
		switch {
		case status.IsSuccess():
			// As on the scalar path, it is the first node too many that ends the search.
			if s.found.Add(1) > s.enough {
				cancel()
				return
			}
			s.passed[i] = true
		case !status.IsRejected():
			if s.found.Load() <= s.enough && s.failure.CompareAndSwap(nil, status) {
				cancel()
			}
			return
		}
		s.asked.Add(1)
	}, schedmetrics.Filter)
	if failure := s.failure.Load(); failure != nil {
		return 0, statusError(failure)
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx) // not all of them were asked about
	}
	return int(s.asked.Load()), nil
}
