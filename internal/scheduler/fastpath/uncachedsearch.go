// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"slices"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// nodeFilter runs plugins on the node in a slot.
type nodeFilter func(context.Context, cache.Slot) *fwk.Status

// uncachedSearch searches for nodes that the uncached plugins accept. Decisions reuse its memory
// one after the other. A search that may end early starts behind the nodes that the last one
// evaluated, so that all nodes are evaluated in turn.
type uncachedSearch struct {
	// next is the slot from which the next search that may end early starts.
	next   cache.Slot
	asked  []cache.Slot
	passed []bool
}

// run runs filter (nil: none) on the nodes, in parallel, until it accepts enough (0: on all). It
// returns the nodes that are accepted, and the number of nodes on which filter was not run.
func (s *uncachedSearch) run(
	ctx context.Context, parallelizer fwk.Parallelizer, nodes []cache.Slot, enough int, filter nodeFilter,
) (accepted []cache.Slot, unasked int, err error) {
	n, start := len(nodes), 0
	bounded := enough > 0 && enough < n
	if bounded {
		slices.Sort(nodes)
		start, _ = slices.BinarySearch(nodes, s.next)
		start %= n
	} else {
		enough = n
	}
	s.asked = append(append(s.asked[:0], nodes[start:]...), nodes[:start]...)
	accepted = nodes[:0]
	if filter == nil {
		s.asked = s.asked[:enough]
		accepted = append(accepted, s.asked...)
	} else {
		s.passed = resized(s.passed, n)
		search := parallelFilter{nodes: s.asked, enough: int32(enough), passed: s.passed, ask: filter}
		asked, err := search.run(ctx, parallelizer)
		if err != nil {
			return nodes, 0, err
		}
		for i, slot := range s.asked {
			if search.passed[i] {
				accepted = append(accepted, slot)
			}
		}
		s.asked = s.asked[:asked]
	}
	if bounded {
		s.next = s.asked[len(s.asked)-1] + 1
	}
	return accepted, n - len(s.asked), nil
}

// parallelFilter is one search. The searching goroutines share the fields from passed on.
type parallelFilter struct {
	nodes  []cache.Slot
	enough int32
	ask    nodeFilter

	passed       []bool // by position in nodes; each element is written by one goroutine
	found, asked atomic.Int32
	failure      atomic.Pointer[fwk.Status]
}

// run returns the number of nodes on which the filter was run.
func (s *parallelFilter) run(ctx context.Context, parallelizer fwk.Parallelizer) (int, error) {
	clear(s.passed)
	searchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	parallelizer.Until(searchCtx, len(s.nodes), func(i int) {
		status := s.ask(searchCtx, s.nodes[i])
		switch {
		case status.IsSuccess():
			// As on the scalar path, the search ends at the first node beyond enough.
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
		return 0, context.Cause(ctx) // the plugins did not run on all nodes
	}
	return int(s.asked.Load()), nil
}
