// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// Store holds the current Map. It is where the controllers and the scheduling loop meet, and the
// only place.
//
//	controllers: Swap     one at a time, under swapping
//	loop:        Acquire  any time, without a lock
//
// An acquired profile stays whole until its last holder has released it, even if it was swapped out
// long before.
type Store struct {
	current atomic.Pointer[Map]
	target  Target

	swapping sync.Mutex // one swap at a time; guards closed
	closed   bool

	mu sync.Mutex // guards alive
	// alive are the generations that are current or still draining, and whether the Store has given
	// up its reference.
	alive map[*Instance]bool
	// uncount ends that metrics count what drains.
	uncount func()
}

// Target is the running scheduler, as the Store sees it.
type Target interface {
	// Apply makes next take effect in the queue. It calls commit exactly once, in the critical
	// section in which the queue changes over, so that no pod is popped between the two. changed
	// names the profiles that differ.
	Apply(logger klog.Logger, next *Map, changed sets.Set[string], commit func())
}

// NewStore returns a Store with an empty Map.
func NewStore(target Target) *Store {
	s := &Store{target: target, alive: map[*Instance]bool{}}
	s.current.Store(NewMap(nil, ""))
	s.uncount = metrics.AddRetired(s.podsDraining)
	return s
}

// Current returns the map that decides now.
func (s *Store) Current() *Map { return s.current.Load() }

// Acquire returns the current profile of a scheduler name with a reference that the caller must
// Release, or nil if there is no such profile.
func (s *Store) Acquire(schedulerName string) *Instance {
	for {
		p := s.current.Load().Get(schedulerName)
		if p == nil || p.tryAcquire() {
			return p
		}
		// Swapped out and drained since the load: the current map has moved on.
	}
}

// Swap makes next the current map and returns the names of the profiles that changed. Profiles that
// next shares with the current map are carried over as they are; the others of the current map are
// retired: closed as soon as no pod holds them. When Swap returns, every pod popped from then on
// sees next. After Close it discards what next brings in.
func (s *Store) Swap(logger klog.Logger, next *Map) sets.Set[string] {
	s.swapping.Lock()
	defer s.swapping.Unlock()

	if s.closed {
		for p := range next.All() {
			if p.onClosed == nil {
				p.Discard(logger)
			}
		}
		return nil
	}
	old := s.current.Load()
	changed := next.changedSince(old)
	s.track(next)
	s.target.Apply(logger, next, changed, func() { s.current.Store(next) })
	for name := range changed {
		if p := old.Get(name); p != nil {
			s.retire(logger, p)
		}
	}
	return changed
}

// track notes the profiles that next brings in. They are not published yet, so setting onClosed is
// safe.
func (s *Store) track(next *Map) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range next.profiles {
		if _, known := s.alive[p]; !known {
			s.alive[p] = false
			p.onClosed = s.forget
		}
	}
	metrics.ProfileGenerations.Set(float64(len(s.alive)))
}

// retire gives up the Store's reference to a profile that is not current any more.
func (s *Store) retire(logger klog.Logger, p *Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive[p] = true
	p.Release(logger) // whoever releases the last reference tells forget in another goroutine
}

// podsDraining is the number of pods that hold a profile which is not current any more.
func (s *Store) podsDraining() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods := 0
	for p, retired := range s.alive {
		if retired {
			pods += int(p.refs.Load())
		}
	}
	return pods
}

func (s *Store) forget(p *Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.alive, p)
	metrics.ProfileGenerations.Set(float64(len(s.alive)))
}

// Alive is the number of generations that are not closed yet: the current ones and those that still
// drain.
func (s *Store) Alive() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alive)
}

// Close retires every profile, without a word to the queue, which is closed already, and waits
// until all are closed or ctx ends. There is nothing to acquire afterwards.
func (s *Store) Close(ctx context.Context) error {
	s.swapping.Lock()
	defer s.swapping.Unlock()
	s.closed = true
	logger := klog.FromContext(ctx)
	for p := range s.current.Swap(NewMap(nil, "")).All() {
		s.retire(logger, p)
	}
	defer s.uncount()
	for _, p := range s.draining() {
		select {
		case <-p.closed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *Store) draining() []*Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.alive))
}
