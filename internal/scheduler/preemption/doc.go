// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preemption makes room for pods that fit nowhere by evicting pods with a lower priority.
// kube-scheduler's DefaultPreemption decides which ones; this package saves it work, evicts the
// victims, and requeues the preemptor (KEP-4832, asynchronous preemption).
//
//	scheduling cycle: the pod fits on no node
//	  |
//	  v
//	Plugin.PostFilter
//	  | victims of its last preemption are still on the nominated node? -> wait for them
//	  | no pod has a lower priority? (noVictims)            -> preemption does not help
//	  | dry runs known for its class? (search)              -> does not help, or one node to try
//	  | upstream's Evaluator: dry runs, candidates, choice  -> does not help, or a node
//	  | the victims on that node (collector, in the context)
//	  v
//	Evictor.begin ------------------------------.
//	  |                                         |
//	  v                                         v
//	the pod goes back to the queue,           a new goroutine (Evictor.run):
//	nominated for the node; PreEnqueue          clears nominations of less important pods
//	holds it back until then                    for the node, evicts the victims, and waits
//	  |                                         until the cache knows of it
//	  |                                         |
//	  |<----------------------------------------'
//	  |   Queue.Ungate, or Queue.RetryLater if an eviction failed
//	  v
//	victim deleted, or its binding cycle undone: an event moves the preemptor to the active queue
//	  |
//	  v
//	scheduling cycle: the preemptor fits on its nominated node, or waits for the remaining victims
//
// Each instance of a profile has its own [Plugin]. Only the goroutine of the scheduling loop calls
// PostFilter, so it owns everything that the Plugin remembers. The process has one [Evictor], so
// that a preemption outlives the instance that decided it.
//
// A [Trial] chooses a node and victims in the same way on a fork, and evicts no pods.
package preemption
