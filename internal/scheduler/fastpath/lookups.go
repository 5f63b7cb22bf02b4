// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// lookups counts the lookups of classes, for metrics and for a warning if classes are evicted that
// are needed again soon.
type lookups struct {
	hits, news, returns prometheus.Counter
	// all is the number of lookups since thrashing last read it, and cameBack how many of them were
	// of classes that had been evicted. warned is when thrashing last returned true.
	all, cameBack int
	warned        time.Time
}

const (
	// minLookups is the number of lookups that thrashing judges by at least. It returns true if
	// more than one in thrashingPart of them were of classes that had been evicted.
	minLookups, thrashingPart = 1000, 10
	// warnInterval is the least time between two warnings.
	warnInterval = 10 * time.Minute
)

// hit counts a lookup that has found a class.
func (l *lookups) hit() {
	l.all++
	l.hits.Inc()
}

// miss counts a lookup after which a class was made, which may have been evicted before.
func (l *lookups) miss(cameBack bool) {
	l.all++
	if !cameBack {
		l.news.Inc()
		return
	}
	l.cameBack++
	l.returns.Inc()
}

// thrashing reports whether so many classes come back that it is time for a warning.
func (l *lookups) thrashing(now time.Time) bool {
	if l.cameBack == 0 || l.all < minLookups {
		return false
	}
	many := thrashingPart*l.cameBack > l.all
	l.all, l.cameBack = 0, 0
	if !many || now.Sub(l.warned) < warnInterval {
		return false
	}
	l.warned = now
	return true
}
