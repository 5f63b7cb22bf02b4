// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"sync"

	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// seriesUsers counts the generations of each scheduler name that may write metric series with that
// name: those that are being built, that decide and that drain. With the last of them the series
// go. The zero value is ready for use.
type seriesUsers struct {
	// mu guards users. It is held while series are deleted: a generation that is built at that time
	// makes its series afterwards, rather than keep some that were just deleted.
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
		logger.Error(err, "Deleting the metric series of a profile that is gone failed", "schedulerName", schedulerName)
	}
}
