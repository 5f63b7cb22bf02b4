// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

const (
	// scarcest stands for the resource of which the smallest share is free, node by node.
	scarcest = "scarcest"
	// strandedPercent is how much of a resource must be free on a stranded node. Less is no room.
	strandedPercent = 5
)

// nodeRoom is the room of one node for the chosen resource.
type nodeRoom struct {
	*v1alpha1.NodeAllocation
	Resource corev1.ResourceName // the chosen one, or the scarcest
	Percent  int                 // of the resource that is free; -1 if the node has none
	Stranded bool
}

// roomView is the summary by pool.
type roomView struct {
	Namespace string
	Asked     string // the resource that the user has chosen, or ""
	Resource  string // the one that is shown
	Resources []string
	Pod       types.NamespacedName // for which stranded nodes lack some resource
	Nodes     int
	Stranded  int
	Pools     []poolRow
}

// poolRow sums up the nodes of a pool.
type poolRow struct {
	Pool        string
	Nodes       int
	Resource    string
	Free, Total string
	Percent     int
	Stranded    int
	Closed      int // cordoned, or not ready
}

// roomMap is what the heat map draws: a cell for each node, by pool. The lists of nodes are in the
// order of the cells.
type roomMap struct {
	Pools     []mapPool `json:"pools"`
	Names     []string  `json:"names"`
	Percents  []int     `json:"percents"`
	Flags     []int     `json:"flags"` // 1: stranded; 2: cordoned or not ready
	Which     []int     `json:"which"` // an index of resources
	Resources []string  `json:"resources"`
}

type mapPool struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
}

func (h *handler) roomPart(r *http.Request, s Source) answer {
	return answer{part: "room", data: loadRoom(r.Context(), s, namespaceOf(r), r.URL.Query().Get("resource"))}
}

// roomData answers the heat map. The part beside it shows the errors.
func (h *handler) roomData(r *http.Request, s Source) answer {
	list, kind, err := allocations(r.Context(), s, namespaceOf(r))
	if err != nil {
		p := problemOf(err)
		return answer{status: p.Status, json: p}
	}
	return answer{json: mapOf(roomsOf(list.Items, shownResource(r.URL.Query().Get("resource"), kind, list.Items)))}
}

// allocations returns the room of nodes, and the largest kind of pending pods, whose first pod they
// refuse or not. Without a kind, or one that the user may see, it is zero, and no node refuses it.
func allocations(ctx context.Context, s Source, namespace string) (*v1alpha1.NodeAllocationList,
	*v1alpha1.PendingKind, error) {
	kind := &v1alpha1.PendingKind{}
	if kinds, err := s.PendingKinds(ctx, namespace, 1); err == nil && len(kinds.Items) > 0 {
		kind = &kinds.Items[0]
	}
	list, err := s.NodeAllocations(ctx, types.NamespacedName{Namespace: kind.Namespace, Name: kind.Pod})
	if apierrors.IsNotFound(err) && kind.Pod != "" { // it has ended in the meantime
		kind = &v1alpha1.PendingKind{}
		list, err = s.NodeAllocations(ctx, types.NamespacedName{})
	}
	return list, kind, err
}

// shownResource returns the resource that is shown: the one that was asked for, or else an extended
// resource that the largest kind requests and nodes have, or else the scarcest.
func shownResource(asked string, kind *v1alpha1.PendingKind, nodes []v1alpha1.NodeAllocation) corev1.ResourceName {
	if asked != "" {
		return corev1.ResourceName(asked)
	}
	for _, name := range resourcesOf(nodes) {
		if name := corev1.ResourceName(name); order(name) == 0 && valueOf(kind.Requests, name) > 0 {
			return name
		}
	}
	return scarcest
}

// loadRoom returns the summary by pool.
func loadRoom(ctx context.Context, s Source, namespace, resource string) part[roomView] {
	v := roomView{Namespace: namespace, Asked: resource, Resources: []string{"cpu", "memory", "pods"}}
	list, kind, err := allocations(ctx, s, namespace)
	if err != nil {
		return partOf(v, err)
	}
	v.Pod = types.NamespacedName{Namespace: kind.Namespace, Name: kind.Pod}
	v.Nodes, v.Resources = len(list.Items), resourcesOf(list.Items)
	shown := shownResource(resource, kind, list.Items)
	v.Resource = string(shown)
	for _, pool := range byPool(roomsOf(list.Items, shown)) {
		row := poolOf(pool, shown)
		v.Stranded += row.Stranded
		v.Pools = append(v.Pools, row)
	}
	return part[roomView]{Data: v}
}

// resourcesOf lists the resources that any node has, without those that do not keep pods apart.
func resourcesOf(nodes []v1alpha1.NodeAllocation) []string {
	seen := map[corev1.ResourceName]bool{}
	for i := range nodes {
		for name, quantity := range nodes[i].Allocatable {
			if order(name) < 4 && !seen[name] && !quantity.IsZero() {
				seen[name] = true
			}
		}
	}
	var names []corev1.ResourceName
	for name := range seen {
		names = append(names, name)
	}
	var texts []string
	for _, name := range sorted(names) {
		texts = append(texts, string(name))
	}
	return texts
}

// roomsOf returns the room of each node, by pool.
func roomsOf(nodes []v1alpha1.NodeAllocation, resource corev1.ResourceName) []nodeRoom {
	rooms := make([]nodeRoom, 0, len(nodes))
	for i := range nodes {
		rooms = append(rooms, roomOf(&nodes[i], resource))
	}
	slices.SortStableFunc(rooms, func(a, b nodeRoom) int { return strings.Compare(a.Pool, b.Pool) })
	return rooms
}

func roomOf(n *v1alpha1.NodeAllocation, resource corev1.ResourceName) nodeRoom {
	room := nodeRoom{NodeAllocation: n, Resource: resource, Percent: -1}
	if resource != scarcest {
		room.Percent = freePercent(n, resource)
	} else {
		for name := range n.Allocatable {
			percent := freePercent(n, name)
			if order(name) < 4 && percent >= 0 && (room.Percent < 0 || percent < room.Percent ||
				percent == room.Percent && cmp.Or(cmp.Compare(order(name), order(room.Resource)),
					cmp.Compare(name, room.Resource)) < 0) {
				room.Resource, room.Percent = name, percent
			}
		}
	}
	room.Stranded = n.Refusal == v1alpha1.ReasonInsufficientResource && room.Percent >= strandedPercent
	return room
}

// freePercent returns how much of a resource is free, from 0 to 100, or -1 if the node has none.
func freePercent(n *v1alpha1.NodeAllocation, name corev1.ResourceName) int {
	total := valueOf(n.Allocatable, name)
	if total <= 0 {
		return -1
	}
	return int(100 * max(total-valueOf(n.Requested, name), 0) / total)
}

// byPool cuts the rooms, which are sorted by pool.
func byPool(rooms []nodeRoom) (pools [][]nodeRoom) {
	for from := 0; from < len(rooms); {
		to := from + 1
		for to < len(rooms) && rooms[to].Pool == rooms[from].Pool {
			to++
		}
		pools = append(pools, rooms[from:to])
		from = to
	}
	return pools
}

// poolOf sums up a pool. The scarcest resource of a pool is that of its sums.
func poolOf(rooms []nodeRoom, resource corev1.ResourceName) poolRow {
	row := poolRow{Pool: rooms[0].Pool, Nodes: len(rooms)}
	sum := v1alpha1.NodeAllocation{Allocatable: corev1.ResourceList{}, Requested: corev1.ResourceList{}}
	for i := range rooms {
		n := rooms[i].NodeAllocation
		addTo(sum.Allocatable, n.Allocatable)
		addTo(sum.Requested, n.Requested)
		if rooms[i].Stranded {
			row.Stranded++
		}
		if n.Cordoned || n.NotReady {
			row.Closed++
		}
	}
	room := roomOf(&sum, resource)
	total := valueOf(sum.Allocatable, room.Resource)
	row.Resource, row.Percent = string(room.Resource), room.Percent
	row.Total = amount(room.Resource, total)
	row.Free = amount(room.Resource, max(total-valueOf(sum.Requested, room.Resource), 0))
	return row
}

func addTo(sum, list corev1.ResourceList) {
	for name, quantity := range list {
		s := sum[name]
		s.Add(quantity)
		sum[name] = s
	}
}

// mapOf returns the rooms for the heat map.
func mapOf(rooms []nodeRoom) *roomMap {
	m := &roomMap{Pools: []mapPool{}, Names: []string{}, Resources: []string{}}
	for _, pool := range byPool(rooms) {
		m.Pools = append(m.Pools, mapPool{pool[0].Pool, len(pool)})
	}
	which := map[corev1.ResourceName]int{}
	for i := range rooms {
		room := &rooms[i]
		at, known := which[room.Resource]
		if !known {
			at = len(m.Resources)
			which[room.Resource] = at
			m.Resources = append(m.Resources, string(room.Resource))
		}
		flags := 0
		if room.Stranded {
			flags |= 1
		}
		if room.Cordoned || room.NotReady {
			flags |= 2
		}
		m.Names, m.Percents = append(m.Names, room.Name), append(m.Percents, room.Percent)
		m.Flags, m.Which = append(m.Flags, flags), append(m.Which, at)
	}
	return m
}
