// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fastpath is the fast path of a decision: it finds the best nodes for a pod among all
// nodes without running every plugin on every node again.
//
//	Engine.Decide(Request) --> Attempt
//	  |                          Fit      the best nodes; Take one
//	  |                          Unfit    no node; Explain, or Keep the scalar path's explanation
//	  |                          Err      a plugin that must not be run again has failed
//	  |                          Reason   the pod takes the scalar path, with State
//	  v
//	pod --> key --> class --+-- localRows: the answers of the plugins that look at one node at a
//	                        |   time, for all nodes; shared by all classes of one local key
//	                        |     +-- eligibilityRows: tolerations, node selector, node affinity;
//	                        |     |   the plugins are run
//	                        |     +-- demand: requests, computed from the numbers of the nodeTable
//	                        |     |   exactly as the plugins compute them
//	                        |     +-- other plugins, which are run: NodePorts for pods with host
//	                        |         ports, out-of-tree plugins that are NodeLocal
//	                        +-- trackers of PodTopologySpread and InterPodAffinity (package topology)
//	rows and trackers --> groups: nodes that differ in the scores that are not normalized alone,
//	                      sorted by these
//	class --> pass over groups, or over all nodes: the nodes that fit, their totals, the best nodes
//
// The terms: a class is the pods that are equal in all that plugins read, as the pods of a
// Deployment are. A slot is the number of a node in the snapshot. A row is the knowledge about one
// node for the pods with one key; rows are kept as columns by slot.
//
// Rows, trackers and groups catch up with the snapshot through its change log. After a placement
// one node has changed, so the next decision for the class evaluates one node, and examines that
// one and one of each group. Labels count in a key if some selector asks about them; when one asks
// about a key that none asked about before, all classes are forgotten. Nothing is approximated: for
// the same snapshot the nodes that fit, their totals and the set of best nodes are those that the
// scalar path (package algorithm) finds. The tests there compare them, over many thousands of
// steps.
//
// A Plan is how the fast path treats the plugins of one instance of a profile. It is made with the
// instance. The inputs of a plugin are known from a table (kindOf), or from the plugin itself
// (NodeLocal). Plugins whose inputs are not known, and those for volumes and devices if the pod has
// such, are uncached: they are run for the pod, on its own CycleState, on the nodes that rows and
// trackers accept. For claims of the usual kinds two of them need not be run (claimCheck). An
// uncached plugin may leave out nodes of any group, so it takes a pass over all nodes.
//
// A pod whose requests are like no other's costs a loop over the numbers of all nodes, and no call
// of a plugin. One that names its node, as a DaemonSet's pods do, is looked up in the class of its
// DaemonSet (decideNamed).
//
// All other pods take the scalar path, and the Reason tells why: pods with a nominated node, some
// pods while others at least as important have one, pods that name several nodes. The first pod of
// a class that fits nowhere takes it too, for the explanation that preemption and the user need.
//
// What is kept belongs to one instance of a profile and goes with it. It is bounded in bytes; the
// classes that were not used for the longest go first (classTable).
//
// The metrics of kube-scheduler keep their meaning: plugin_evaluation_total and
// plugin_execution_duration_seconds count calls of plugins, of which there are fewer;
// framework_extension_point_duration_seconds has the time that a decision took for what stands in
// for PreFilter (the class), Filter (rows and trackers) and Score (totals), and no PreScore.
package fastpath
