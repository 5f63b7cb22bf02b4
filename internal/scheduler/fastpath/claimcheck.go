// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// claimCheck answers for VolumeBinding, VolumeZone and NodeVolumeLimits about the claims of one pod
// at a time. Decisions reuse its memory one after the other.
type claimCheck struct {
	claims
	// simple is true if the claims of the pod are all of the simple kind.
	simple     bool
	table      volumeTable
	capacities capacityTable
	// scorer computes the score of VolumeBinding, nil if it does not score.
	scorer *capacityScorer
	// The rest is set while the pod's nodes are judged. accepted are the nodes that the plugins are
	// known to accept. If all is true, they accept all nodes that the pod's rows do.
	accepted slotSet
	all      bool
	places   []placed
	byDriver []placedPair
	// found are the conditions of claims.static, claim by claim.
	found [][]placed
	// scores are the weighted scores of VolumeBinding for accepted nodes, by slot, if the claims
	// are reporting ones.
	scores []int64
}

// placedPair is a migratingAffinity that is compared with topology domains. nil: every node
// matches.
type placedPair struct {
	plugin        uint8
	otherwise, by *placed
}

// prepare reads the claims of a pod before its class is looked up. Without simple claims there are
// no rules.
func (c *claimCheck) prepare(plan *Plan, snapshot *cache.Snapshot, pod *corev1.Pod) {
	c.all, c.scorer = false, plan.capacityScorer
	// The plugins let pass the pods of deferred resizes.
	c.simple = plan.stores != nil && podfields.UsesVolumeClaims(pod) && !resourcehelper.IsPodResizeDeferred(pod) &&
		c.claims.read(plan.stores, snapshot, pod)
	if !c.simple {
		c.rules = volumeRules{c.rules.affinities[:0], c.rules.zones[:0]}
	}
}

// acceptAll determines whether the plugins accept all nodes that the rows do, and reports it.
func (c *claimCheck) acceptAll(rows *localRows) bool {
	if len(c.affinities)+len(c.migrating)+len(c.nodes)+len(c.static)+len(c.reporting)+len(c.drivers) > 0 ||
		c.volumes > manyVolumes {
		return false
	}
	c.table.sync(c.stores, c.snapshot)
	for _, slots := range c.table.tight.slots[:c.volumes] {
		for _, slot := range slots {
			if rows.verdict[slot] == fits {
				return false
			}
		}
	}
	c.all = true
	return true
}

// accepts reports whether the plugins are known to accept a node that was judged.
func (c *claimCheck) accepts(slot cache.Slot) bool { return c.all || c.accepted.has(slot) }

// judge returns the nodes that VolumeBinding is not known to refuse, and the number of those on
// which the plugins must be run. The plugins accept the others.
func (c *claimCheck) judge(nodes []cache.Slot) (kept []cache.Slot, unknown int) {
	c.table.sync(c.stores, c.snapshot)
	if c.reports() {
		c.capacities.sync(c.stores, c.snapshot)
		c.scores = resized(c.scores, c.snapshot.Slots())
		for i := range c.reporting {
			c.reporting[i].number = c.capacities.classOf(c.reporting[i].class)
		}
	}
	c.accepted.reset(c.snapshot.Slots())
	c.place()
	kept = nodes[:0]
	for _, slot := range nodes {
		if !c.match(slot) {
			continue
		}
		static, lacks := c.findStatic(slot)
		enough, scored := c.hasCapacity(slot)
		if lacks || !enough && !static {
			continue
		}
		kept = append(kept, slot)
		if scored && !static && c.withinLimits(slot) {
			c.accepted.add(slot)
		} else {
			unknown++
		}
	}
	return kept, unknown
}

// reports reports whether drivers report the capacity for the claims.
func (c *claimCheck) reports() bool { return len(c.reporting) > 0 }

// hasCapacity reports whether the drivers have room for all claims on a node. Their sizes are not
// added up, as VolumeBinding does not. scored is true if the score of the node is known; it is in
// scores then.
func (c *claimCheck) hasCapacity(slot cache.Slot) (enough, scored bool) {
	if !c.reports() {
		return true, true
	}
	for i := range c.demands {
		c.demands[i].capacity = -1
	}
	scored = true
	for i := range c.reporting {
		claim := &c.reporting[i]
		found := c.capacities.find(slot, claim.number, claim.size)
		if !found.enough {
			return false, false
		}
		demand := &c.demands[claim.of]
		scored = scored && found.capacity >= 0 && (demand.capacity < 0 || demand.capacity == found.capacity)
		demand.capacity = found.capacity
	}
	switch {
	case c.scorer == nil:
		c.scores[slot], scored = 0, true
	case c.scorer.of == nil:
		scored = false
	case scored:
		c.scores[slot] = c.scorer.score(c.demands)
	}
	return true, scored
}

// scoresNodes reports whether VolumeBinding may score nodes on which it was not run.
func (c *claimCheck) scoresNodes() bool { return c.scorer != nil && c.reports() }

// score returns the weighted score of VolumeBinding for a node on which it was not run.
func (c *claimCheck) score(slot cache.Slot) int64 {
	if !c.accepts(slot) {
		return 0
	}
	return c.scores[slot]
}

// place makes conditions on labels fast to compare.
func (c *claimCheck) place() {
	c.places, c.byDriver, c.found = c.places[:0], c.byDriver[:0], c.found[:0]
	for i := range c.affinities {
		c.places = append(c.places, c.affinities[i].place(c.snapshot))
	}
	for i := range c.static {
		of := make([]placed, 0, len(c.static[i].affinities))
		for j := range c.static[i].affinities {
			of = append(of, c.static[i].affinities[j].place(c.snapshot))
		}
		c.found = append(c.found, of)
	}
	of := func(a *volumeAffinity) *placed {
		if a == nil {
			return nil
		}
		p := a.place(c.snapshot)
		return &p
	}
	for _, m := range c.migrating {
		c.byDriver = append(c.byDriver, placedPair{m.plugin, of(m.otherwise), of(m.by)})
	}
}

// match reports whether the volumes can be mounted on a node that meets the rules, as VolumeBinding
// decides.
func (c *claimCheck) match(slot cache.Slot) bool {
	for i := range c.places {
		if !c.places[i].match(c.snapshot, slot) {
			return false
		}
	}
	for i := range c.byDriver {
		pair := &c.byDriver[i]
		affinity := pair.otherwise
		if c.table.nodes[slot].migrated&pair.plugin != 0 {
			affinity = pair.by
		}
		if affinity != nil && !affinity.match(c.snapshot, slot) {
			return false
		}
	}
	for _, node := range c.nodes {
		if c.snapshot.Info(slot).Node().Name != node {
			return false
		}
	}
	return true
}

// findStatic reports whether there is a volume on a node that a claim may be bound to, and whether
// there is none for a claim that needs one.
func (c *claimCheck) findStatic(slot cache.Slot) (found, lacks bool) {
	for i := range c.static {
		claim := &c.static[i]
		switch {
		case slices.ContainsFunc(c.found[i], func(p placed) bool { return p.match(c.snapshot, slot) }),
			len(claim.labels) > 0 && c.isPlacedOn(claim, c.snapshot.Info(slot).Node()):
			found = true
		case claim.needed:
			return found, true
		}
	}
	return found, false
}

// isPlacedOn reports whether a class has placed volumes on a node.
func (c *claimCheck) isPlacedOn(claim *staticClaim, node *corev1.Node) bool {
	for _, key := range claim.labels {
		if value, ok := node.Labels[key]; ok {
			names, err := c.stores.volumes.IndexKeys(freeByPlace, placeKey(claim.class, key, value))
			if err != nil || len(names) > 0 {
				return true
			}
		}
	}
	return false
}

// withinLimits reports whether NodeVolumeLimits would accept the pod on a node. It returns false if
// in doubt, such as without the feature gate VolumeLimitScaling on a node that lacks a driver.
func (c *claimCheck) withinLimits(slot cache.Slot) bool {
	n := &c.table.nodes[slot]
	if int(n.room) < c.volumes {
		return false
	}
	for _, name := range c.drivers {
		if n.csi == nil || !slices.ContainsFunc(n.csi.Spec.Drivers,
			func(d storagev1.CSINodeDriver) bool { return d.Name == name }) {
			return false
		}
	}
	return true
}
