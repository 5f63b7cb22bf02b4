// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Sources is what the plugins of a profile read besides the pod. One does for all the classes of a profile's
// generation. It belongs to the goroutine of the scheduling loop.
type Sources struct {
	snapshot *cache.Snapshot
	factory  informers.SharedInformerFactory
	features feature.Features
}

// NewSources returns the sources of a profile: the snapshot that decisions are made on, the informers that the
// profile's plugins got from their handle, which have synced, and the feature gates that they were made with.
func NewSources(snapshot *cache.Snapshot, factory informers.SharedInformerFactory, features feature.Features) *Sources {
	return &Sources{snapshot: snapshot, factory: factory, features: features}
}
