// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import "sync/atomic"

// stage says what a build is doing, for the error of one that is cut off. Written by the building
// goroutine, read by the one that waits for it.
type stage struct{ v atomic.Value }

// Store notes what comes next.
func (s *stage) Store(doing string) { s.v.Store(doing) }

// Load returns the last thing noted.
func (s *stage) Load() string {
	if doing, ok := s.v.Load().(string); ok {
		return doing
	}
	return "starting"
}
