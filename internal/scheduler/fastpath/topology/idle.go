// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// LetsAll implements Tracker.
func (s *spread) LetsAll() bool { return len(s.hard) == 0 }

// LetsAll implements Tracker.
func (a *affinity) LetsAll() bool {
	for _, x := range a.anti {
		if !x.hostile.empty() {
			return false
		}
	}
	for _, x := range a.axes {
		if !x.guarded.empty() {
			return false
		}
	}
	return len(a.required) == 0
}

// Idle implements Tracker. It is true if the default constraints have no series to apply to.
func (s *spread) Idle() bool { return len(s.hard)+len(s.soft) == 0 }

// Idle implements Tracker.
func (a *affinity) Idle() bool {
	for _, x := range a.axes {
		if !x.hostile.empty() || !x.wanted.empty() {
			return false
		}
	}
	return a.LetsAll()
}
