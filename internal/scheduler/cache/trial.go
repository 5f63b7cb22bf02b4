// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

// BeginTrial begins a trial of the scheduling loop: until EndTrial, it hides pods, and assumes
// others, to see what would fit. In the end it shows and forgets them, so that all is as it was.
//
// Only snapshots of this cache show the trial. What it does is no change (Snapshot.Changes), and a
// fork that is made in between has the hidden pods, but not those that are assumed for the trial.
// A pod of the trial that the API server confirms in the meantime is one change, and stays.
func (c *Cache) BeginTrial() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trial = true
}

// EndTrial ends a trial.
func (c *Cache) EndTrial() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trial = false
}

// countUnlessTriedLocked counts that a pod is assumed or removed, unless it was assumed for a
// trial.
func (c *Cache) countUnlessTriedLocked(state podState) {
	if !state.tried {
		c.changes++
	}
}

// countHiddenLocked counts that a pod is hidden or shown.
func (c *Cache) countHiddenLocked() {
	if !c.trial {
		c.changes++
	}
}
