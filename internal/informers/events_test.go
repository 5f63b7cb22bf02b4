// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"slices"
	"testing"

	toolscache "k8s.io/client-go/tools/cache"
)

func TestEventsArePassedOnAround(t *testing.T) {
	var log []string
	note := func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	inner := toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, initial bool) { note("add %v %v", object, initial) },
		UpdateFunc: func(before, after any) { note("update %v %v", before, after) },
		DeleteFunc: func(object any) { note("delete %v", Last(object)) },
	}
	handler := Around(inner, func(object any, handle func()) {
		note("before %v", Last(object))
		handle()
		note("after")
	})
	handler.OnAdd("a", true)
	handler.OnUpdate("a", "b")
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "b", Obj: "b"})
	want := []string{"before a", "add a true", "after", "before b", "update a b", "after", "before b", "delete b",
		"after"}
	if !slices.Equal(log, want) {
		t.Errorf("got %q, want %q", log, want)
	}
}
