// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fork

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// noQueue takes the place of the queue. A fork has no pending pods, so there is nothing to move.
type noQueue struct{}

func (noQueue) Activate(klog.Logger, map[string]*corev1.Pod) {}
func (noQueue) Ungate(klog.Logger, types.UID, string)        {}
func (noQueue) RetryLater(klog.Logger, types.UID)            {}

// noEvents is a recorder that writes nothing.
type noEvents struct{}

func (noEvents) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

func (n noEvents) WithLogger(klog.Logger) events.EventRecorderLogger { return n }

// noSources deliver no cluster events.
type noSources struct{}

func (noSources) Require(context.Context, []fwk.EventResource) (func(), error) {
	return func() {}, nil
}

func (noSources) Missing([]fwk.EventResource) []schema.GroupVersionKind { return nil }
