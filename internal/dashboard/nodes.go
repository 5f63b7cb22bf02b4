// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

// nodesOfPage is how many nodes a page lists.
const nodesOfPage = 200

// nodeStates are the states by which nodes are selected. A stranded node has room, and refuses the
// pod of the query.
var nodeStates = []string{"open", "not-open", "cordoned", "not-ready", "tainted", "stranded"}

// nodesView is the page of nodes.
type nodesView struct {
	Query     nodesQuery
	Pools     []string
	Zones     []string
	States    []string
	Resources []string // those with a column
	Columns   []nodeColumn
	Rows      []nodeRow
	Found     int
	All       int
	First     int // number of the first row, from 1
	Last      int
	This      string // address of the same nodes
	Previous  string
	Next      string
}

// nodesQuery are the parameters of the page.
type nodesQuery struct {
	Name, Pool, Zone, State, Pod, Resource, Sort string
	Descending                                   bool
	Page                                         int
}

// nodeColumn is the head of a column.
type nodeColumn struct {
	Name, Link, Sorted string // Sorted is the value of aria-sort
	Number             bool
}

// nodeRow is one node.
type nodeRow struct {
	nodeRoom
	State string
	Cells []nodeCell
}

// nodeCell is the room for one resource. Percent is -1 if the node has none.
type nodeCell struct {
	Resource, Free, Total string
	Percent, Used         int
}

func nodesQueryOf(values url.Values) nodesQuery {
	page, _ := strconv.Atoi(values.Get("page")) // anything else is the first page
	return nodesQuery{
		Name: strings.TrimSpace(values.Get("name")), Pool: values.Get("pool"), Zone: values.Get("zone"),
		State: values.Get("state"), Pod: values.Get("pod"), Resource: values.Get("resource"), Sort: values.Get("sort"),
		Descending: values.Get("order") == "desc", Page: max(page, 1),
	}
}

// nodesPage lists nodes.
func (h *handler) nodesPage(r *http.Request, s Source) answer {
	v := nodesView{Query: nodesQueryOf(r.URL.Query()), States: nodeStates[:len(nodeStates)-1]}
	namespace, name, _ := strings.Cut(v.Query.Pod, "/")
	if name == "" {
		namespace = ""
	} else {
		v.States = nodeStates
	}
	v.This = h.nodesLink(v.Query, v.Query.Sort, v.Query.Descending, v.Query.Page)
	list, err := s.NodeAllocations(r.Context(), types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		a := answer{page: "nodes", title: "Nodes", data: partOf(v, err)}
		// In a page that is open, a refusal takes the place of the nodes. They stay if the next
		// poll may succeed: htmx shows no answer with the status of an error.
		if p := problemOf(err); p.Retried || r.Header.Get("HX-Request") == "" {
			a.status = p.Status
		}
		return a
	}
	v.fill(h, list.Items)
	return answer{page: "nodes", title: "Nodes", data: partOf(v, nil)}
}

// fill selects, sorts and cuts the nodes.
func (v *nodesView) fill(h *handler, nodes []v1alpha1.NodeAllocation) {
	v.All, v.Resources = len(nodes), resourcesOf(nodes)
	resource := corev1.ResourceName(cmp.Or(v.Query.Resource, scarcest))
	pools, zones := map[string]bool{}, map[string]bool{}
	var found []nodeRow
	for i := range nodes {
		n := &nodes[i]
		pools[n.Pool], zones[n.Zone] = true, true
		row := nodeRow{nodeRoom: roomOf(n, resource), State: stateWords(n)}
		if v.Query.selects(&row) {
			found = append(found, row)
		}
	}
	v.Pools, v.Zones, v.Found = keys(pools), keys(zones), len(found)
	v.sort(found)
	v.Query.Page = min(v.Query.Page, max((len(found)+nodesOfPage-1)/nodesOfPage, 1))
	from := (v.Query.Page - 1) * nodesOfPage
	to := min(from+nodesOfPage, len(found))
	v.Rows, v.First, v.Last = found[from:to], from+1, to
	for i := range v.Rows {
		v.Rows[i].Cells = cellsOf(v.Rows[i].NodeAllocation, v.Resources)
	}
	if v.Query.Page > 1 {
		v.Previous = h.nodesLink(v.Query, v.Query.Sort, v.Query.Descending, v.Query.Page-1)
	}
	if to < len(found) {
		v.Next = h.nodesLink(v.Query, v.Query.Sort, v.Query.Descending, v.Query.Page+1)
	}
	v.columns(h)
}

// selects reports whether a node is listed.
func (q *nodesQuery) selects(row *nodeRow) bool {
	n := row.NodeAllocation
	switch {
	case q.Name != "" && !strings.Contains(strings.ToLower(n.Name), strings.ToLower(q.Name)),
		q.Pool != "" && n.Pool != q.Pool, q.Zone != "" && n.Zone != q.Zone:
		return false
	}
	switch q.State {
	case "open":
		return !n.Cordoned && !n.NotReady
	case "not-open":
		return n.Cordoned || n.NotReady
	case "cordoned":
		return n.Cordoned
	case "not-ready":
		return n.NotReady
	case "tainted":
		return len(n.Taints) > 0
	case "stranded":
		return row.Stranded
	}
	return true
}

// sort sorts by a column, and by name. Resources are sorted by the share that is free.
func (v *nodesView) sort(rows []nodeRow) {
	by := func(a, b *nodeRow) int { return 0 }
	switch sort := v.Query.Sort; sort {
	case "pool":
		by = func(a, b *nodeRow) int { return strings.Compare(a.Pool, b.Pool) }
	case "zone":
		by = func(a, b *nodeRow) int { return strings.Compare(a.Zone, b.Zone) }
	case "state":
		by = func(a, b *nodeRow) int { return strings.Compare(a.State, b.State) }
	case "", "name":
		by = func(a, b *nodeRow) int { return strings.Compare(a.Name, b.Name) }
	default:
		if slices.Contains(v.Resources, sort) {
			by = func(a, b *nodeRow) int {
				name := corev1.ResourceName(sort)
				return cmp.Compare(freePercent(a.NodeAllocation, name), freePercent(b.NodeAllocation, name))
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b nodeRow) int {
		if v.Query.Descending {
			return by(&b, &a)
		}
		return by(&a, &b)
	})
}

// columns sets the heads of the columns. Each links to the page that is sorted by it.
func (v *nodesView) columns(h *handler) {
	add := func(title, name string, number bool) {
		c := nodeColumn{Name: title, Number: number}
		sorted := cmp.Or(v.Query.Sort, "name") == name
		if sorted {
			c.Sorted = "ascending"
			if v.Query.Descending {
				c.Sorted = "descending"
			}
		}
		c.Link = h.nodesLink(v.Query, name, sorted && !v.Query.Descending, 1)
		v.Columns = append(v.Columns, c)
	}
	add("Name", "name", false)
	add("Pool", "pool", false)
	add("Zone", "zone", false)
	add("State", "state", false)
	for _, resource := range v.Resources {
		add("Free "+resource, resource, true)
	}
}

// nodesLink returns the address of the same nodes, sorted and cut differently.
func (h *handler) nodesLink(q nodesQuery, sort string, descending bool, page int) string {
	order, number := "", ""
	if descending {
		order = "desc"
	}
	if page > 1 {
		number = strconv.Itoa(page)
	}
	return h.link("/nodes", "name", q.Name, "pool", q.Pool, "zone", q.Zone, "state", q.State, "pod", q.Pod,
		"resource", q.Resource, "sort", sort, "order", order, "page", number)
}

// stateWords returns the state of a node.
func stateWords(n *v1alpha1.NodeAllocation) string {
	switch {
	case n.NotReady && n.Cordoned:
		return "not ready, cordoned"
	case n.NotReady:
		return "not ready"
	case n.Cordoned:
		return "cordoned"
	case len(n.Taints) > 0:
		return "tainted"
	}
	return "open"
}

// cellsOf returns the room for each of the resources.
func cellsOf(n *v1alpha1.NodeAllocation, resources []string) []nodeCell {
	cells := make([]nodeCell, 0, len(resources))
	for _, resource := range resources {
		name := corev1.ResourceName(resource)
		total := valueOf(n.Allocatable, name)
		c := nodeCell{Resource: resource, Percent: freePercent(n, name), Total: amount(name, total)}
		c.Free = amount(name, max(total-valueOf(n.Requested, name), 0))
		c.Used = 100 - max(c.Percent, 0)
		cells = append(cells, c)
	}
	return cells
}

// keys returns the keys but "", sorted.
func keys(set map[string]bool) []string {
	var names []string
	for name := range set {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// nodeView is the page of a node.
type nodeView struct {
	Row       nodeRow
	Decisions part[decisionsView]
}

// nodePage shows one node.
func (h *handler) nodePage(r *http.Request, s Source) answer {
	name := r.PathValue("name")
	list, err := s.NodeAllocations(r.Context(), types.NamespacedName{})
	if err != nil {
		return failed(problemOf(err))
	}
	i := slices.IndexFunc(list.Items, func(n v1alpha1.NodeAllocation) bool { return n.Name == name })
	if i < 0 {
		return notFound("There is no node " + name + ".")
	}
	n := &list.Items[i]
	v := nodeView{Row: nodeRow{nodeRoom: roomOf(n, scarcest), State: stateWords(n)}}
	names := resourcesOf(list.Items[i : i+1])
	v.Row.Cells = cellsOf(n, names)
	v.Decisions = loadDecisionsOf(r.Context(), s, byNode, name)
	return answer{page: "node", title: "Node " + name, data: v}
}
