// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"sync"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// followedVolumes follows CSINodes, VolumeAttachments and CSIStorageCapacities for the fast path of
// all profiles, and of forks.
type followedVolumes struct {
	scope *informers.Scope // lives as long as the process

	once    sync.Once
	changes *fastpath.VolumeChanges // nil if the scope is closed
}

// of returns the changes for a profile with these plugins, nil if it does not need them.
func (f *followedVolumes) of(plugins *framework.Plugins) *fastpath.VolumeChanges {
	if !fastpath.AnswersForClaims(plugins.Filter) {
		return nil
	}
	return f.follow()
}

// follow returns the changes, and adds the handlers if it is the first call.
func (f *followedVolumes) follow() *fastpath.VolumeChanges {
	f.once.Do(func() {
		storage, changes := f.scope.Storage().V1(), fastpath.NewVolumeChanges()
		if _, err := storage.CSINodes().Informer().AddEventHandler(changes); err != nil {
			return
		}
		if _, err := storage.VolumeAttachments().Informer().AddEventHandler(changes); err != nil {
			return
		}
		if _, err := storage.CSIStorageCapacities().Informer().AddEventHandler(changes); err != nil {
			return
		}
		f.changes = changes
	})
	return f.changes
}
