// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/truncate"
)

// shadowsEvery is how often the counts of shadows are written. They change with every pod.
const shadowsEvery = 5 * time.Second

// follows returns the part of the condition Programmed about what a shadow follows, "" for other
// profiles.
func (s *state) follows(object *v1alpha1.SchedulerProfile) string {
	cfg := s.resolved(object)
	if cfg == nil || cfg.Shadow == nil {
		return ""
	}
	if running := s.running[cfg.SchedulerName]; running == nil || running.config.Name != cfg.Shadow.Profile {
		return fmt.Sprintf(", and shadows SchedulerProfile %q as soon as that schedules pods", cfg.Shadow.Profile)
	}
	return fmt.Sprintf(", and shadows SchedulerProfile %q", cfg.Shadow.Profile)
}

// shadowStatus returns the counts of a shadow: the present ones or, until this process has any,
// the last ones of its revision. It returns nil if it does not run.
func (s *state) shadowStatus(object *v1alpha1.SchedulerProfile) *v1alpha1.ShadowStatus {
	running := s.runningOf(object)
	if running == nil || running.config.Shadow == nil {
		return nil
	}
	now, before := s.counted(running.config.ID()), object.Status.Shadow
	switch revision := running.config.Revision; {
	case now != nil && now.Revision == revision:
		return now
	case before != nil && before.Revision == revision:
		return before.DeepCopy()
	}
	return nil
}

// shadowNotes returns the Event for the first mismatch of a shadow.
func shadowNotes(before, after *v1alpha1.ShadowStatus) []note {
	if after == nil || after.FirstMismatch == "" {
		return nil
	}
	if before != nil && before.FirstMismatch != "" && before.Revision == after.Revision &&
		before.ProfileRevision == after.ProfileRevision {
		return nil
	}
	return []note{{eventType: corev1.EventTypeWarning, reason: v1alpha1.ReasonShadowDisagrees, action: "Compare",
		text: truncate.ToBytes(after.FirstMismatch, maxEventNote)}}
}

// refreshShadows takes the counts of shadows now and then, and queues them to be written, until ctx
// ends.
func (r *reporter) refreshShadows(ctx context.Context) {
	for {
		timer := r.clock.NewTimer(shadowsEvery)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
		r.countShadows()
	}
}

func (r *reporter) countShadows() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts = map[string]*v1alpha1.ShadowStatus{}
	if r.latest == nil {
		return
	}
	for id, running := range r.latest.running {
		if running.config.Shadow == nil {
			continue
		}
		r.counts[id] = r.scheduler.ShadowStatus(id)
		if s := r.subjects[running.config.UID]; s != nil {
			r.addLocked(running.config.UID, s)
		}
	}
}

// counted returns the counts of a shadow as they were taken last, nil if it has none. Writes do not
// take them themselves: each write of a status queues the object again.
func (r *reporter) counted(id string) *v1alpha1.ShadowStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[id].DeepCopy()
}
