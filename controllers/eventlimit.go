// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/livesched/livesched/internal/truncate"
)

// The numbers of client-go's recorder for core/v1 Events (tools/record/events_cache.go). The one
// for events.k8s.io/v1 has no such limit: it makes a series of Events on one version of an object,
// and every Event here is on another one.
const (
	// eventBurst is how many Events of a type there may be on an object at once.
	eventBurst = 25
	// eventsPerSecond is how fast there may be more.
	eventsPerSecond = 1.0 / 300
	// eventObjects bounds the objects that are remembered. One that is forgotten begins anew.
	eventObjects = 4096
)

// limitedRecorder keeps a change every second from flooding the cluster with Events. It may be used
// by any goroutine.
type limitedRecorder struct {
	events.EventRecorder
	clock clock.PassiveClock

	// mu guards limits and what is in it.
	mu     sync.Mutex
	limits *lru.Cache // of eventLimit by limitKey
}

type limitKey struct {
	object    types.UID
	eventType string
}

type eventLimit struct {
	bucket flowcontrol.PassiveRateLimiter
	// left out since the last Event.
	left int
}

// LimitEvents returns a recorder that leaves out Events on objects that have had many of their
// type: 25 at once, then one every five minutes, which says how many were left out. Normal Events
// do not use up room for Warnings.
func LimitEvents(recorder events.EventRecorder, clock clock.PassiveClock) events.EventRecorder {
	return &limitedRecorder{EventRecorder: recorder, clock: clock, limits: lru.New(eventObjects)}
}

// Eventf is that of events.EventRecorder.
func (r *limitedRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	left, ok := r.admit(regarding, eventType)
	if !ok {
		return
	}
	text := fmt.Sprintf(note, args...)
	if left > 0 {
		suffix := fmt.Sprintf(" (%d Events before this one were left out)", left)
		text = truncate.ToBytes(text, maxEventNote-len(suffix)) + suffix
	}
	r.EventRecorder.Eventf(regarding, related, eventType, reason, action, "%s", text)
}

// admit says whether there may be another Event, and how many there were before for which there was
// no room.
func (r *limitedRecorder) admit(regarding runtime.Object, eventType string) (left int, ok bool) {
	object, err := meta.Accessor(regarding)
	if err != nil {
		return 0, true
	}
	key := limitKey{object.GetUID(), eventType}
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := &eventLimit{bucket: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(eventsPerSecond, eventBurst, r.clock)}
	if known, exists := r.limits.Get(key); exists {
		limit, _ = known.(*eventLimit)
	} else {
		r.limits.Add(key, limit)
	}
	if !limit.bucket.TryAccept() {
		limit.left++
		return 0, false
	}
	left, limit.left = limit.left, 0
	return left, true
}
