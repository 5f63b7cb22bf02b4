// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"
	"testing"

	"github.com/livesched/livesched/internal/scheduler/resolve"
)

func TestChangesAreTheProfilesThatDiffer(t *testing.T) {
	of := func(revision string) *resolve.Profile { return &resolve.Profile{Revision: revision} }
	before := &resolve.Resolution{Profiles: map[string]*resolve.Profile{"same": of("1"), "changed": of("1"),
		"removed": of("1")}}
	after := &resolve.Resolution{Profiles: map[string]*resolve.Profile{"same": of("1"), "changed": of("2"),
		"added": of("1")}}
	changes := Changes(before, after, nil)
	var names []string
	for name := range changes {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"added", "changed", "removed"}) || changes["removed"] != nil ||
		changes["changed"].Revision != "2" {
		t.Errorf("got %v", changes)
	}
}
