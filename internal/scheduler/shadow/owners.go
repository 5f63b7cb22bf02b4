// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/rollout/evidence"
)

// owners compares two revisions by owners of pods: an owner counts once, with the first decision in
// which the two differ. The zero value has seen none.
type owners struct {
	// differs holds whether the two have differed for an owner that was compared.
	differs map[string]bool
	paired  evidence.Paired
}

// add counts a comparison of a pod of an owner.
func (o *owners) add(owner string, v verdict) {
	if o.differs == nil {
		o.differs = map[string]bool{}
	}
	differed, known := o.differs[owner]
	if differed || !known && len(o.differs) >= rollout.MaxOwners {
		return
	}
	o.differs[owner] = v.mismatch()
	switch v {
	case activeOnlyFits:
		o.paired.Differing++
		o.paired.Against++
	case shadowOnlyFits:
		o.paired.Differing++
	}
}

// Observed adds what a shadow of a revision has shown since it was built, by its
// resolve.Profile.ID, to what was observed of its roll-out.
func (c *Comparer) Observed(id, revision string, to *rollout.Observed) {
	current := c.cfg.Profiles.Current().ByID(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts[id]
	if counts == nil || counts.shadow != current || current.Config.Revision != revision {
		return
	}
	to.Compared += len(counts.owners.differs)
	if to.Paired == nil {
		to.Paired = map[rollout.Metric]evidence.Paired{}
	}
	to.Paired[rollout.Unschedulable] = counts.owners.paired
}
