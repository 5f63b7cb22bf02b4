// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

// Objects returns the objects that the informer of a kind has now, in no order, and the resource
// version of its latest event. The version may be empty for a moment after the informer has synced:
// the reflector stores its first list before it sets the version. Objects returns nothing if no
// scope has asked for the informer, or if it has not synced. The objects belong to the informer:
// do not change them. They are unstructured if scopes have asked by Scope.Dynamic only.
func (s *Source) Objects(gvk schema.GroupVersionKind) (objects []any, resourceVersion string) {
	informer := s.synced(gvk)
	if informer == nil {
		return nil, ""
	}
	return informer.GetStore().List(), informer.LastSyncResourceVersion()
}

// synced returns the informer of a kind that has synced, the typed one if there are several.
func (s *Source) synced(gvk schema.GroupVersionKind) toolscache.SharedIndexInformer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range [...]form{typedForm, unstructuredForm} {
		if shared := s.shared[kind{gvk, of}]; shared != nil && shared.informer != nil && shared.informer.HasSynced() {
			return shared.informer
		}
	}
	return nil
}
