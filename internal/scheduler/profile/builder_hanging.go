// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"sync"
	"time"

	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// hangingBuilds tracks the builds that were cut off inside a plugin that has not returned. Go
// cannot end a goroutine from outside, so each such build keeps its goroutine and the resources
// that the plugins hold by themselves. Everything that livesched gave to the plugins has been taken
// back.
//
// A build that hung once need not hang again, so it is retried; but hanging retries must not
// accumulate without limit. So a revision with n hanging builds is built again only after 2^n build
// timeouts. With a timeout of 30 s that is a dozen builds in a day, and twenty in a year. The zero
// value is ready for use, and safe for concurrent use.
type hangingBuilds struct {
	mu        sync.Mutex // guards revisions and their values
	revisions map[hangingKey]*hangingRevision
}

type hangingKey struct{ profile, revision string }

func keyOf(cfg *resolve.Profile) hangingKey { return hangingKey{cfg.ID(), cfg.Revision} }

// hangingRevision holds the hanging builds of one revision.
type hangingRevision struct {
	count int
	// err is the error of the last hanging build. next is the time from which another build may
	// start.
	err  error
	next time.Time
}

// check returns an error if builds of the same revision hang and it is too early for another one.
func (h *hangingBuilds) check(cfg *resolve.Profile, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.revisions[keyOf(cfg)]
	if r == nil || !now.Before(r.next) {
		return nil
	}
	return fmt.Errorf("%w; it still hangs (%d builds of this revision do), and is retried when it returns, or at %s",
		r.err, r.count, r.next.UTC().Format(time.RFC3339))
}

// add records that a build hangs.
func (h *hangingBuilds) add(cfg *resolve.Profile, err error, now time.Time, timeout time.Duration) {
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

// remove records that a hanging build has returned. The next build may start immediately, because
// the cause may be gone.
func (h *hangingBuilds) remove(cfg *resolve.Profile) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.revisions[keyOf(cfg)]
	r.next = time.Time{}
	if r.count--; r.count == 0 {
		delete(h.revisions, keyOf(cfg))
	}
}
