// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
)

// takeover is how long the cluster has to come to rest after the leader has ended: up to half a
// minute until another process leads, and time for what that one can still change.
const takeover = 3 * time.Minute

// checkTakeover ends the leader, or all processes, while nothing else happens, and checks that the
// next leader goes on with what the last one had decided. Not after each round: a new leader tries
// all pending pods, which would hide that an event has woken none.
func (w *World) checkTakeover(number int) {
	r := w.stream(fmt.Sprint("takeover ", number))
	if r.IntN(4) > 0 {
		return
	}
	before := w.standings()
	end := w.leaders()
	if r.IntN(3) == 0 {
		end = w.replicas
	}
	for _, replica := range end {
		if r.IntN(2) == 0 {
			replica.kill()
		} else {
			replica.replace()
		}
	}
	w.counts["takeovers at rest"]++
	if w.settle(takeover); w.failure != nil {
		return
	}
	after := w.standings()
	for _, object := range sorted(w.cluster.profiles) {
		name := object.GetName()
		if was, is := before[name], after[name]; !was.leadsTo(is) {
			w.fail("profile %s had %+v, and has %+v after another process took the lead", name, was, is)
		}
	}
}

// standing is what the status of a profile says that was decided.
type standing struct {
	active, reason, canary, command string
	stage                           rollout.Stage
	step                            int32
}

// standings returns those of the profiles, by name.
func (w *World) standings() map[string]standing {
	all := map[string]standing{}
	for _, object := range sorted(w.cluster.profiles) {
		status := w.profileOf(object).Status
		s := standing{}
		if c := apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgrammed); c != nil {
			s.reason = c.Reason
		}
		if status.Active != nil {
			s.active = status.Active.Revision
		}
		if o := status.Rollout; o != nil {
			s.canary, s.command, s.stage = o.CanaryRevision, o.LastCommand, rollout.Stage(o.Stage)
			s.step = ptr.Deref(o.CurrentStepIndex, 0)
		}
		all[object.GetName()] = s
	}
	return all
}

// leadsTo reports whether another standing may follow without a change by a user: it is the same,
// or that of a roll-out that has gone on.
func (s standing) leadsTo(next standing) bool {
	if s == next {
		return true
	}
	if s.canary == "" || s.canary != next.canary || s.command != next.command || s.reason != v1alpha1.ReasonRollingOut {
		return false
	}
	switch next.stage {
	case rollout.Promoted:
		return next.active == s.canary && next.reason == v1alpha1.ReasonProgrammed
	case rollout.Canary:
		return next.active == s.active && next.reason == s.reason && (s.stage == rollout.Shadow || next.step > s.step)
	}
	return false
}
