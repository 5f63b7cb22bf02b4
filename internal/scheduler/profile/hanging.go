// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"sync"
	"time"

	"github.com/livesched/livesched/internal/scheduler/config"
)

// hangingBuilds are the builds that were cut off in a plugin's hands and have not come back. Go
// cannot end a goroutine from outside, so each of them keeps one, with what the plugins hold by
// themselves; all that livesched lent it was taken back.
//
// Retries must not add to them without end, and yet have to be: what hung once need not hang again.
// So a revision of which n builds hang is built again only after 2^n build timeouts. With a timeout
// of 30 s that is a dozen builds in a day, and twenty in a year. The zero value is ready for use,
// and safe for concurrent use.
type hangingBuilds struct {
	mu        sync.Mutex // guards revisions, and what they point to
	revisions map[hangingKey]*hangingRevision
}

type hangingKey struct{ schedulerName, revision string }

func keyOf(cfg *config.Profile) hangingKey { return hangingKey{cfg.SchedulerName, cfg.Revision} }

// hangingRevision are the builds of one revision that hang.
type hangingRevision struct {
	count int
	// err is what the last one was cut off with, and next when another may be tried.
	err  error
	next time.Time
}

// check returns an error if builds of the same revision hang and it is too early for another one.
func (h *hangingBuilds) check(cfg *config.Profile, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.revisions[keyOf(cfg)]
	if r == nil || !now.Before(r.next) {
		return nil
	}
	return fmt.Errorf("%w; it still hangs, which makes %d of this revision, and is tried again when it comes back, and otherwise at %s",
		r.err, r.count, r.next.UTC().Format(time.RFC3339))
}

// add notes that a build hangs.
func (h *hangingBuilds) add(cfg *config.Profile, err error, now time.Time, timeout time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.revisions == nil {
		h.revisions = map[hangingKey]*hangingRevision{}
	}
	r := h.revisions[keyOf(cfg)]
	if r == nil {
		r = &hangingRevision{}
		h.revisions[keyOf(cfg)] = r
	}
	r.count++
	r.err, r.next = err, now.Add(timeout<<min(r.count, 20))
}

// remove notes that a build has come back. The next one may be tried at once: what it hung on may
// be over.
func (h *hangingBuilds) remove(cfg *config.Profile) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.revisions[keyOf(cfg)]
	r.next = time.Time{}
	if r.count--; r.count == 0 {
		delete(h.revisions, keyOf(cfg))
	}
}

// len is the number of builds that hang.
func (h *hangingBuilds) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	count := 0
	for _, r := range h.revisions {
		count += r.count
	}
	return count
}
