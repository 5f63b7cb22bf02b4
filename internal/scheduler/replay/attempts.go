// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
)

// attempts is what is known about the attempts at groups. The decisions of an attempt follow each
// other, and each was made with the pods that got a node before on their nodes: Decision.Placed of
// them. If the attempt succeeded, these pods were assumed in the end, and are on their nodes. If it
// failed, no other decision was made with them there.
type attempts struct {
	// placed are the decisions for a node of the attempts that failed, by the index of the last
	// decision of the attempt.
	placed map[int][]*capture.Decision
	// inVain are the numbers of all decisions of attempts that failed.
	inVain sets.Set[uint64]
	// unassumed are the numbers of the decisions for a node where the pod was never assumed,
	// because Reserve failed.
	unassumed sets.Set[uint64]
	// unknown are the numbers of decisions that were made with pods on nodes that are not known.
	unknown sets.Set[uint64]
}

// readAttempts finds the attempts. A decision about a single pod is an attempt of its own.
func readAttempts(s *capture.Snapshot) *attempts {
	a := &attempts{placed: map[int][]*capture.Decision{}, inVain: sets.New[uint64](), unassumed: sets.New[uint64](),
		unknown: sets.New[uint64]()}
	for first := 0; first < len(s.Decisions); {
		last := first
		for last+1 < len(s.Decisions) && s.Decisions[last+1].Placed > 0 {
			last++
		}
		a.read(s, first, last)
		first = last + 1
	}
	return a
}

// read reads the attempt with the decisions from first to last.
func (a *attempts) read(s *capture.Snapshot, first, last int) {
	changes := s.Header.Changes
	if last+1 < len(s.Decisions) {
		changes = s.Decisions[last+1].Changes
	}
	var placed []*capture.Decision
	for i := first; i <= last; i++ {
		d := &s.Decisions[i]
		placed = a.undone(s, placed, min(len(placed), d.Placed-s.Decisions[first].Placed), i)
		if d.Node == "" {
			continue
		}
		reserved := d.Result != decisionlog.BindFailed.String() || changes > d.Changes+uint64(d.Placed)
		if i < last {
			reserved = s.Decisions[i+1].Placed > d.Placed
		}
		if !reserved {
			a.unassumed.Insert(d.Number)
			continue
		}
		placed = append(placed, d)
	}
	inVain := func(d *capture.Decision) bool { return d.Result == decisionlog.Unschedulable.String() }
	if kept := slices.IndexFunc(placed, func(d *capture.Decision) bool { return !inVain(d) }); kept >= 0 {
		end := len(placed)
		for inVain(placed[end-1]) {
			end--
		}
		a.undone(s, placed, end, last+1)
		return
	}
	if len(placed) == 0 {
		return
	}
	a.placed[last] = placed
	for i := first; i <= last; i++ {
		a.inVain.Insert(s.Decisions[i].Number)
	}
	if s.Decisions[first].Placed > 0 { // the snapshot does not have the decisions before it
		a.forget(s, last)
	}
}

// undone is for a group of a tree that did not fit: the pods of the decisions from n on were taken
// back, before the decision with the index next. It returns the others. Decisions that were made
// with some of these pods on their nodes cannot be made again.
func (a *attempts) undone(s *capture.Snapshot, placed []*capture.Decision, n, next int) []*capture.Decision {
	if n == len(placed) {
		return placed
	}
	for _, d := range placed[n:] {
		a.unassumed.Insert(d.Number)
	}
	for i := next - 1; i >= 0 && s.Decisions[i].Number > placed[n].Number; i-- {
		a.unknown.Insert(s.Decisions[i].Number)
	}
	return placed[:n]
}

// forget is for an attempt that failed whose pods cannot all be put on their nodes again.
func (a *attempts) forget(s *capture.Snapshot, last int) {
	for i := last; i >= 0 && a.inVain.Has(s.Decisions[i].Number); i-- {
		d := &s.Decisions[i]
		a.unassumed.Insert(d.Number)
		if d.Placed == 0 {
			break // the first one, which was made without them
		}
		a.unknown.Insert(d.Number)
	}
	delete(a.placed, last)
}

// restore returns the pods of the attempt that failed with the decision with an index, which must
// be put on their nodes again. It returns nothing if one of them is gone, or is on a node that it
// has not left since.
func (p *past) restore(last int) (pods []*corev1.Pod) {
	placed := p.attempts.placed[last]
	for _, d := range placed {
		pod := p.pods[d.Pod]
		if pod == nil || p.placed[d.Pod] != nil {
			p.attempts.forget(p.state.snapshot, last)
			return nil
		}
		pod = unbound(pod)
		pod.Spec.NodeName = d.Node
		pods = append(pods, pod)
	}
	for _, pod := range pods {
		p.placed[pod.UID] = pod
	}
	return pods
}
