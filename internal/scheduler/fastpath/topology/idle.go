// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// LetsAll implements Tracker.
func (t *spread) LetsAll() bool { return len(t.hard) == 0 }

// LetsAll implements Tracker.
func (t *affinity) LetsAll() bool {
	for _, x := range t.anti {
		if !x.hostile.empty() {
			return false
		}
	}
	for _, x := range t.axes {
		if !x.guarded.empty() {
			return false
		}
	}
	return len(t.required) == 0
}

// Idle implements Tracker. It is true if the default constraints have no series to apply to.
func (t *spread) Idle() bool { return len(t.hard)+len(t.soft) == 0 }

// Idle implements Tracker.
func (t *affinity) Idle() bool {
	for _, x := range t.axes {
		if !x.hostile.empty() || !x.wanted.empty() {
			return false
		}
	}
	return t.LetsAll()
}
