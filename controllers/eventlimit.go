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

// client-go's recorder for core/v1 Events has the same numbers (tools/record/events_cache.go).
// The recorder for events.k8s.io/v1 has no such limit: it groups Events on one version of an object
// into a series, and every Event here is on another version.
const (
	// eventBurst is the number of Events of one type that an object may get in one burst.
	eventBurst = 25
	// eventsPerSecond is the rate of further Events.
	eventsPerSecond = 1.0 / 300
	// eventObjects bounds the number of objects whose Events are counted.
	eventObjects = 4096
)

// limitedRecorder keeps frequent changes from flooding the cluster with Events. It is safe for
// concurrent use.
type limitedRecorder struct {
	events.EventRecorder
	clock clock.PassiveClock

	// mu guards limits and its values.
	mu     sync.Mutex
	limits *lru.Cache // of eventLimit by limitKey
}

type limitKey struct {
	object    types.UID
	eventType string
}

type eventLimit struct {
	bucket flowcontrol.PassiveRateLimiter
	// dropped is the number of Events that were dropped since the last one.
	dropped int
}

// LimitEvents returns a recorder that drops Events of an object that gets many of one type: it
// records a burst of 25, then one every five minutes, with the number of those that were dropped.
// Normal Events do not count against Warnings.
func LimitEvents(recorder events.EventRecorder, clock clock.PassiveClock) events.EventRecorder {
	return &limitedRecorder{EventRecorder: recorder, clock: clock, limits: lru.New(eventObjects)}
}

// Eventf implements events.EventRecorder.
func (l *limitedRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string,
	args ...any) {
	dropped, ok := l.admit(regarding, eventType)
	if !ok {
		return
	}
	text := fmt.Sprintf(note, args...)
	if dropped > 0 {
		suffix := fmt.Sprintf(" (%d earlier Events were dropped)", dropped)
		text = truncate.ToBytes(text, maxEventNote-len(suffix)) + suffix
	}
	l.EventRecorder.Eventf(regarding, related, eventType, reason, action, "%s", text)
}

// admit reports whether another Event may be recorded, and how many were dropped since the last
// one.
func (l *limitedRecorder) admit(regarding runtime.Object, eventType string) (dropped int, ok bool) {
	object, err := meta.Accessor(regarding)
	if err != nil {
		return 0, true
	}
	key := limitKey{object.GetUID(), eventType}
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := &eventLimit{bucket: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(eventsPerSecond, eventBurst,
		l.clock)}
	if known, exists := l.limits.Get(key); exists {
		limit, _ = known.(*eventLimit)
	} else {
		l.limits.Add(key, limit)
	}
	if !limit.bucket.TryAccept() {
		limit.dropped++
		return 0, false
	}
	dropped, limit.dropped = limit.dropped, 0
	return dropped, true
}
