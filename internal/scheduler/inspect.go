// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Cache returns the scheduler's view of the cluster, which callers must only read. Ready must be
// closed. It is for end-to-end suites, which compare it with what the API server has.
func (s *Scheduler) Cache() *cache.Cache { return s.parts.cache }

// Decisions returns the log of the decisions that this replica has made, nil if none are recorded.
// Ready must be closed.
func (s *Scheduler) Decisions() *decisionlog.Log { return s.parts.loop.Decisions }

// Queue returns the scheduling queue, which callers must only read. Ready must be closed. It is for
// end-to-end suites and for benchmarks of reloads, which wait until the queue is empty.
func (s *Scheduler) Queue() *queue.Queue { return s.parts.queue }
