// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import "github.com/livesched/livesched/internal/scheduler/queue"

// Queue lets the specs look into the queue of a scheduler that is ready.
func (s *Scheduler) Queue() *queue.Queue { return s.queue }
