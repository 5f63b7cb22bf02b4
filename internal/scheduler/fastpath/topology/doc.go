// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topology decides what PodTopologySpread and InterPodAffinity decide, without looking at
// every node and pod for every pod that is scheduled.
//
// Both plugins count, over topology domains (the values of a node label such as
// topology.kubernetes.io/zone), pods that match a selector. What one node adds to such a count
// depends on that node alone. A [Tracker] keeps for each node what it adds, and for each domain the
// sum: when something happens to a node, what it added is taken back and added anew. And what a pod
// adds depends on its signature (package cache): its namespace, labels and terms. A selector is
// asked once for each signature, and a [Tracker] remembers the answer (memo.go).
//
//	                    Sources: snapshot, namespaces, services, controllers
//	                       |
//	  SpreadConstraints, Twin    |            Affinity           one of each for a class of pods, or for some classes
//	tally per constraint   |    axis per topology key
//	  places: where each node is under the key             (domain.go)
//	  what each node adds; the sum of each domain          (tally.go, axis.go)
//	  Filter, Keep, Score from the sums alone              (spread_decide.go, affinity_decide.go)
//	  which nodes these cannot tell apart                  (groups.go)
//
// [Mentions] are the keys of labels that any selector here asks about, so that whoever sorts pods
// into classes can leave the other labels out.
//
// The answers are the plugins' own, to the last bit of a score: the tests compare them with
// upstream's plugins on every node while a random cluster changes. What the plugins do that one
// would not expect is kept, and said where it is done: a spread constraint whose selector selects
// everything counts no pods; by the system's default constraints a node without the label shares a
// domain with those whose label is empty; a namespace selector that also matches no labels at all
// matches every namespace.
package topology
