// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eventwriter writes the Events of the scheduler and its plugins in the background, since
// an Event costs the API server as much as a binding.
//
//	Recorder.Eventf --> queue: urgent, deferred, and the recent series --> a few workers --> Sink
//
// Urgent Events may call for action: failures, preemptions, and everything from plugins. Deferred
// are the Events about pods that were scheduled, which their status shows as well, and the counts
// of repeated Events. Deferred ones wait while pods are pending, but no longer than half a minute,
// and only until half of the room for them is taken.
//
// Events with the same note about the same object from the same reporter form one series: one Event
// with a count and the time of the last occurrence. client-go's broadcaster, which kube-scheduler
// uses, joins Events of the same reason even if their notes differ, and keeps the first note; it
// separates Events with the same note about different versions of the object. It starts a goroutine
// for each Event, and keeps each for six minutes at least.
package eventwriter
