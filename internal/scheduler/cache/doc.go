// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cache holds what the cluster looks like to the scheduler: every node and every pod that
// is on one or was promised one, and the [Snapshot] of it that a scheduling cycle decides on.
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
// The cache keeps facts only: which object a node has and which pods are on it. Whatever is added
// up from them (requested resources, used ports, image counts, topology domains, signatures of pods
// ...) is kept in the snapshot alone. An event costs the cache a map access and an entry in the
// journal; UpdateSnapshot applies the journal to the snapshot's own NodeInfos in place. Nothing is
// cloned, and a snapshot of 100,000 nodes costs as much to refresh as one of 10 if as much has
// happened. The journal is bounded: nodes to which more happens between two refreshes than it holds
// are built anew from the facts.
//
// How a pod gets into the cache and out of it:
//
//	           AssumePod               AddPod, UpdatePod              UpdatePod
//	(unknown) -----------> assumed ---------------------> added -------------------> added
//	    ^                     |  \                          |   (also to another node)
//	    +---------------------+   +--------- RemovePod -----+--> (unknown)
//	          ForgetPod
//
// An assumed pod stays until it is confirmed, forgotten or removed; it never expires. Pods are
// known by UID, so a pod that is made again under the name of a deleted one is another pod.
//
// The rules are those of kube-scheduler 1.36 (pkg/scheduler/backend/cache). They differ where
// kube-scheduler ends the process or lets the cache drift: an object from the API server is always
// taken for what it says. A pod that turns up on another node than it was on moves there; one that
// is reported a second time, or updated without having been added, is put where it belongs. A host
// port that two pods share stays taken when one of them goes. The node counts of images are those
// of the moment for every node, while kube-scheduler's are as old as the last change of the node
// that they are read from.
package cache
