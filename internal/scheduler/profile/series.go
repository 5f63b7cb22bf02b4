// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"sync"

	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// seriesUsers counts, for each scheduler name, the instances that may write metric series with that
// name: those that are being built, are active, or drain. When the last of them is closed, the
// series are deleted. The zero value is ready for use, by any goroutine.
type seriesUsers struct {
	// mu guards users. It is held while series are deleted, so that an instance that is being built
	// creates its series afterwards, and does not hold on to deleted ones.
	mu    sync.Mutex
	users map[string]int
}

func (s *seriesUsers) use(schedulerName string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == nil {
		s.users = map[string]int{}
	}
	s.users[schedulerName]++
}

func (s *seriesUsers) drop(logger klog.Logger, schedulerName string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[schedulerName]--; s.users[schedulerName] > 0 {
		return
	}
	delete(s.users, schedulerName)
	if err := metrics.ForgetProfile(schedulerName); err != nil {
		logger.Error(err, "Deleting the metric series of a deleted profile failed", "schedulerName", schedulerName)
	}
}
