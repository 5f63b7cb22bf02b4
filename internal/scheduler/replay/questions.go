// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/simulate"
)

// Simulate compares the configuration in the snapshot with the spec, and sets the status.
func (s *State) Simulate(ctx context.Context, simulation *v1alpha1.Simulation) error {
	request, err := simulate.Parse(simulation)
	if err != nil {
		return err
	}
	if request.Changes, err = s.Changes(simulation.Spec.Profiles, simulation.Spec.Policies); err != nil {
		return err
	}
	request.Pending = s.snapshot.Pending
	f, err := s.Fork(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	status, err := simulate.Run(ctx, f, request)
	if err != nil {
		return err
	}
	simulation.Status, simulation.Status.Time = *status, metav1.NewTime(s.snapshot.Header.Time)
	return nil
}

// suggestFor is how long changes that may help are tried. No scheduler shares the processors, so
// there is time for more of them than livesched has.
const suggestFor = 2 * time.Second

// Explain explains why a pod of the snapshot is pending.
func (s *State) Explain(ctx context.Context, pod *corev1.Pod) (*v1alpha1.PodExplanation, error) {
	in := explain.Pending{Pod: pod, Group: s.Group(pod), Now: s.snapshot.Header.Time, SuggestFor: suggestFor}
	for _, nomination := range s.snapshot.Nominations {
		if nomination.Pod == pod.UID {
			in.NominatedNode = nomination.Node
		}
	}
	f, err := s.Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	explanation, err := explain.Explain(ctx, f, in)
	if err != nil {
		return nil, err
	}
	return explanation.PodExplanation, nil
}
