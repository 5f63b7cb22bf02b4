// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue holds the pods that wait to be scheduled: all of them, for all profiles. It knows
// nothing of profiles but their scheduler names and the values in Settings, which a reload replaces
// as one.
//
// A pod that the queue knows is in exactly one place:
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
//	InFlight                 Unschedulable  Requeue: plugins refused the pod, and nothing has happened that may help it
//	InFlight                 Backoff        Requeue: an event came in meanwhile that may help it
//	InFlight                 ErrorBackoff   Requeue: it met an error
//	InFlight                 Active         Requeue: as the two before, but its back-off is over or a plugin only had it
//	                                        pending; or its profile was reloaded
//	Unschedulable, Gated     Backoff        Move, Update: an event that may help it; or it has waited for too long
//	Unschedulable, Gated     Active         the same, but its back-off is over or a plugin only had it pending
//	Backoff, ErrorBackoff    Active         the window of the end of its back-off is over
//	Gated                    Backoff        Ungate: the gate is open, and something came in while it was not
//	Unschedulable, Gated     ErrorBackoff   RetryLater: what its last attempt set in motion has failed
//	all but InFlight         Active         Activate; Reconfigure, if its profile is another one now (a few pods at a time)
//
// On the way to Active and Backoff, except from Backoff, the PreEnqueue plugins are asked. One that
// refuses makes the pod Gated instead; one that fails, ErrorBackoff, from where it is asked again.
// Whether an event may help a pod is for the queueing hints of those plugins to say that refused
// it; of a Gated pod, only if the event interests its gate. For pods in flight, events that
// interest any plugin are kept until the pods come back.
//
// Behaviour follows kube-scheduler 1.36 (pkg/scheduler/backend/queue) with its default feature
// gates, KEP-4247 (queueing hints) and KEP-5142 (pop from backoff). It differs where that loses or
// strands pods, or does needless work:
//   - Requeue lets go of what is kept for the pod in flight before the pod can be popped again;
//     otherwise the pod is discarded when it is popped in between (kubernetes/kubernetes#139186).
//   - Pods are known by UID: one that is re-created under its name is another pod. One that was
//     deleted, re-created or assigned while it was in flight is dropped when it comes back, and
//     nothing kept for it stays behind (kubernetes/kubernetes#138316).
//   - An update of a pod that is assumed is kept like that of any pod in flight: should the pod be
//     refused on Permit, the update may be what helps it.
//   - Gated pods take part in the periodic flush. That one pod is flushed does not wake those in
//     flight.
//   - A PreEnqueue plugin that fails is asked again after a back-off, rather than gating the pod
//     until some event.
//   - A node in the status of a gated pod counts as nominated when the pod is let in. An update
//     that does not change that node never takes back a nomination, nor does an attempt that says
//     nothing of nominations. Pods that are being deleted are not nominated.
//   - What comes in while a pod is gated is kept for Ungate, where upstream's preemptors may wait
//     for an event that was there already (kubernetes/kubernetes#140082).
//   - The events kept for pods in flight are bounded.
//   - The unschedulable_pods gauges count queued pods wherever they are queued, and not those that
//     were deleted.
package queue
