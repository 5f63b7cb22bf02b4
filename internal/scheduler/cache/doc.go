// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cache holds the scheduler's view of the cluster: every node, every pod that is assigned
// to a node or assumed on one, and the [Snapshot] of both that a scheduling cycle uses.
//
//	 informers              loop, binding cycles                    scheduling cycle
//	AddNode, AddPod ...     AssumePod, ForgetPod              plugins, algorithm (no locks)
//	        \                     /                                     |
//	         v                   v                                      v
//	   +--------------------------------+   UpdateSnapshot   +----------------------------+
//	   | Cache        (under Cache.mu)  |                    | Snapshot                   |
//	   |  nodes: object + pods          |  journal: what     |  slot -> NodeInfo          |
//	   |  pods:  by UID, assumed or not |  happened since -> |  change log, topologies,   |
//	   |  zones: the nodes' order       |                    |  signatures, node sets,    |
//	   |                                |                    |  images, PVCs              |
//	   +--------------------------------+                    +----------------------------+
//
// The cache stores facts only: the object of each node and the pods on it. Everything computed from
// them (requested resources, used ports, image counts, topology domains, signatures of pods ...) is
// in the snapshot only. An event costs the cache a map access and an entry in the journal;
// UpdateSnapshot applies the journal to the snapshot's own NodeInfos in place. Nothing is cloned:
// the cost of a refresh depends on the number of changes, not on the number of nodes. The journal
// is bounded: if more changes than it holds come in between two refreshes, the nodes concerned are
// rebuilt from the facts.
//
// The states of a pod in the cache:
//
//	           AssumePod               AddPod, UpdatePod              UpdatePod
//	(unknown) -----------> assumed ---------------------> added -------------------> added
//	    ^                     |  \                          |   (also to another node)
//	    +---------------------+   +--------- RemovePod -----+--> (unknown)
//	          ForgetPod
//
// An assumed pod stays until it is confirmed, forgotten or removed; it never expires. Pods are
// identified by UID, so a pod that is re-created under the same name is another pod.
//
// The cache follows the rules of kube-scheduler 1.37 (pkg/scheduler/backend/cache), except where
// kube-scheduler ends the process or lets the cache drift: objects from the API server always win.
// A pod that is reported on another node moves there; a pod that is added twice, or updated without
// having been added, is stored on the node that it names. A host port that two pods share stays in
// use when one of them is removed. The node counts of images are current on every node, while
// kube-scheduler's are as old as the last change of the node that they are read from. A claim is in
// use if a pod on a node of the snapshot uses it; kube-scheduler's count drifts.
package cache
