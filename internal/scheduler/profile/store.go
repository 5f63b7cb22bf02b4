// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Store holds the current Map, and tracks the instances until they are closed.
//
//	reload:  Swap(next, queue)  queue.Reconfigure, then the map, then old instances are retired
//	loop:    queue.Pop          acquires an instance through the settings that it gave the queue
//	         Popped(settings)   which instance that was
//	         Shadows(name)      the instances of its shadows, acquired
//
// The queue's settings decide which instance a pod gets: Pop acquires the instance whose PreEnqueue
// plugins admitted the pod, in one critical section, and Swap retires an instance only after the
// queue has replaced its settings. An acquired instance stays whole until its last holder has
// released it, even if it was swapped out long before.
//
// All methods may be called from any goroutine.
type Store struct {
	current atomic.Pointer[Map]

	swapping sync.Mutex // one Swap or Close at a time; guards last
	// last is the map that was current when the Store was closed; nil while it is open.
	last *Map

	mu sync.Mutex // guards instances
	// instances holds the instances that are current or still draining, by their queue settings.
	instances map[*queue.ProfileSettings]*tracked
	// uncount unregisters the metric of draining pods.
	uncount func()
}

// tracked is an instance that is not closed yet.
type tracked struct {
	*Instance
	// retired is set when the Store gives up its reference.
	retired bool
}

// Queue is the part of the scheduling queue that a swap needs.
type Queue interface {
	// Reconfigure puts settings in force and returns the pods that left the queue because their
	// profile is gone. See queue.Queue.
	Reconfigure(logger klog.Logger, settings *queue.Settings, changed sets.Set[string]) (dropped []*corev1.Pod)
}

// Change describes the effect of a swap.
type Change struct {
	// Names are the scheduler names whose profile was added, replaced or removed.
	Names sets.Set[string]
	// Added are those that had no profile before.
	Added sets.Set[string]
	// Dropped are the pods that left the queue because their profile is gone.
	Dropped []*corev1.Pod
}

// NewStore returns a Store with an empty Map.
func NewStore() *Store {
	s := &Store{instances: map[*queue.ProfileSettings]*tracked{}}
	s.current.Store(NewMap(nil, ""))
	s.uncount = metrics.AddRetired(s.podsDraining)
	return s
}

// Current returns the current map.
func (s *Store) Current() *Map { return s.current.Load() }

// Popped returns the instance of the settings that queue.Pop returned with a pod. The caller owns
// the reference that Pop acquired, and must Release it.
func (s *Store) Popped(settings *queue.ProfileSettings) *Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instances[settings].Instance
}

// Swap makes next the current map, and puts it in force in the queue first: next schedules every
// pod that is popped after the queue has taken over the new settings. Instances that next shares
// with the current map are carried over unchanged. The other instances of the current map are
// retired: each is closed as soon as no pod holds it. After Close it discards the new instances of
// next.
func (s *Store) Swap(logger klog.Logger, next *Map, q Queue) Change {
	s.swapping.Lock()
	defer s.swapping.Unlock()

	if s.last != nil {
		for p := range next.everything() {
			if s.last.ByID(p.Config.ID()) != p {
				p.Discard(logger)
			}
		}
		return Change{}
	}
	old := s.current.Load()
	change := next.changeSince(old)
	s.track(next)
	change.Dropped = q.Reconfigure(logger, next.QueueSettings(), change.Names)
	s.current.Store(next)
	for p := range old.everything() {
		if next.ByID(p.Config.ID()) != p {
			s.retire(logger, p)
		}
	}
	return change
}

// track records the new instances of next.
func (s *Store) track(next *Map) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range next.everything() {
		if s.instances[p.Queue] == nil {
			s.instances[p.Queue] = &tracked{Instance: p}
		}
	}
	s.countLocked()
}

// countLocked updates the metric of instances, without shadows.
func (s *Store) countLocked() {
	shadows := 0
	for _, t := range s.instances {
		if t.IsShadow() {
			shadows++
		}
	}
	metrics.ProfileGenerations.Set(float64(len(s.instances) - shadows))
}

// Shadows returns the instances of the shadows of a profile, acquired: the caller must Release each
// of them. The call costs next to nothing while there are no shadows.
func (s *Store) Shadows(schedulerName string) []*Instance {
	current := s.current.Load()
	if len(current.shadows) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var acquired []*Instance
	for _, p := range current.shadowsOf[schedulerName] {
		if t := s.instances[p.Queue]; t != nil && !t.retired {
			p.Acquire()
			acquired = append(acquired, p)
		}
	}
	return acquired
}

// retire gives up the Store's reference to an instance that is no longer current, and forgets the
// instance when it is closed.
func (s *Store) retire(logger klog.Logger, p *Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instances[p.Queue].retired = true
	p.Release(logger)
	go func() {
		<-p.closed
		s.forget(p)
	}()
}

func (s *Store) forget(p *Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.instances, p.Queue)
	s.countLocked()
}

// podsDraining returns the number of pods that hold an instance which is no longer current.
func (s *Store) podsDraining() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods := 0
	for _, t := range s.instances {
		if t.retired {
			pods += int(t.refs.Load())
		}
	}
	return pods
}

// Alive returns the number of instances that are not closed yet: the current ones and those that
// still drain. Tests use it to find instances that are never closed.
func (s *Store) Alive() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.instances)
}

// Close retires every instance and waits until all are closed or ctx ends. The queue must have been
// closed before.
func (s *Store) Close(ctx context.Context) error {
	s.swapping.Lock()
	defer s.swapping.Unlock()
	logger := klog.FromContext(ctx)
	s.last = s.current.Swap(NewMap(nil, ""))
	for p := range s.last.everything() {
		s.retire(logger, p)
	}
	defer s.uncount()
	for _, t := range s.draining() {
		select {
		case <-t.closed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *Store) draining() []*tracked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.instances))
}
