// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
)

// retired counts the pods in flight with replaced instances of profiles.
var retired sources

// AddRetired adds count to [RetiredGenerationPods] until remove is called. count is called when
// metrics are read, and must be quick.
func AddRetired(count func() int) (remove func()) { return retired.add(count) }

// pendingEvents counts the Events that are not written yet.
var pendingEvents sources

// AddPendingEvents adds count to [PendingEvents] until remove is called. count is called when
// metrics are read, and must be quick.
func AddPendingEvents(count func() int) (remove func()) { return pendingEvents.add(count) }

// pendingIncomplete and pendingComplete count the groups with pending pods.
var pendingIncomplete, pendingComplete sources

// AddPendingGroups adds the numbers of groups whose pods are pending to the metric
// livesched_pending_pod_groups until remove is called: those for which too few pods are ready, and
// the others. count is called when metrics are read, and must be quick.
func AddPendingGroups(count func() (incomplete, complete int)) (remove func()) {
	removeIncomplete := pendingIncomplete.add(func() int { incomplete, _ := count(); return incomplete })
	removeComplete := pendingComplete.add(func() int { _, complete := count(); return complete })
	return func() {
		removeIncomplete()
		removeComplete()
	}
}

// sources are functions that are called when metrics are read: the values change with every pod,
// and updating a gauge each time would cost more. A process has one source per metric, a test may
// have several. It is safe for concurrent use.
type sources struct {
	mu     sync.Mutex // guards counts
	counts sets.Set[*func() int]
}

func (s *sources) add(count func() int) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = sets.New[*func() int]()
	}
	s.counts.Insert(&count)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counts.Delete(&count)
	}
}

func (s *sources) sum() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for count := range s.counts {
		total += (*count)()
	}
	return float64(total)
}
