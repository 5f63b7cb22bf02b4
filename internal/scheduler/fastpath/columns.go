// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

// columns are by slot. A slot without a node, or on which a filter refuses the pods, has verdict
// only.
type columns struct {
	verdict []uint16
	// fixed is the weighted sum of the scores that are not normalized.
	fixed []int64
	// feasible is the number of slots with verdict fits, and byFixed has these sorted by fixed.
	feasible int
	byFixed  buckets
}

// columnPool lends columns to rows. Many keys are used but once: of pods that are all different, or
// of one that is retried now and then. So rows that are new get the columns of those that were new
// before them, unless these were used again meanwhile. Rows that come back have columns of their
// own.
type columnPool struct {
	// borrower are the rows that columns were last lent to, spare are columns that no rows have.
	borrower *localRows
	spare    columns
}

// lend gives rows columns if they have none, and returns the rows that it has taken them from, nil
// if there are none.
func (p *columnPool) lend(l *localRows) (from *localRows) {
	switch {
	case l.verdict != nil && p.borrower == l:
		p.borrower = nil // they are its own now
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

// takeBack takes back the columns that rows were lent, as they go.
func (p *columnPool) takeBack(l *localRows) {
	if p.borrower == l {
		p.borrower, p.spare = nil, l.columns
	}
}

// strip takes the columns out of rows, which are built anew when they are used again.
func (l *localRows) strip() columns {
	taken := l.columns
	l.columns, l.images.scores, l.pos = columns{}, nil, 0
	clear(l.normalized)
	return taken
}

// size is about what the rows hold in memory, without what they share.
func (l *localRows) size() int {
	n := 1024 + len(l.key) + 2*cap(l.verdict) + 8*cap(l.fixed) + 8*cap(l.images.scores) + l.byFixed.size()
	for i, column := range l.normalized {
		if !l.instance.normalized[i].eligibility {
			n += 8 * cap(column)
		}
	}
	return n
}

// resized returns a slice of n, which are whatever they were.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// fitted returns a slice with the first n of s, and fill where s has fewer.
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
