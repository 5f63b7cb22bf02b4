// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import "context"

// Filter selects decisions. A field that is not set selects all.
type Filter struct {
	// Namespace is the namespace of the pods. Pod is the name of a pod. Group is the name of a
	// group of pods: it selects the decisions about its pods, and about the group as a whole.
	Namespace, Pod, Group string
	Profile, Node         string
	Result                Result
	// After selects the decisions with higher numbers.
	After Number
}

// chunk is the number of decisions that are read while the mutex is held.
const chunk = 64

// Select calls yield with the decisions that a filter selects, the latest first, until yield
// returns false. Decisions that are recorded in the meantime are not among them, and the oldest may
// be missing because they were overwritten. yield may call other methods. The error is the cause
// of ctx.
func (l *Log) Select(ctx context.Context, f *Filter, yield func(d *Decision) bool) error {
	n := l.Newest()
	var decisions []Decision
	for n > f.After {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		decisions, n = l.selectBackwards(decisions[:0], n, f)
		for i := range decisions {
			if !yield(&decisions[i]) {
				return nil
			}
		}
	}
	return nil
}

// selectBackwards reads chunk decisions up to n, and appends what a filter selects, the latest
// first. It returns the number of the next decision, 0 if there is none.
func (l *Log) selectBackwards(decisions []Decision, n Number, f *Filter) ([]Decision, Number) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range chunk {
		if !l.has(n) || n <= f.After {
			return decisions, 0
		}
		if l.selects(f, n) {
			decisions = append(decisions, l.decision(n))
		}
		n--
	}
	return decisions, n
}

// selects reports whether a filter selects a decision that the log has.
func (l *Log) selects(f *Filter, n Number) bool {
	e := l.at(n)
	matches := func(want string, of handle) bool { return want == "" || want == l.names.get(of) }
	return (f.Result == 0 || f.Result == e.result) && (f.Pod == "" || f.Pod == l.podName(n)) &&
		matches(f.Namespace, e.namespace) && matches(f.Group, e.group) && matches(f.Profile, e.profile) &&
		matches(f.Node, e.node)
}
