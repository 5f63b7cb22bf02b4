// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eventwriter writes the Events of the scheduler and of its plugins, out of the way of what
// they are about: an Event costs the API server as much as a binding does.
//
//	Recorder.Eventf --> backlog: two lanes, and what was said before --> a few workers --> Sink
//
// The first lane holds what somebody may have to act on: failures, preemptions, whatever plugins
// tell. The second one holds that pods were scheduled, which their status says as well, and the
// counts of what is said again and again. It waits while pods wait to be scheduled, for half a
// minute at most, and until it is half full.
//
// The same words about the same object, by the same author, are one Event: a series with a count
// and the time of the last. client-go's broadcaster, which kube-scheduler uses, takes other words
// of the same reason for the same Event, of which it keeps the first, and the same words about
// another version of the object for another Event. It starts a goroutine for each Event, and keeps
// each for six minutes at least.
package eventwriter
