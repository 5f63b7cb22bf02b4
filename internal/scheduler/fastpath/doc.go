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
//	pod --> key --> class --+-- localRows: the answers of the plugins that depend on one node at a
//	                        |   time, for all nodes; shared by all classes of one local key
//	                        |     +-- eligibilityRows: tolerations, node selector, node affinity;
//	                        |     |   the plugins are run
//	                        |     +-- demand: requests, computed from the numbers of the nodeTable
//	                        |     |   exactly as the plugins compute them
//	                        |     +-- other plugins, which are run: NodePorts for pods with host
//	                        |         ports, out-of-tree plugins that are NodeLocal
//	                        +-- trackers of PodTopologySpread, InterPodAffinity (package topology)
//	rows and trackers --> groups: nodes that differ in the scores that are not normalized alone,
//	                      sorted by these
//	class --> pass over groups, or over all nodes: the nodes that fit, their totals, the best nodes
//
// The terms: a class is a set of pods that are equal in everything that plugins read, as the pods
// of a Deployment are. A slot is the number of a node in the snapshot. A row holds the answers
// about one node for the pods with one key; rows are stored as columns by slot.
//
// Rows, trackers and groups catch up with the snapshot through its change log. After a placement
// one node has changed, so the next decision for the class evaluates that node, and examines it and
// one node of each group. A label counts in a key if some selector reads it; when a selector reads
// a label key for the first time, all classes are dropped. Nothing is approximated: for the same
// snapshot, the nodes that fit, their totals and the set of best nodes equal those that the scalar
// path (package algorithm) finds. The tests of that package compare them, over many thousands of
// steps.
//
// A Plan describes how the fast path treats the plugins of one instance of a profile. It is made
// with the instance. The inputs of a plugin are known from a table (kindOf), or from the plugin
// itself (NodeLocal). Plugins whose inputs are not known are uncached, and so are those for volumes
// and devices if the pod has any: they are run for the pod, on its own CycleState, on the nodes
// that rows and trackers accept. For claims of the usual kinds, three of these plugins need not be
// run (claimCheck), and for ResourceClaims that are not allocated yet, DynamicResources only where
// devices have changed, and on the chosen node (deviceRows). An uncached plugin may refuse any node
// of a group, so it requires a pass over all nodes, unless claimCheck knows that it accepts them
// all. Plugins that score before Filter (EarlyScorer) are run for each pod, too, on all nodes that
// rows accept: lateSearch then runs the uncached plugins on the best of these first.
//
// A pod with unique requests costs a loop over the numbers of all nodes, and no call of a plugin. A
// pod that names its node, as DaemonSet pods do, is looked up in the class of its DaemonSet
// (decideNamed).
//
// All other pods take the scalar path, for a Reason: pods with a nominated node, some
// pods while others that are at least as important have one, and pods that name several nodes. The
// first pod of a class that fits no node takes the scalar path too, for the explanation that
// preemption and the user need.
//
// The classes and rows belong to profiles with the same plugins and arguments (setup), and are
// dropped with the last of these. Their size in bytes is bounded (classTable, residents).
//
// The metrics of kube-scheduler keep their meaning. plugin_evaluation_total and
// plugin_execution_duration_seconds count calls of plugins, so their values are lower.
// framework_extension_point_duration_seconds has the duration of what replaces PreFilter (the
// class), Filter (rows and trackers) and Score (totals), and no PreScore.
package fastpath
