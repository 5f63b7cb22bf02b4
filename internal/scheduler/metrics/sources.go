// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "sync"

// retired tells the pods that are under way with retired generations.
var retired sources

// AddRetired has [RetiredGenerationPods] count what a store of profiles tells, until remove is
// called. count is called when metrics are read, and must be quick.
func AddRetired(count func() int) (remove func()) { return retired.add(count) }

// pendingEvents tells the Events that are not written yet.
var pendingEvents sources

// AddPendingEvents has [PendingEvents] count what a writer of Events tells, until remove is called.
// count is called when metrics are read, and must be quick.
func AddPendingEvents(count func() int) (remove func()) { return pendingEvents.add(count) }

// sources are counted when metrics are read: what changes with every pod is not worth a gauge that
// is kept up to date. A process has one, a test may have several. Safe for concurrent use.
type sources struct {
	mu     sync.Mutex // guards what follows
	counts map[int]func() int
	next   int
}

func (s *sources) add(count func() int) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[int]func() int{}
	}
	id := s.next
	s.next++
	s.counts[id] = count
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.counts, id)
	}
}

func (s *sources) sum() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, count := range s.counts {
		total += count()
	}
	return float64(total)
}
