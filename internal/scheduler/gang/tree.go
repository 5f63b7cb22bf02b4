// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// branch is a composite group in an attempt at a tree, or one of its groups of pods. Its members
// are placed from the top down: in a domain of its topology, which is in the domain of its parent.
//
// It belongs to the goroutine of its attempt.
type branch struct {
	*podgroup.Tree
	children []*branch
	// members are the members of the attempt that are in the branch.
	members []int
	// needed is how many of the members must get a node, if this is a group of pods.
	needed int
	// complete means that enough pods had a node before the attempt.
	complete bool
	// fit is the largest number of its groups, or of its members if it is a group of pods, that
	// have been in a domain together.
	fit  int
	want *podgroup.Wanted
}

// newBranch returns the branch of a tree, without its members.
func (a *Attempt) newBranch(t *podgroup.Tree) *branch {
	b := &branch{Tree: t}
	if !t.IsComposite() {
		b.needed = max(0, a.Leaves[t.Key].Missing)
		b.complete = b.needed == 0
		return b
	}
	complete := 0
	for _, child := range t.Children {
		b.children = append(b.children, a.newBranch(child))
		complete += count(b.children[len(b.children)-1].complete)
	}
	b.complete = complete >= t.MinGroups
	return b
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// assign gives the branch its members, by the groups of the pods.
func (b *branch) assign(byGroup map[podgroup.Key][]int) {
	b.members = byGroup[b.Key]
	for _, child := range b.children {
		child.assign(byGroup)
		b.members = append(b.members, child.members...)
	}
}

// least returns how many members must get a node at least, so that the branch has enough.
func (b *branch) least() int {
	if b.complete || !b.IsComposite() {
		return b.needed
	}
	least := make([]int, len(b.children))
	for i, child := range b.children {
		least[i] = child.least()
	}
	slices.Sort(least)
	sum := 0
	for _, n := range least[:min(b.MinGroups, len(least))] {
		sum += n
	}
	return sum
}

// Least returns how many members of a tree must get a node at least, so that enough groups have
// enough. It is at least 1.
func (a *Attempt) Least() int { return max(1, a.root().least()) }

// PlacedGroups returns the groups of pods of a tree that have members, and which of them have
// enough pods with a node.
func (a *Attempt) PlacedGroups() map[podgroup.Key]bool {
	placed := map[podgroup.Key]bool{}
	var collect func(*branch)
	collect = func(b *branch) {
		if !b.IsComposite() && len(b.members) > 0 {
			placed[b.Key] = a.isPlaced(b)
		}
		for _, child := range b.children {
			collect(child)
		}
	}
	collect(a.root())
	return placed
}

// root returns the branch of the whole tree.
func (a *Attempt) root() *branch {
	if a.tree == nil {
		byGroup := map[podgroup.Key][]int{}
		for i, info := range a.Members {
			key := podgroup.KeyOf(info.GetPod())
			byGroup[key] = append(byGroup[key], i)
		}
		a.tree = a.newBranch(a.Tree)
		a.tree.assign(byGroup)
	}
	return a.tree
}

// placeTree places the members of a tree in a domain, and reports whether enough groups are
// complete. At least one member must get a node.
func (a *Attempt) placeTree(ctx context.Context, domain podgroup.Domain, plan *Plan) (bool, error) {
	root := a.root()
	root.forget()
	enough, err := a.fill(ctx, root, domain, plan)
	root.fit = a.fitsOf(root)
	return enough && len(a.placed) > 0, err
}

func (b *branch) forget() {
	b.fit = 0
	for _, child := range b.children {
		child.forget()
	}
}

// fill places the members of a branch in a domain, and reports whether enough got a node. With a
// plan, pods may be evicted for them.
func (a *Attempt) fill(ctx context.Context, b *branch, domain podgroup.Domain, plan *Plan) (bool, error) {
	if !b.IsComposite() {
		placed, err := a.fillGroup(ctx, b, domain, plan)
		return placed >= b.needed, err
	}
	complete := 0
	for _, child := range b.children {
		placed := child.complete
		if len(child.members) > 0 {
			fits, err := a.placeBranch(ctx, child, domain, plan)
			if err != nil {
				return false, err
			}
			placed = placed || fits
		}
		complete += count(placed)
	}
	return complete >= b.MinGroups, nil
}

// fillGroup places the members of a group of pods in a domain, and returns how many got a node.
func (a *Attempt) fillGroup(ctx context.Context, b *branch, domain podgroup.Domain, plan *Plan) (int, error) {
	if plan == nil {
		atLeast := b.needed
		if a.CountAll {
			atLeast = 0
		}
		return a.placeMembers(ctx, b.members, domain, atLeast), nil
	}
	return a.placeEvicting(ctx, plan, b.members, domain, b.needed, b.needed)
}

// placeBranch places the members of a branch in one of its domains that is in a domain. It reports
// whether enough of them got a node; if not, none has one.
func (a *Attempt) placeBranch(ctx context.Context, b *branch, within podgroup.Domain, plan *Plan) (bool, error) {
	var why *Reason
	domains, err := a.domainsOf(b, within, plan)
	for i, domain := range domains {
		if i > 0 && a.work <= 0 {
			a.Unfinished = true
			break
		}
		mark := a.mark(plan)
		enough, err := a.fill(ctx, b, domain, plan)
		b.fit = max(b.fit, a.fitsOf(b))
		if err != nil || enough {
			return enough, err
		}
		if next := a.reasonOf(b, domain); why == nil || next.placed > why.placed {
			why = next
		}
		a.takeBackTo(ctx, mark)
		if plan != nil {
			plan.Trial.Keep(mark.choices)
		}
	}
	if why == nil { // there is no domain
		why = a.noDomain(b, within)
	}
	for _, i := range b.members {
		if status := a.Outcomes[i].Status; status == nil || status.IsRejected() {
			a.Outcomes[i].Status = why.Of(a.Members[i].GetPod())
		}
	}
	return false, err
}

// domainsOf returns the domains of a branch in a domain, in the order in which to try them.
func (a *Attempt) domainsOf(b *branch, within podgroup.Domain, plan *Plan) ([]podgroup.Domain, error) {
	if b.Topology.Required == "" {
		return []podgroup.Domain{within}, nil
	}
	want := a.wantOf(b)
	if a.isElsewhere(want.On, within) {
		return nil, nil
	}
	var domains []podgroup.Domain
	if plan == nil {
		domains, _ = b.Topology.Candidates(nodesIn(a.nodes(), within), want)
	} else {
		freed := a.Memory.freedNodes(a.Overlay.Snapshot(), a.highestPriority(), a.victims)
		domains = b.Topology.CandidatesWithout(nodesIn(freed, within), want)
	}
	for i, domain := range domains {
		domains[i] = within.And(domain)
	}
	return domains, nil
}

// isElsewhere reports whether pods have nodes, and none in a domain.
func (a *Attempt) isElsewhere(on sets.Set[string], domain podgroup.Domain) (elsewhere bool) {
	for name := range on {
		node, err := a.Overlay.Snapshot().Get(name)
		if err != nil {
			continue // it is gone
		}
		if domain.Contains(node.Node()) {
			return false
		}
		elsewhere = true
	}
	return elsewhere
}

// noDomain returns why there is no domain for a branch in a domain.
func (a *Attempt) noDomain(b *branch, within podgroup.Domain) *Reason {
	why := NewReason(fmt.Sprintf("%s: there is no room for it in one %s%s", b.WithKind(), b.Topology.Required,
		in(within)))
	if a.isElsewhere(a.wantOf(b).On, within) {
		why = NewReason(fmt.Sprintf("%s: its pods on nodes are not%s", b.WithKind(), in(within)))
	}
	why.addRoomPlugins()
	return why
}

// wantOf returns what a branch wants of a domain.
func (a *Attempt) wantOf(b *branch) *podgroup.Wanted {
	if b.want == nil {
		members := make([]fwk.PodInfo, len(b.members))
		for n, i := range b.members {
			members[n] = a.Members[i]
		}
		b.want = a.newWanted(members, b.least())
		b.want.On = b.NodesOf(a.Leaves)
	}
	b.want.First = a.Nominated
	return b.want
}

// isPlaced reports whether enough pods of a branch have a node.
func (a *Attempt) isPlaced(b *branch) bool { return a.fitsOf(b) >= b.minimum() }

// fitsOf returns how many groups of a branch have enough pods with a node, or how many members of a
// group of pods have got one.
func (a *Attempt) fitsOf(b *branch) (fits int) {
	if !b.IsComposite() {
		return a.placedOf(b.members)
	}
	for _, child := range b.children {
		fits += count(a.isPlaced(child))
	}
	return fits
}

// minimum is what fitsOf must be at least.
func (b *branch) minimum() int {
	if b.IsComposite() {
		return b.MinGroups
	}
	return b.needed
}

// nodesIn returns the nodes of a domain.
func nodesIn(nodes []fwk.NodeInfo, domain podgroup.Domain) []fwk.NodeInfo {
	if len(domain) == 0 {
		return nodes
	}
	var in []fwk.NodeInfo
	for _, node := range nodes {
		if domain.Contains(node.Node()) {
			in = append(in, node)
		}
	}
	return in
}
