// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"runtime"
	"time"
)

const (
	// Work on many pods holds the queue for one turn at a time. A turn ends after turnPods pods or
	// turnTime, whichever comes first.
	turnPods = 256
	turnTime = 500 * time.Microsecond
)

// takeTurns calls a function until it returns false. Between the calls, other goroutines get the
// queue.
func takeTurns(turn func() (more bool)) {
	for turn() {
		runtime.Gosched()
	}
}

// inTurn calls a function maxItems times, or fewer times if the function returns false or the time
// of a turn is over. It returns false if the function did.
func inTurn(maxItems int, do func() bool) (more bool) {
	start := time.Now()
	for range maxItems {
		if !do() {
			return false
		}
		if time.Since(start) > turnTime {
			break
		}
	}
	return true
}

// processSome calls do for as many items of a list, at most maxItems, as fit into a turn. It
// returns the rest of the list.
func processSome[T any](list []T, maxItems int, do func(T)) (rest []T) {
	inTurn(maxItems, func() bool {
		if len(list) == 0 {
			return false
		}
		do(list[0])
		list = list[1:]
		return true
	})
	return list
}
