// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"
	"testing"

	"github.com/livesched/livesched/internal/scheduler/config"
)

func TestChangesAreTheProfilesThatDiffer(t *testing.T) {
	of := func(revision string) *config.Profile { return &config.Profile{Revision: revision} }
	before := &config.Resolution{Profiles: map[string]*config.Profile{"same": of("1"), "changed": of("1"), "removed": of("1")}}
	after := &config.Resolution{Profiles: map[string]*config.Profile{"same": of("1"), "changed": of("2"), "added": of("1")}}
	changes := Changes(before, after)
	var names []string
	for name := range changes {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"added", "changed", "removed"}) || changes["removed"] != nil || changes["changed"].Revision != "2" {
		t.Errorf("got %v", changes)
	}
}
