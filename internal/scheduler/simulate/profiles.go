// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Changes returns the profiles that a change of objects changes, by scheduler name, with nil for a
// profile that is removed. It compares what the objects resolve to before and after the change.
// Profiles that do not differ are left to what runs, which may be a last good spec.
func Changes(before, after *resolve.Resolution) map[string]*resolve.Profile {
	changes := map[string]*resolve.Profile{}
	for name, now := range before.Profiles {
		if then := after.Profiles[name]; then == nil || then.Revision != now.Revision {
			changes[name] = then
		}
	}
	for name, then := range after.Profiles {
		if before.Profiles[name] == nil {
			changes[name] = then
		}
	}
	return changes
}
