// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/preemption"
)

// The parts of an Environment whose instances schedule no pods: forks and shadows.

// NoQueue takes the place of the queue, and moves nothing.
type NoQueue struct{}

// Activate implements fwk.PodActivator.
func (NoQueue) Activate(klog.Logger, map[string]*corev1.Pod) {}

// Ungate implements preemption.Queue.
func (NoQueue) Ungate(klog.Logger, types.UID, string) {}

// RetryLater implements preemption.Queue.
func (NoQueue) RetryLater(klog.Logger, types.UID) {}

// NoEvents is a recorder that writes nothing.
type NoEvents struct{}

// NewNoEvents returns the recorder for a scheduler name.
func NewNoEvents(string) events.EventRecorderLogger { return NoEvents{} }

// Eventf implements events.EventRecorder.
func (NoEvents) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// WithLogger implements events.EventRecorderLogger.
func (n NoEvents) WithLogger(klog.Logger) events.EventRecorderLogger { return n }

// fixedNominator shows the nominations of the queue, and changes none.
type fixedNominator struct{ nominator }

type nominator interface {
	fwk.PodNominator
	preemption.Nominator
}

// AddNominatedPod implements fwk.PodNominator.
func (fixedNominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}

// DeleteNominatedPodIfExists implements fwk.PodNominator.
func (fixedNominator) DeleteNominatedPodIfExists(*corev1.Pod) {}

// UpdateNominatedPod implements fwk.PodNominator.
func (fixedNominator) UpdateNominatedPod(klog.Logger, *corev1.Pod, fwk.PodInfo) {}

// NoSources deliver no cluster events.
type NoSources struct{}

// Require implements EventSources.
func (NoSources) Require(context.Context, []fwk.EventResource) (func(), error) {
	return func() {}, nil
}

// Missing implements EventSources.
func (NoSources) Missing([]fwk.EventResource) []schema.GroupVersionKind { return nil }
