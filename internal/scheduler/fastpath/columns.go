// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

// columns are by slot. For a slot without a node, or on which a filter refuses the pods, only
// verdict is set.
type columns struct {
	verdict []uint16
	// fixed is the weighted sum of the scores that are not normalized.
	fixed []int64
	// feasible is the number of slots with verdict fits. byFixed sorts these slots by fixed, each
	// kind of imageColumn on its own.
	feasible int
	byFixed  buckets
}

// columnPool lends columns to rows. Many keys are used only once: keys of pods that are all
// different, or of one pod that is retried now and then. So new rows get the columns of the
// previous new rows, unless those have been used again in between. Rows that are used again own
// their columns.
type columnPool struct {
	// borrower are the rows that columns were last lent to. spare are columns without rows.
	borrower *localRows
	spare    columns
}

// lend gives rows columns if they have none. It returns the rows from which it has taken the
// columns, or nil.
func (p *columnPool) lend(l *localRows) (from *localRows) {
	switch {
	case l.verdict != nil && p.borrower == l:
		p.borrower = nil // the rows own the columns now
	case l.verdict != nil || l.seen:
	case p.borrower != nil:
		from = p.borrower
		l.columns = from.strip()
		p.borrower = l
	default:
		l.columns, p.spare = p.spare, columns{}
		p.borrower = l
	}
	l.seen = true
	return from
}

// takeBack takes back the columns that were lent to rows which are being dropped.
func (p *columnPool) takeBack(l *localRows) {
	if p.borrower == l {
		p.borrower, p.spare = nil, l.columns
	}
}

// strip removes the columns from rows. The rows are rebuilt when they are used again.
func (l *localRows) strip() columns {
	taken := l.columns
	l.occupation.forget()
	l.columns, l.pos = columns{}, 0
	clear(l.normalized)
	return taken
}

// size estimates the memory of the rows, without what they share.
func (l *localRows) size() int {
	n := 1024 + l.ports + len(l.key) + 2*cap(l.verdict) + 8*cap(l.fixed) + l.byFixed.size()
	for i, column := range l.normalized {
		if !l.setup.normalized[i].eligibility {
			n += 8 * cap(column)
		}
	}
	return n
}

// resized returns a slice of length n with undefined elements.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// fitted returns a slice of length n with the first elements of s, extended by fill.
func fitted[T any](s []T, n int, fill T) []T {
	if cap(s) < n {
		s = append(make([]T, 0, n+n/8), s...)
	}
	from := len(s)
	s = s[:n]
	for i := from; i < n; i++ {
		s[i] = fill
	}
	return s
}
