// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import toolscache "k8s.io/client-go/tools/cache"

// Last returns the object of an event: of a deletion that was missed, its last known state.
func Last(object any) any {
	if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		return missed.Obj
	}
	return object
}

// Around returns a handler that passes each event on through around. around must call handle once.
// object is the object after the event, or the one that was deleted.
func Around(handler toolscache.ResourceEventHandler,
	around func(object any, handle func())) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			around(object, func() { handler.OnAdd(object, initial) })
		},
		UpdateFunc: func(before, after any) { around(after, func() { handler.OnUpdate(before, after) }) },
		DeleteFunc: func(object any) { around(object, func() { handler.OnDelete(object) }) },
	}
}
