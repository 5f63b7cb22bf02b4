// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// restorable is an informer for an assume cache, which ignores updates to an earlier version. There
// are such updates when etcd is restored from a backup: the objects have their versions of that
// time. The cache gets them as the deletion of the later version and the addition of the earlier
// one.
type restorable struct{ assumecache.Informer }

// AddEventHandler implements assumecache.Informer.
func (i restorable) AddEventHandler(handler toolscache.ResourceEventHandler) (
	toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    handler.OnAdd,
		DeleteFunc: handler.OnDelete,
		UpdateFunc: func(before, after any) {
			if !IsEarlier(after, before) {
				handler.OnUpdate(before, after)
				return
			}
			handler.OnDelete(before)
			handler.OnAdd(after, false)
		},
	})
}

// IsEarlier reports whether an object has an earlier version than another one. It is false if that
// is not known.
func IsEarlier(object, other any) bool {
	a, errA := meta.Accessor(object)
	b, errB := meta.Accessor(other)
	if errA != nil || errB != nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}
