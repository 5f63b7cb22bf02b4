// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import "time"

// backoffWindow is what ends of back-offs are rounded down to, and how often pods whose back-off is
// over are moved. A pod is backing off until the window of its end is over. Within one window
// Backoff is in the order of the queue sort (KEP-5142).
const backoffWindow = time.Second

// backoffEndLocked returns when the pod's back-off ends, rounded down to its window; the zero time
// if it has none.
func (q *Queue) backoffEndLocked(e *entry) time.Time {
	info := e.info
	count := info.UnschedulableCount
	if info.ConsecutiveErrorsCount > 0 {
		// The last attempt met an error: the API server is to be spared, whatever the earlier
		// attempts were.
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

// backingOffLocked reports whether the pod's back-off is not over yet.
func (q *Queue) backingOffLocked(e *entry) bool {
	return !q.backoffEndLocked(e).Before(q.clock.Now().Truncate(backoffWindow))
}

// backoffAfter is the back-off after count failures, count > 0.
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
