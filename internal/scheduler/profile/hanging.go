// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"sync"

	"github.com/livesched/livesched/internal/scheduler/config"
)

// hangingBuilds are the builds that were cut off in a plugin's hands and have not come back. Go cannot end a goroutine
// from outside, so each of them keeps one, with what the plugins hold by themselves; all that livesched lent it was
// taken back. Retries must not add to them without end, so that a revision is not built while one of it hangs. The zero
// value is ready for use, and safe for concurrent use.
type hangingBuilds struct {
	mu     sync.Mutex // guards builds
	builds map[hangingKey]*build
}

type hangingKey struct{ schedulerName, revision string }

func keyOf(cfg *config.Profile) hangingKey { return hangingKey{cfg.SchedulerName, cfg.Revision} }

// check returns an error if a build of the same revision hangs.
func (h *hangingBuilds) check(cfg *config.Profile) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.builds[keyOf(cfg)]; b != nil {
		return fmt.Errorf("an earlier build of this revision was cut off, and still hangs while %s: it is tried again only after that one has come back", b.stage.Load())
	}
	return nil
}

func (h *hangingBuilds) add(b *build) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.builds == nil {
		h.builds = map[hangingKey]*build{}
	}
	h.builds[keyOf(b.cfg)] = b
}

func (h *hangingBuilds) remove(b *build) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.builds, keyOf(b.cfg))
}

// len is the number of builds that hang.
func (h *hangingBuilds) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.builds)
}
