// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"sync"
	"testing"

	toolscache "k8s.io/client-go/tools/cache"
)

// TestHandlersRunOneAtATime calls two handlers in many goroutines. The race detector would see
// handlers that run at the same time.
func TestHandlersRunOneAtATime(t *testing.T) {
	var order inOrder
	events, active := 0, 0
	handle := func() {
		if active++; active > 1 {
			t.Error("two handlers run at the same time")
		}
		events++
		active--
	}
	plain := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { handle() }, UpdateFunc: func(any, any) { handle() }, DeleteFunc: func(any) { handle() },
	}
	var all sync.WaitGroup
	for _, handler := range []toolscache.ResourceEventHandler{order.handler(plain), order.handler(plain)} {
		for range 100 {
			all.Go(func() { handler.OnAdd("object", false) })
			all.Go(func() { handler.OnUpdate("object", "object") })
			all.Go(func() { handler.OnDelete("object") })
		}
	}
	all.Wait()
	if events != 600 {
		t.Errorf("%d of 600 events were handled", events)
	}
}
