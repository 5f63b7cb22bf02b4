// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"slices"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// ready is what fitsOf could be at most.
func (b *branch) ready() (ready int) {
	if !b.IsComposite() {
		return len(b.members)
	}
	for _, child := range b.children {
		ready += count(child.ready() >= child.minimum())
	}
	return ready
}

// Fit is how much of a group, or of a group of a tree, fits together.
type Fit struct {
	podgroup.Key
	// Needed, Ready and Fit are numbers of pods, or of groups if the Key is one of a composite
	// group: how many must be placed together, how many there are, and how many fit.
	Needed, Ready, Fit int
}

// Enough reports whether as much fits as is needed.
func (f *Fit) Enough() bool { return f.Fit >= f.Needed }

// FitIn places the members of a group or of a tree in a domain, as many as possible. Of a tree, it
// returns the outermost group of which too little fits, among those that a group of pods is in, or
// that group of pods itself. CountAll must be set.
func (a *Attempt) FitIn(ctx context.Context, domain podgroup.Domain, leaf podgroup.Key) Fit {
	if a.Tree == nil {
		return Fit{a.Group.Key, a.Needed, len(a.Members), a.PlaceIn(ctx, domain, 0)}
	}
	a.Outcomes = make([]Outcome, len(a.Members))
	a.work = maxWork
	_, _ = a.placeTree(ctx, domain, nil) // without a plan there is no error
	b := a.root()
	for b.fit >= b.minimum() && b.IsComposite() {
		i := slices.IndexFunc(b.children, func(child *branch) bool { return child.has(leaf) })
		if i < 0 {
			break
		}
		b = b.children[i]
	}
	return Fit{b.Key, b.minimum(), b.ready(), b.fit}
}

// Unplaced returns what is needed of a tree, of which nothing is placed yet.
func (a *Attempt) Unplaced() Fit {
	root := a.root()
	return Fit{Key: root.Key, Needed: root.minimum(), Ready: root.ready()}
}

// has reports whether the branch is a group of pods, or has it in it.
func (b *branch) has(leaf podgroup.Key) bool {
	return b.Key == leaf || slices.ContainsFunc(b.children, func(child *branch) bool { return child.has(leaf) })
}
