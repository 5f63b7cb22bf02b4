// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package debugger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Kind is the kind of a difference.
type Kind string

// The kinds of differences.
const (
	// NodeMissing: the API server has the node, the cache has not.
	NodeMissing Kind = "NodeMissing"
	// NodeRedundant: the cache has the node, the API server has not. A placeholder node that holds
	// pods of a node that is gone does not count.
	NodeRedundant Kind = "NodeRedundant"
	// NodeDiffers: labels, taints, spec.unschedulable or allocatable of the cache's node are not
	// the API server's.
	NodeDiffers Kind = "NodeDiffers"
	// NodeRequests: the requests of the pods on the node do not add up to the sum of the cache.
	NodeRequests Kind = "NodeRequests"

	// PodMissing: the API server has the pod on a node, the cache has it on none.
	PodMissing Kind = "PodMissing"
	// PodRedundant: the cache has the pod, assumed or not, the API server has not.
	PodRedundant Kind = "PodRedundant"
	// PodMisplaced: the pod is on another node in the cache, or on more than one.
	PodMisplaced Kind = "PodMisplaced"
	// PodRequests: the cache counts other requests than the pod has.
	PodRequests Kind = "PodRequests"
	// PodUnconfirmed: the pod is still assumed, although the API server has it bound.
	PodUnconfirmed Kind = "PodUnconfirmed"

	// QueueMissing: a pod without a node whose scheduler name has a profile is neither queued nor
	// in flight nor assumed, and will not be scheduled. Or a pod on a node waits for room for its
	// resize, and is neither queued nor in flight.
	QueueMissing Kind = "QueueMissing"
	// QueueRedundant: the queue has a pod that is gone, or on a node and not to be resized there.
	QueueRedundant Kind = "QueueRedundant"

	// NominationDiffers: the pod's status names another node than the nominator.
	NominationDiffers Kind = "NominationDiffers"
	// NominationRedundant: the nominator has a node for a pod that is gone, or on a node.
	NominationRedundant Kind = "NominationRedundant"

	// DeviceDiffers: plugins take a device, or a share of one, for free although a claim has it, or
	// the other way around, or count more or fewer claims than have it. Consumed capacity is not
	// compared.
	DeviceDiffers Kind = "DeviceDiffers"
)

// Difference is one disagreement between the scheduler and the API server.
type Difference struct {
	Kind Kind
	// Object is the name of the node, namespace and name of the pod, or driver, pool and name of
	// the device.
	Object string
	// UID is the pod's; empty for nodes and devices.
	UID types.UID
	// Detail describes the values of both sides.
	Detail string
}

// Compare returns all differences between the API server and the scheduler, sorted by kind and
// object. It changes neither. If the two were not read at the same moment, some differences are due
// to that.
func Compare(cluster *Cluster, state *State) []Difference {
	c := &comparison{cluster: cluster, state: state, placed: map[types.UID]placement{},
		queued: sets.New[types.UID]()}
	c.collect()
	c.nodes()
	c.pods()
	c.requests()
	c.pendingPods()
	c.nominations()
	c.devices()
	slices.SortFunc(c.found, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object), cmp.Compare(a.UID, b.UID))
	})
	return c.found
}

// comparison is one run of Compare.
type comparison struct {
	cluster *Cluster
	state   *State
	placed  map[types.UID]placement
	queued  sets.Set[types.UID]
	// reported holds the nodes with a pod that differs: their sums need not be reported as well.
	reported sets.Set[string]
	found    []Difference
}

// placement is the node on which the cache has a pod.
type placement struct {
	pod      Pod
	node     string
	requests *schedframework.Resource
	assumed  bool
}

func (c *comparison) differ(kind Kind, object string, uid types.UID, format string, args ...any) {
	c.found = append(c.found, Difference{Kind: kind, Object: object, UID: uid, Detail: fmt.Sprintf(format, args...)})
}

// podDiffers records a difference that also appears in the sums of the nodes.
func (c *comparison) podDiffers(kind Kind, object string, uid types.UID, nodes []string, format string, args ...any) {
	c.reported.Insert(nodes...)
	c.differ(kind, object, uid, format, args...)
}

// collect reads the cache and the queue.
func (c *comparison) collect() {
	c.reported = sets.New[string]()
	for _, name := range slices.Sorted(maps.Keys(c.state.Cache.Nodes)) {
		for _, p := range c.state.Cache.Nodes[name].GetPods() {
			pod := p.GetPod()
			if before, ok := c.placed[pod.UID]; ok {
				c.podDiffers(PodMisplaced, before.pod.String(), pod.UID, []string{before.node, name},
					"the cache has it on two nodes, %s and %s", before.node, name)
				continue
			}
			c.placed[pod.UID] = placement{
				pod:      Pod{Namespace: pod.Namespace, Name: pod.Name},
				node:     name,
				requests: requestsOf(p),
				assumed:  c.state.Cache.AssumedPods.Has(pod.UID),
			}
		}
	}
	for i := range c.state.Queue {
		c.queued.Insert(c.state.Queue[i].Pod.UID)
	}
}

func (c *comparison) nodes() {
	for name, want := range c.cluster.Nodes {
		info := c.state.Cache.Nodes[name]
		if info == nil || info.Node() == nil {
			c.differ(NodeMissing, name, "", "the API server has the node, the cache has not")
			continue
		}
		have := nodeOf(info.Node())
		part := func(what string, want, have any) {
			if !equality.Semantic.DeepEqual(want, have) {
				c.differ(NodeDiffers, name, "", "%s: the API server has %v, the cache %v", what, want, have)
			}
		}
		part("labels", want.Labels, have.Labels)
		part("taints", want.Taints, have.Taints)
		part("unschedulable", want.Unschedulable, have.Unschedulable)
		if !equality.Semantic.DeepEqual(want.Allocatable, have.Allocatable) {
			c.differ(NodeDiffers, name, "", "allocatable: the API server has %s, the cache %s",
				format(schedframework.NewResource(want.Allocatable)),
				format(schedframework.NewResource(have.Allocatable)))
		}
	}
	for name, info := range c.state.Cache.Nodes {
		if _, ok := c.cluster.Nodes[name]; !ok && info.Node() != nil {
			c.differ(NodeRedundant, name, "", "the cache has the node, the API server has not")
		}
	}
}

// pods compares the nodes of the pods.
func (c *comparison) pods() {
	for uid, want := range c.cluster.Pods {
		have, cached := c.placed[uid]
		switch {
		case want.NodeName == "" && !cached:
		case want.NodeName == "" && !have.assumed:
			c.podDiffers(PodRedundant, want.String(), uid, []string{have.node},
				"the cache has it on node %s, for the API server it is on none", have.node)
		case want.NodeName == "":
		case !cached:
			c.podDiffers(PodMissing, want.String(), uid, []string{want.NodeName},
				"the API server has it on node %s, the cache on none", want.NodeName)
		case have.node != want.NodeName:
			c.podDiffers(PodMisplaced, want.String(), uid, []string{have.node, want.NodeName},
				"the API server has it on node %s, the cache on %s", want.NodeName, have.node)
		case have.assumed:
			c.differ(PodUnconfirmed, want.String(), uid, "it is bound to node %s, and still assumed there",
				want.NodeName)
		}
		if cached && !sameResource(want.Requests, have.requests) {
			c.podDiffers(PodRequests, want.String(), uid, []string{have.node},
				"it asks for %s, the cache counts it for %s", format(want.Requests), format(have.requests))
		}
	}
	for uid, have := range c.placed {
		if _, ok := c.cluster.Pods[uid]; !ok {
			how := "has"
			if have.assumed {
				how = "assumes"
			}
			c.podDiffers(PodRedundant, have.pod.String(), uid, []string{have.node},
				"the cache %s it on node %s, the API server does not have it", how, have.node)
		}
	}
}

// requests compares the sums of the nodes, except those whose pods differ anyway.
func (c *comparison) requests() {
	sums := map[string]*schedframework.Resource{}
	for uid, pod := range c.cluster.Pods {
		node := pod.NodeName
		if node == "" {
			node = c.placed[uid].node // where it is assumed
		}
		if node == "" {
			continue
		}
		if sums[node] == nil {
			sums[node] = &schedframework.Resource{}
		}
		add(sums[node], pod.Requests)
	}
	for name, info := range c.state.Cache.Nodes {
		want := sums[name]
		if want == nil {
			want = &schedframework.Resource{}
		}
		if !c.reported.Has(name) && !sameResource(want, info.Requested) {
			c.differ(NodeRequests, name, "", "its pods ask for %s, the cache has counted %s", format(want),
				format(info.Requested))
		}
	}
}

// awaitsResize reports whether a pod is on a node, and is to be in the queue all the same.
func (c *comparison) awaitsResize(pod Pod) bool { return c.state.DeferredResizes && pod.ResizeDeferred }

// pendingPods compares the queue with the pods that have no node, and those to be resized.
func (c *comparison) pendingPods() {
	for uid, pod := range c.cluster.Pods {
		if pod.Deleting || !c.state.Served.Has(pod.SchedulerName) {
			continue
		}
		if pod.NodeName != "" {
			if c.awaitsResize(pod) && !c.queued.Has(uid) {
				c.differ(QueueMissing, pod.String(), uid,
					"its resize is deferred and it asks for scheduler %q, but is neither queued nor under way",
					pod.SchedulerName)
			}
			continue
		}
		if _, cached := c.placed[uid]; !cached && !c.queued.Has(uid) {
			c.differ(QueueMissing, pod.String(), uid,
				"it has no node and asks for scheduler %q, but is neither queued nor under way", pod.SchedulerName)
		}
	}
	for i := range c.state.Queue {
		s := &c.state.Queue[i]
		object := Pod{Namespace: s.Pod.Namespace, Name: s.Pod.Name}.String()
		switch pod, ok := c.cluster.Pods[s.Pod.UID]; {
		case !ok:
			c.differ(QueueRedundant, object, s.Pod.UID, "it is %s in the queue, the API server does not have it",
				s.Place)
		case c.awaitsResize(pod):
		case pod.NodeName != "":
			c.differ(QueueRedundant, object, s.Pod.UID, "it is %s in the queue, the API server has it on node %s",
				s.Place, pod.NodeName)
		case s.Place != queue.InFlight && c.placed[s.Pod.UID].assumed:
			c.differ(QueueRedundant, object, s.Pod.UID, "it is %s in the queue and assumed on node %s", s.Place,
				c.placed[s.Pod.UID].node)
		}
	}
}

// nominations compares the nominator with the status of the pods that wait. Nominations of
// terminating pods do not count.
func (c *comparison) nominations() {
	known := map[types.UID]string{}
	for _, n := range c.state.Nominations {
		known[n.Pod.UID] = n.Node
		object := Pod{Namespace: n.Pod.Namespace, Name: n.Pod.Name}.String()
		switch pod, ok := c.cluster.Pods[n.Pod.UID]; {
		case !ok:
			c.differ(NominationRedundant, object, n.Pod.UID, "it is promised node %s, the API server does not have it",
				n.Node)
		case pod.NodeName != "":
			c.differ(NominationRedundant, object, n.Pod.UID, "it is promised node %s, the API server has it on node %s",
				n.Node, pod.NodeName)
		case pod.NominatedNodeName != n.Node:
			c.differ(NominationDiffers, object, n.Pod.UID, "it is promised node %s, its status names %s", n.Node,
				cmp.Or(pod.NominatedNodeName, "none"))
		}
	}
	for uid := range c.queued {
		pod, ok := c.cluster.Pods[uid]
		if !ok || pod.Deleting || pod.NodeName != "" || pod.NominatedNodeName == "" || c.placed[uid].assumed {
			continue
		}
		if _, nominated := known[uid]; !nominated {
			c.differ(NominationDiffers, pod.String(), uid, "its status names node %s, nothing is held free for it",
				pod.NominatedNodeName)
		}
	}
}

// devices compares the number of claims that have each device.
func (c *comparison) devices() {
	for device := range sets.KeySet(c.cluster.Devices).Union(sets.KeySet(c.state.Devices)) {
		if want, have := c.cluster.Devices[device], c.state.Devices[device]; want != have {
			c.differ(DeviceDiffers, device, "", "claims that have it: %d in the API server, %d for plugins", want, have)
		}
	}
}
