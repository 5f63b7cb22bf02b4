// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package domains

// Idle implements Cross: the default constraints may apply, but there is no series to apply them to.
func (t *spread) Idle() bool { return len(t.hard)+len(t.soft) == 0 }

// Idle implements Cross.
func (t *affinity) Idle() bool {
	if len(t.required) > 0 {
		return false
	}
	for _, x := range t.axes {
		if !x.hostile.empty() || !x.guarded.empty() || !x.wanted.empty() {
			return false
		}
	}
	return true
}
