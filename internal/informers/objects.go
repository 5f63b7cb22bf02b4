// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Objects returns the objects that the informer of a kind has now, in no order, and the resource
// version of its latest event. It returns nothing if no scope has asked for the informer, or if it
// has not synced. The objects are those of the informer, and must not be changed.
func (s *Source) Objects(gvk schema.GroupVersionKind) (objects []any, resourceVersion string) {
	s.mu.Lock()
	shared := s.shared[kind{gvk, typedForm}]
	if shared == nil || shared.informer == nil || !shared.informer.HasSynced() {
		s.mu.Unlock()
		return nil, ""
	}
	informer := shared.informer
	s.mu.Unlock()
	return informer.GetStore().List(), informer.LastSyncResourceVersion()
}
