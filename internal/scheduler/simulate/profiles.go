// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Changes returns the profiles that a change of objects changes, by scheduler name, with nil for a
// profile that is removed. It compares what the objects resolve to before and after the change.
// Profiles that do not differ are left to what runs, which may be a last good spec. A shadow among
// the objects takes the place of the profile that it follows.
func Changes(before, after *resolve.Resolution, objects []v1alpha1.SchedulerProfile) map[string]*resolve.Profile {
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
	for i := range objects {
		result := after.ProfileResults[objects[i].Name]
		if shadow := after.ByID(result.ID()); shadow != nil && shadow.Shadow != nil {
			instead := *shadow
			instead.Shadow = nil
			changes[shadow.SchedulerName] = &instead
		}
	}
	return changes
}
