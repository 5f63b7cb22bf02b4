// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

// duringTrial is added to the number of changes of a fork that is made during a trial.
const duringTrial = 1 << 62

// BeginTrial begins a trial of the scheduling loop: until EndTrial, it hides pods, and assumes
// others, to see what would fit. In the end it shows and forgets them, so that all is as it was,
// and what it did does not count as changes. Changes by others do.
//
// The number of changes of a fork that is made in between is far above that of the cache: the fork
// may have pods that are assumed for the trial.
func (c *Cache) BeginTrial() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trial = true
}

// EndTrial ends a trial. If a pod that was assumed in it was not forgotten, because it was
// confirmed or deleted in the meantime, this counts as one change.
func (c *Cache) EndTrial() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trial = false
	if c.tried != 0 {
		c.changes++
	}
	c.tried = 0
}

// countAssumedLocked counts that a pod is assumed. It reports whether this is for a trial.
func (c *Cache) countAssumedLocked() (tried bool) {
	if !c.trial {
		c.changes++
		return false
	}
	c.tried++
	return true
}

// countForgottenLocked counts that an assumed pod is forgotten.
func (c *Cache) countForgottenLocked(state podState) {
	if !c.trial || !state.tried {
		c.changes++
		return
	}
	c.tried--
}

// countHiddenLocked counts that a pod is hidden or shown.
func (c *Cache) countHiddenLocked() {
	if !c.trial {
		c.changes++
	}
}
