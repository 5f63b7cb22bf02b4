// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import "time"

// backoffWindow is the granularity of back-offs: their ends are rounded down to it, and pods whose
// back-off is over are moved once per window. A pod backs off until the window in which its
// back-off ends is over. Within one window Backoff is in the order of the queue sort (KEP-5142).
const backoffWindow = time.Second

// windows rounds times down to windows of back-off. It keeps their monotonic clock readings, which
// [time.Time.Truncate] removes: a step of the wall clock neither prolongs nor ends a back-off.
type windows struct {
	// origin is the beginning of some window.
	origin time.Time
}

// newWindows returns windows that begin with the seconds of the wall clock at a time.
func newWindows(now time.Time) windows {
	return windows{origin: now.Add(-now.Sub(now.Truncate(backoffWindow)))}
}

// begin returns the beginning of the window that a time is in.
func (w windows) begin(t time.Time) time.Time {
	into := t.Sub(w.origin) % backoffWindow
	if into < 0 {
		into += backoffWindow
	}
	return t.Add(-into)
}

// backoffEndLocked returns the end of the pod's back-off, rounded down to its window, or the zero
// time if the pod has no back-off.
func (q *Queue) backoffEndLocked(e *entry) time.Time {
	info := e.info
	count := info.UnschedulableCount
	if info.ConsecutiveErrorsCount > 0 {
		// The last attempt met an error. Back off to protect the API server, regardless of earlier
		// attempts.
		count = info.ConsecutiveErrorsCount
	}
	if count == 0 || e.profile.settings.MaxBackoff == 0 {
		return time.Time{}
	}
	if info.BackoffExpiration.IsZero() {
		end := info.Timestamp.Add(e.profile.backoffAfter(count))
		if info.ConsecutiveErrorsCount > 0 && len(q.groupPauses) > 0 {
			if pause := q.groupPauses[q.groups.Unit(groupOf(e.pod))]; pause.After(end) {
				end = pause
			}
		}
		info.BackoffExpiration = q.windows.begin(end)
	}
	return info.BackoffExpiration
}

// backingOffLocked reports whether the pod must still back off.
func (q *Queue) backingOffLocked(e *entry) bool {
	return !q.backoffEndLocked(e).Before(q.windows.begin(q.clock.Now()))
}

// backoffAfter returns the back-off after count failures, count > 0.
func (p *profileRules) backoffAfter(count int) time.Duration {
	initial, longest, shift := p.settings.InitialBackoff, p.settings.MaxBackoff, count-1
	if initial > longest>>shift {
		return longest
	}
	return initial << shift
}

// lessBackoffLocked orders Backoff.
func (q *Queue) lessBackoffLocked(a, b *entry) bool {
	if !a.until.Equal(b.until) {
		return a.until.Before(b.until)
	}
	return q.lessLocked(a, b)
}

// lessErrorBackoffLocked orders ErrorBackoff.
func (q *Queue) lessErrorBackoffLocked(a, b *entry) bool { return a.until.Before(b.until) }
