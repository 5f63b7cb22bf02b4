// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
)

// takeover is how long the cluster has to come to rest after another process leads.
const takeover = 3 * time.Minute

// checkTakeover ends the leader, or all processes, while nothing else happens, and checks that the
// next leader goes on with what the last one had decided. It does so after some of the rounds: a
// new leader tries all pending pods, which hides events that wake nobody.
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
		if name := object.GetName(); !before[name].leadsTo(after[name]) {
			w.fail("profile %s had %+v, and has %+v after another process took the lead", name, before[name], after[name])
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
		if programmed := apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgrammed); programmed != nil {
			s.reason = programmed.Reason
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
	if s.canary == "" || s.canary != next.canary || s.command != next.command || s.stage == rollout.Aborted ||
		s.stage == rollout.Promoted {
		return false
	}
	was, is := slices.Index(rollout.Stages, s.stage), slices.Index(rollout.Stages, next.stage)
	active := s.active
	if next.stage == rollout.Promoted {
		active = s.canary
	}
	return next.active == active && (is > was || is == was && next.step > s.step)
}
