// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import "time"

// backoffWindow is the granularity of back-offs: their ends are rounded down to it, and pods whose
// back-off is over are moved once per window. A pod backs off until the window in which its
// back-off ends is over. Within one window Backoff is in the order of the queue sort (KEP-5142).
const backoffWindow = time.Second

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
	if count == 0 || e.profile.maxBackoff == 0 {
		return time.Time{}
	}
	if info.BackoffExpiration.IsZero() {
		info.BackoffExpiration = info.Timestamp.Add(e.profile.backoffAfter(count)).Truncate(backoffWindow)
	}
	return info.BackoffExpiration
}

// backingOffLocked reports whether the pod must still back off.
func (q *Queue) backingOffLocked(e *entry) bool {
	return !q.backoffEndLocked(e).Before(q.clock.Now().Truncate(backoffWindow))
}

// backoffAfter returns the back-off after count failures, count > 0.
func (p *profileRules) backoffAfter(count int) time.Duration {
	shift := count - 1
	if p.initialBackoff > p.maxBackoff>>shift {
		return p.maxBackoff
	}
	return p.initialBackoff << shift
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
