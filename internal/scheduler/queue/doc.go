// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue holds the pods that wait to be scheduled: all of them, for all profiles. It knows nothing of profiles
// but their scheduler names and the values in Settings, which a reload replaces as one.
//
// A pod that the queue knows is in exactly one place:
//
//		Add, Update                            Pop                          Done: released
//		    |                                   ^                               ^
//		    v        all pass                   |                               |
//		PreEnqueue ------------------------> Active ------------------------> InFlight
//		  |   |  ^                              ^ ^                             |
//		  |   |  |                window over   | | Pop, while Active is empty  | Requeue
//		  |   |  +--------------- Backoff ------+-+                             v
//		  |   |                       ^         |                   do the events that came in
//		  |   | error, panic          |         |                   meanwhile help the pod?
//		  |   +------> ErrorBackoff --|---------+                     |      |            |
//		  |                  ^        |         ^                     |      |            |
//		  | refused          |        |         | hint: Queue         | no   | yes        | nobody refused it:
//		  v                  |        |         |                     |      |            | an error
//		Gated <-----> Unschedulable --+---------+ <-------------------+      |            |
//		                     |        +----- (PreEnqueue) -------------------+            |
//		                     +------------------- ErrorBackoff <--------------------------+
//
//	 1. Add, Update: PreEnqueue plugins are asked; one that refuses gates the pod, one that fails sends it to ErrorBackoff.
//	 2. Pop takes the first pod of Active by the queue sort, or the first of Backoff when Active is empty, and makes it
//	    InFlight. From then on every event that interests some plugin is written down for it.
//	 3. Requeue decides where a pod that could not be scheduled goes. The plugins that refused it say by their queueing
//	    hints whether one of the events may help it; if so, it is queued again after its back-off, or at once for
//	    plugins that had it pending. Otherwise it becomes Unschedulable.
//	 4. Move asks the same of Unschedulable pods, and of Gated ones whose gating plugin is interested, for each event.
//	 5. Run moves pods whose back-off is over, and those that have been Unschedulable or Gated for too long.
//	 6. Reconfigure replaces Settings and looks at the pods of all changed profiles again.
//
// Behaviour follows kube-scheduler 1.36 (pkg/scheduler/backend/queue) with its default feature gates, KEP-4247
// (queueing hints) and KEP-5142 (pop from backoff). It differs where that loses or strands pods:
//   - Requeue releases the in-flight entry before the pod can be popped again (kubernetes/kubernetes#139186).
//   - Pods are known by UID: one that is re-created under its name is another pod. A pod that was deleted, re-created
//     or assigned while it was in flight is dropped when it comes back (kubernetes/kubernetes#138316).
//   - Gated pods take part in the periodic flush; that a pod was flushed wakes no other.
//   - A PreEnqueue plugin that fails is asked again after a back-off, rather than gating the pod until some event.
//   - The events kept for pods in flight are bounded.
//   - The unschedulable_pods gauges count queued pods, wherever they are queued, and lose those that are deleted.
package queue
