// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topology tracks the state that PodTopologySpread and InterPodAffinity decide on, so that
// scheduling a pod need not visit every node and pod.
//
// Both plugins count, over topology domains (the values of a node label such as
// topology.kubernetes.io/zone), pods that match a selector. The contribution of one node to such a
// count depends on that node alone. A [Tracker] keeps the contribution of each node and the sum of
// each domain: when a node changes, its contribution is subtracted and its new one is added. The
// contribution of a pod depends on its signature (package cache): its namespace, labels and terms.
// A selector is matched once for each signature, and a Tracker remembers the result (memo.go).
//
//	Factory                          one for an instance of a profile, with the plugins' arguments
//	   |  Sources                    snapshot, namespaces, services, controllers
//	   v
//	SpreadConstraints, spread        affinity                     for one class of pods, or for some
//	tally for each constraint        axis for each topology key
//	  places: where each node is under the key       (domain.go)
//	  the contribution of each node; domain sums     (tally.go, axis.go)
//	  Keep, Score from the sums alone                (spread_decide.go, affinity_decide.go)
//	  nodes that these cannot distinguish            (groups.go)
//
// [Mentions] are the label keys that the selectors here read. All other labels are ignored when
// pods are sorted into classes.
//
// The answers are the plugins' own, to the last bit of a score: the tests compare them with
// upstream's plugins on every node while a random cluster changes. Surprising behavior of the
// plugins is kept, with a comment where it is implemented: a spread constraint whose selector
// selects everything counts no pods; by the system's default constraints a node without the label
// shares a domain with those whose label is empty; a namespace selector that also matches no labels
// at all matches every namespace.
package topology
