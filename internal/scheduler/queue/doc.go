// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue is the scheduling queue: it holds the pending pods of all profiles. It knows only
// the scheduler names of profiles and the values in [Settings], which a reload replaces in one
// step.
//
// Each pod in the queue is in exactly one place:
//
//	Add ---> Active ---Pop---> InFlight ---Done---> released
//	           ^                   |
//	           |                   | Requeue
//	           |                   v
//	           +--- Backoff, ErrorBackoff, Unschedulable, Gated
//
//	from                     to             when
//	new                      Active         Add, Update
//	Active                   InFlight       Pop, in the order of the queue sort
//	Backoff                  InFlight       Pop, while Active is empty
//	InFlight                 Unschedulable  Requeue: plugins refused the pod, and no event
//	                                        since Pop may help it
//	InFlight                 Backoff        Requeue: plugins refused the pod, and an event
//	                                        since Pop may help it
//	InFlight                 ErrorBackoff   Requeue: the attempt met an error
//	InFlight                 Active         Requeue: as the two before, but its back-off is
//	                                        over or a plugin had it pending; or its profile was
//	                                        reloaded
//	Unschedulable, Gated     Backoff        Move, Update: an event that may help it; or it has
//	                                        waited too long
//	Unschedulable, Gated     Active         the same, but its back-off is over or a plugin had
//	                                        it pending
//	Backoff, ErrorBackoff    Active         its back-off is over, and so is the window in which
//	                                        it ended
//	Gated                    Backoff        Ungate: the gate is open, and an event came in while
//	                                        it was closed
//	Unschedulable, Gated     ErrorBackoff   RetryLater: asynchronous work of its last attempt
//	                                        failed
//	all but InFlight         Active         Activate; Reconfigure, if its profile was replaced
//	                                        (a few pods at a time)
//
// A pod on a node is in the queue only while its resize is deferred; see deferred.go.
//
// Before a pod moves to Active or Backoff, except from Backoff, the queue runs its PreEnqueue
// plugins. If a plugin refuses the pod, the pod becomes Gated instead; if a plugin fails, the pod
// moves to ErrorBackoff, and the plugins run again when the back-off ends. The queueing hints of
// the plugins that refused a pod decide whether an event may help it. The hints of a Gated pod
// are called only for events that its gating plugin registered for. For pods in flight, the queue
// keeps the events that any plugin registered for until the pods come back.
//
// An event costs time by kinds of waiting pods, not by pods: see waitingPods and [HintKey].
// Events (move), back-offs that end, pods that have waited too long, and reloads may move many
// pods. They do so in turns of half a millisecond, between which other goroutines get the queue.
//
// Behaviour follows kube-scheduler 1.37 (pkg/scheduler/backend/queue) with its default feature
// gates, KEP-4247 (queueing hints) and KEP-5142 (pop from backoff). It differs where that loses or
// strands pods, or does needless work:
//   - Requeue releases the events kept for the pod before the pod can be popped again. Otherwise a
//     pod that is popped in between is discarded (kubernetes/kubernetes#139186).
//   - The queue identifies pods by UID: a pod that is re-created under the same name is another
//     pod. A pod that was deleted, re-created or assigned while in flight is dropped when it comes
//     back, together with everything kept for it (kubernetes/kubernetes#138316).
//   - An update of an assumed pod is kept as for any pod in flight: if the pod is refused on
//     Permit, the update may help it.
//   - Flushing a pod is no event for the pods in flight.
//   - A PreEnqueue plugin that fails runs again after a back-off, instead of gating the pod until
//     some event.
//   - An update that does not change the node in the pod's status never clears a nomination, nor
//     does an attempt without nominating info. Terminating pods are not nominated.
//   - The queue remembers for Ungate that events came in while a pod was gated. Upstream,
//     preemptors may wait for an event that has already happened (kubernetes/kubernetes#141694).
//   - A pod that gives up volumes or devices that were reserved in memory only wakes the pods that
//     wait for them; see ReservationEnded.
//   - The events kept for pods in flight are bounded.
//   - Pods that are held for a while are reported; see ReportHeld.
package queue
