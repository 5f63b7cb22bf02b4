// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package domains decides what PodTopologySpread and InterPodAffinity decide, without looking at every node and pod for
// every pod that is scheduled.
//
// Both plugins count, over topology domains (the values of a node label such as topology.kubernetes.io/zone), pods that
// match a selector. What one node adds to such a count depends on that node alone. A [Cross] keeps for each node what
// it adds, and for each domain the sum: when something happens to a node, what it added is taken back and added anew.
package domains
