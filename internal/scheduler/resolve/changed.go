// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"maps"
	"slices"
)

// Changed returns the names of the SchedulerProfiles that are accepted before and after a change,
// and decide differently or order the queue differently after it.
func Changed(before, after *Resolution) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(before.ProfileResults)) {
		was, is := before.accepted(name), after.accepted(name)
		if was != nil && is != nil && (was.Revision != is.Revision || was.QueueSort != is.QueueSort) {
			names = append(names, name)
		}
	}
	return names
}

// accepted returns what an accepted SchedulerProfile resolves to, nil if it is not accepted.
func (r *Resolution) accepted(name string) *Profile {
	if result := r.ProfileResults[name]; result.Accepted {
		return r.ByID(result.ID())
	}
	return nil
}
