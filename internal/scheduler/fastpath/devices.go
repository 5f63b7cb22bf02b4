// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	resourcev1 "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Filter of DynamicResources tries to allocate devices on a node, which takes some ten
// microseconds. Claims that ask for the same devices have the same outcome on a node until its
// slices change, or what is allocated of them, or a device class, or the node itself. So the
// outcomes are kept as verdicts, by what the claims of a pod ask for. Filter is run on the nodes
// without a verdict, and on the node that was chosen: Reserve needs the devices that it finds.
//
// The scalar path decides if Filter refuses the chosen node, and if all nodes are refused. So a
// verdict that is wrong never gives a device away twice, and keeps no pod from being scheduled.

// deviceVerdict is the outcome of Filter on a node.
type deviceVerdict uint8

const (
	devicesUnknown deviceVerdict = iota
	devicesFit
	devicesRefused
)

// deviceRows holds the verdicts for pods whose claims ask for the same devices.
type deviceRows struct {
	verdict []deviceVerdict // by slot
	// refusal is, by slot, the status of Filter of a node that is refused. Nodes with equal
	// statuses share the latest one.
	refusal []*fwk.Status
	latest  *fwk.Status
	// pos and read are the positions in the log of the snapshot and in the list of nodes whose
	// devices have changed.
	pos, read uint64
	// used is the number of the decision that used the rows last.
	used uint64
}

// maxDeviceRows bounds the rows that are kept. They have nine bytes for each node.
const maxDeviceRows = 64

// deviceTable holds deviceRows by what is asked for.
type deviceTable struct {
	rows map[string]*deviceRows
	// classChanges is the number of changes of device classes before the verdicts were found.
	classChanges uint64
	key          []byte // scratch memory
}

// of returns the rows for claims.
func (t *deviceTable) of(claims []*resourcev1.ResourceClaim, decision, classChanges uint64) *deviceRows {
	if t.rows == nil || t.classChanges != classChanges {
		t.rows, t.classChanges = map[string]*deviceRows{}, classChanges
	}
	t.key = t.key[:0]
	for _, claim := range claims {
		asked := claim.Spec.Devices
		asked.Config = nil // for the driver
		size := asked.Size()
		t.key = binary.AppendUvarint(t.key, uint64(size))
		start := len(t.key)
		t.key = slices.Grow(t.key, size)[:start+size]
		_, _ = asked.MarshalToSizedBuffer(t.key[start:]) // there is room for it
	}
	rows := t.rows[string(t.key)]
	if rows == nil {
		if len(t.rows) == maxDeviceRows {
			t.evict()
		}
		rows = &deviceRows{}
		t.rows[string(t.key)] = rows
	}
	rows.used = decision
	return rows
}

// evict removes the rows that were not used for the longest time.
func (t *deviceTable) evict() {
	oldest, found := "", false
	for key, rows := range t.rows {
		if !found || rows.used < t.rows[oldest].used {
			oldest, found = key, true
		}
	}
	delete(t.rows, oldest)
}

// sync removes the verdicts of nodes that have changed.
func (r *deviceRows) sync(snapshot *cache.Snapshot, source DeviceSource) {
	names, end, known := source.ChangedNodes(r.read)
	changes, follows := snapshot.Log().Since(r.pos)
	if !known || !follows {
		r.verdict = r.verdict[:0]
	}
	r.verdict = fitted(r.verdict, snapshot.Slots(), devicesUnknown)
	r.refusal = fitted(r.refusal, snapshot.Slots(), nil)
	r.pos, r.read = snapshot.Log().End(), end
	if !known || !follows {
		return
	}
	for _, name := range names {
		if slot, ok := snapshot.SlotOf(name); ok {
			r.verdict[slot] = devicesUnknown
		}
	}
	for _, change := range changes {
		if change.Kind != cache.PodAdded && change.Kind != cache.PodRemoved {
			r.verdict[change.Slot] = devicesUnknown
		}
	}
}

// deviceCheck answers for DynamicResources about the claims of one pod at a time. Decisions reuse
// its memory one after the other.
type deviceCheck struct {
	*deviceRows
	claims []*resourcev1.ResourceClaim
	// allocated are the nodes for which the state has devices: Filter has accepted them since
	// PreFilter was run last.
	allocated slotSet
	unknown   []cache.Slot
	// misses counts the verdicts that were wrong.
	misses prometheus.Counter
}

// Why no verdicts are kept for a pod with devices.
const (
	verdictsKept     = "" // they are
	unknownPlugin    = "unknown_plugin"
	ofPodGroup       = "pod_group"
	extendedResource = "extended_resource"
	sharedDevices    = "shared_devices"
	featureGates     = "feature_gates"
	alternatives     = "alternatives"
	allocatedClaim   = "allocated_claim"
)

// answerForDevices makes the uncached plugins without DynamicResources those that are run on the
// nodes, if verdicts can take its place. claims are the claims of the pod before PreFilter has read
// them.
func (d *decision) answerForDevices(claims []*resourcev1.ResourceClaim) {
	u := &d.uncached
	without := d.withoutVerdicts(claims)
	if without == verdictsKept {
		rows := d.engine.devices.of(claims, d.id, d.classChanges)
		// Once in a decision, before PreFilter looks at devices: what it sees is at least as new.
		rows.sync(d.engine.snapshot, d.Plan.deviceSource)
		if d.Plan.deviceSource.SeparateDevices() {
			c := &d.engine.lent.devices
			*c = deviceCheck{deviceRows: rows, claims: claims, allocated: c.allocated, unknown: c.unknown[:0],
				misses: d.engine.classes.instruments.deviceMisses}
			c.allocated.reset(d.engine.snapshot.Slots())
			u.devices, u.plugins, u.notOfClaims = c, d.Plan.notOfDevices, d.Plan.notOfEither
		} else {
			without = sharedDevices
		}
	}
	d.engine.classes.instruments.deviceDecision(without)
}

// withoutVerdicts returns why verdicts cannot be kept for the pod. If they can, Filter depends on
// nothing but what deviceRows follows: the claims are not allocated yet, other nodes have no part
// in the devices of a node, and its results are not scored.
func (d *decision) withoutVerdicts(claims []*resourcev1.ResourceClaim) string {
	p := d.Plan
	switch {
	case p.opaque:
		return unknownPlugin
	case d.State.GetPodGroupSchedulingCycle() != nil:
		return ofPodGroup
	case d.delegated || len(claims) == 0:
		return extendedResource
	case !d.uncached.narrow && (p.deviceSource == nil || p.deviceSource.SeparateDevices()):
		return featureGates
	case !d.uncached.narrow:
		return sharedDevices
	case hasAlternatives(claims):
		return alternatives
	}
	for i, claim := range claims {
		if claim.Status.Allocation != nil || slices.Contains(claims[:i], claim) {
			return allocatedClaim // or it is named twice
		}
	}
	return verdictsKept
}

// hasAlternatives reports whether a claim lets the scheduler choose between requests for devices
// (KEP-4816). Nodes then have different scores.
func hasAlternatives(claims []*resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(claims, func(claim *resourcev1.ResourceClaim) bool {
		return slices.ContainsFunc(claim.Spec.Devices.Requests,
			func(r resourcev1.DeviceRequest) bool { return r.Exactly == nil })
	})
}

// judgeDevices returns the nodes that DynamicResources accepts. It runs the plugin, with this
// state, on those whose verdicts are not known: on all if they are few, otherwise until enough
// nodes (0: all) are accepted. unasked is the number of nodes on which it was not run.
func (d *decision) judgeDevices(ctx context.Context, state fwk.CycleState, nodes []cache.Slot,
	enough int) (accepted []cache.Slot, unasked int, err error) {
	u, c := &d.uncached, d.uncached.devices
	known := 0
	c.unknown = c.unknown[:0]
	for _, slot := range nodes {
		switch c.verdict[slot] {
		case devicesUnknown:
			c.unknown = append(c.unknown, slot)
		case devicesFit:
			known++
		}
	}
	switch few := len(c.unknown) <= maxKnown; {
	case few:
		enough = 0
	case enough > known:
		enough -= known
	case enough > 0:
		c.unknown = c.unknown[:0] // enough nodes are known
	}
	if len(c.unknown) > 0 {
		if err := u.know(ctx, state, c.unknown); err != nil {
			return nil, 0, err
		}
		_, _, err := d.engine.search.run(ctx, u.plan.uncached.Parallelizer(), c.unknown, enough,
			u.allocate(state))
		if err != nil {
			return nil, 0, err
		}
		c.shareRefusals(c.unknown)
		if now, ok := u.plan.deviceSource.ClaimsOf(u.pod); !ok || !slices.Equal(now, c.claims) {
			c.read = 0 // the verdicts may be about other claims
		}
	}
	accepted = nodes[:0]
	for _, slot := range nodes {
		switch c.verdict[slot] {
		case devicesUnknown:
			unasked++
		case devicesFit:
			accepted = append(accepted, slot)
		}
	}
	return accepted, unasked, nil
}

// shareRefusals makes nodes with equal statuses share one: most lack devices for the same reason.
func (r *deviceRows) shareRefusals(slots []cache.Slot) {
	for _, slot := range slots {
		if r.verdict[slot] != devicesRefused {
			continue
		}
		if sameRefusal(r.refusal[slot], r.latest) {
			r.refusal[slot] = r.latest
		} else {
			r.latest = r.refusal[slot]
		}
	}
}

// sameRefusal reports whether a node is refused as another one, which may be nil. Equal of a status
// takes microseconds, by reflection.
func sameRefusal(one, other *fwk.Status) bool {
	return other != nil && one.Code() == other.Code() && one.Plugin() == other.Plugin() &&
		slices.Equal(one.Reasons(), other.Reasons())
}

// allocate returns a function that runs DynamicResources on a node with this state, and keeps the
// verdict.
func (u *uncached) allocate(state fwk.CycleState) nodeFilter {
	c := u.devices
	return func(ctx context.Context, slot cache.Slot) *fwk.Status {
		status := u.plan.dynamic.RunFilterPlugins(ctx, state, u.pod, u.snapshot.Info(slot))
		switch {
		case status.IsSuccess():
			c.verdict[slot] = devicesFit
			if state == u.state {
				c.allocated.add(slot)
			}
		case status.IsRejected() && ctx.Err() == nil: // otherwise the search has ended
			c.verdict[slot], c.refusal[slot] = devicesRefused, status
		}
		return status
	}
}

// rememberRefusals spares the scalar path the nodes that are known to lack devices. It has to know
// the devices of others only if it runs Filter on them, or asks what evictions would change.
func (u *uncached) rememberRefusals(ctx context.Context) {
	if u.narrow {
		u.answers.ForgetFilter(u.plan.devices)
		later := uncached{plan: u.plan, pod: u.pod}
		u.answers.DeferPreFilterOf(ctx, u.plan.devices, later.preFilterDevices)
	}
	for slot, verdict := range u.devices.verdict {
		if node := u.snapshot.Info(cache.Slot(slot)); verdict == devicesRefused && node != nil {
			u.answers.Remember(u.plan.devices, node, u.devices.refusal[slot])
		}
	}
}

// settleDevices makes the state have devices of the selected node. It returns false if the verdict
// was wrong.
func (u *uncached) settleDevices(ctx context.Context, slot cache.Slot) bool {
	c := u.devices
	if c.allocated.has(slot) {
		return true
	}
	c.allocated.reset(u.snapshot.Slots())
	state := u.answers.CycleState // no result of Filter is remembered for the nodes that it knew
	if u.narrow && u.see(ctx, state, u.names([]cache.Slot{slot})) != nil {
		return false
	}
	if status := u.plan.dynamic.RunFilterPlugins(ctx, state, u.pod, u.snapshot.Info(slot)); !status.IsSuccess() {
		c.misses.Inc()
		c.read = 0
		u.answers.Forget(u.plan.devices)
		return false
	}
	c.allocated.add(slot)
	return true
}
