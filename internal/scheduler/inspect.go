// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Cache is what the scheduler knows of the cluster, to be looked at once Ready is closed. Only the
// scheduler changes it.
func (s *Scheduler) Cache() *cache.Cache { return s.cache }

// Queue is the scheduling queue, to be looked at once Ready is closed. Only the scheduler changes
// it.
func (s *Scheduler) Queue() *queue.Queue { return s.queue }
