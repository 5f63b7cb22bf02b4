// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import "github.com/livesched/livesched/api/v1alpha1"

// Queues returns the number of pending pods of each profile, by scheduler name. It reads counters,
// so its cost does not depend on the number of pods. On a replica that does not lead, all pods that
// may be tried are active: only the leader pops them. Ready must be closed.
func (s *Scheduler) Queues() []v1alpha1.Queue {
	pending := s.parts.queue.PendingByProfile()
	queues := []v1alpha1.Queue{}
	for p := range s.store.Current().All() {
		name := p.Config.SchedulerName
		of := pending[name]
		queues = append(queues, v1alpha1.Queue{
			Profile: p.Config.Name, SchedulerName: name, Active: int32(of.Active), Backoff: int32(of.Backoff),
			Unschedulable: int32(of.Unschedulable), Gated: int32(of.Gated),
		})
	}
	return queues
}
