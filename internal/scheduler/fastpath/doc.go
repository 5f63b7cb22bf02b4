// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fastpath is the fast path of a decision: it finds the best nodes for a pod among all
// nodes without asking every plugin about every node again.
//
//	pod --> key --> class --+-- localRows: what the plugins that look at one node at a time say of each, shared by all
//	                        |   classes of one local key, worked out again where the snapshot's change log says so
//	                        |      +-- constraintRows: tolerations, node selector, node affinity; the plugins are asked
//	                        |      +-- demand: requests, by the numbers of the nodeTable; an exact twin of the plugins
//	                        |      +-- the other plugins, which are asked: NodePorts for pods with host ports, out-of-tree
//	                        +-- twins of PodTopologySpread and InterPodAffinity (package domains), kept up the same way
//	rows and twins --> groups: nodes that these cannot tell apart but by the scores that are not normalised, sorted by these
//	class --> pass over groups, or over all nodes: nodes that fit, totals, the best of them
//
// A pod that is like no other in its requests costs a loop over the numbers of all nodes, and no
// call of a plugin. One that names its node, as a DaemonSet's pods do, is looked up in the class of
// its DaemonSet (decideNamed).
//
// Pods are of one class if they are equal in all that plugins go by: pods of one Deployment are,
// and most others that look alike. Labels count if some selector asks about their key; when one
// asks about a key that none asked about before, all classes are forgotten. After a placement one
// node has changed, so the next decision for the class asks about one node, and looks at that one
// and at one of each group. Rows, twins and groups are shared by the classes that have the same of
// them. Nothing is approximated: for the same snapshot the nodes that fit, their totals and the set
// of best nodes are those that the scalar path (package algorithm) finds, which is what the tests
// there compare, over many thousands of steps.
//
// What plugins go by is known from a table (kindOf), or from the plugin itself (NodeLocal). Those
// that nothing is known of, and those for volumes and devices if the pod has such, are the rest:
// they are run for the pod, on its own CycleState, about the nodes that rows and twins have left
// (rest). For claims of the usual kinds two of them need not be asked (claims). A plugin of the
// rest may leave out nodes of any group, so it takes a pass over all nodes.
//
// Whatever does not fit takes the scalar path, and Decide says why (Reason): pods with a nomination
// of their own, some while others at least as important have one, pods that name several nodes. A
// pod that fits nowhere takes it too, for the explanation that preemption and the user need.
//
// Everything belongs to one instance of a profile and goes with it. It is bounded in bytes; the
// classes that were not used for the longest go first.
//
// The metrics of kube-scheduler keep their meaning: plugin_evaluation_total and
// plugin_execution_duration_seconds count calls of plugins, of which there are fewer;
// framework_extension_point_duration_seconds has the time that a decision took for what stands in
// the place of PreFilter (the class), Filter (rows and twins) and Score (totals), and no PreScore.
package fastpath
