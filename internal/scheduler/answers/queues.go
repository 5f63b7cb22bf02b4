// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Queues implements apiserving.Answers. It reads counters, so its cost does not depend on the
// number of pods. The queue of a replica that does not lead has the same pods, but none of them has
// been tried.
func (a *Answers) Queues() ([]v1alpha1.Queue, error) {
	if !a.Leading.Load() {
		return nil, apierrors.NewServiceUnavailable("this replica does not schedule pods: another one leads")
	}
	pending := a.Queue.PendingByProfile()
	queues := []v1alpha1.Queue{}
	for p := range a.Profiles.Current().All() {
		name := p.Config.SchedulerName
		of := pending[name]
		queues = append(queues, v1alpha1.Queue{
			Profile: p.Config.Name, SchedulerName: name, Active: int32(of.Active), Backoff: int32(of.Backoff),
			Unschedulable: int32(of.Unschedulable), Gated: int32(of.Gated),
		})
	}
	return queues, nil
}
