// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// seriesUsers counts, for each scheduler name, the instances that may write metric series with that
// name: those that are being built, are active, or drain. When the last of them is closed, the
// series are deleted. To find them means to read all metrics, so names that are dropped meanwhile
// wait, and are then looked for together. No build waits for that.
//
// The zero value is ready for use, by any goroutine. A nil value counts nothing.
type seriesUsers struct {
	// deleting is held by the goroutine that deletes series. It is locked before mu.
	deleting sync.Mutex

	// mu guards the fields below. It is held while the series of one name are deleted, so that an
	// instance that is being built creates its series afterwards, and does not hold on to deleted
	// ones.
	mu    sync.Mutex
	users map[string]int
	// unused holds the names that were dropped and not looked for yet.
	unused sets.Set[string]
}

func (s *seriesUsers) use(schedulerName string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == nil {
		s.users = map[string]int{}
	}
	s.users[schedulerName]++
}

// drop returns when the series are deleted, unless they have other users.
func (s *seriesUsers) drop(logger klog.Logger, schedulerName string) {
	if s == nil || !s.leave(schedulerName) {
		return
	}
	s.deleting.Lock()
	defer s.deleting.Unlock()
	unused := s.takeUnused()
	if unused.Len() == 0 {
		return // another goroutine has deleted them
	}
	found, err := metrics.FindSeries(unused)
	if err != nil {
		logger.Error(err, "Deleting metric series of deleted profiles failed", "schedulerNames", sets.List(unused))
	}
	for name, series := range found {
		s.delete(name, series)
	}
}

// leave gives up one use of a name, and reports whether it was the last.
func (s *seriesUsers) leave(schedulerName string) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[schedulerName]--; s.users[schedulerName] > 0 {
		return false
	}
	delete(s.users, schedulerName)
	if s.unused == nil {
		s.unused = sets.New[string]()
	}
	s.unused.Insert(schedulerName)
	return true
}

func (s *seriesUsers) takeUnused() sets.Set[string] {
	s.mu.Lock()
	defer s.mu.Unlock()
	unused := s.unused
	s.unused = nil
	return unused
}

// delete deletes the series of a name, unless it is in use again.
func (s *seriesUsers) delete(schedulerName string, series metrics.Series) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[schedulerName] == 0 {
		series.Delete()
	}
}
