// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gang places the pods of a group together: as many as are needed, or none.
//
//	attempt.go  one member after the other, in one domain of the topology after the other
//	tree.go     the same for one group of a tree of groups after the other
//	victims.go  the same without pods of a lower priority
//	reserve.go  the same without pods that may end
//	memory.go   what attempts leave to later ones
//	reason.go   why a group got no nodes
//	fit.go      how many of a group fit together, for explanations
//
// The scheduling loop makes attempts on its snapshot. Explanations and simulations make them on
// the snapshot of a fork. All that an attempt tries is in an overlay of the snapshot, which only
// the attempt sees.
package gang

import (
	"context"
	"fmt"
	"slices"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/preemption"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// Decider decides the members of an attempt, which are known by their indexes.
type Decider interface {
	// Decide looks for a node for a member among the nodes of a domain, on the snapshot of the
	// attempt, and reserves there what plugins reserve, such as volumes.
	Decide(ctx context.Context, member int, within podgroup.Domain) Outcome
	// Unreserve gives back what Decide has reserved for a member.
	Unreserve(ctx context.Context, member int)
}

// Outcome is what was found for a member. The zero Outcome stands for a member that was not tried.
type Outcome struct {
	// Node is the node of the member, "" if there is none.
	Node string
	// Pod is the member with its node, and Class its class, if it is known. They are for the
	// overlay.
	Pod   fwk.PodInfo
	Class cache.Class
	// Status is why the member has no node.
	Status *fwk.Status
	// State is the state of the scheduling cycle of a member without a node.
	State fwk.CycleState
}

// Attempt is one attempt at the pods of a group. Its members are placed one after the other, each
// on the cluster with those before it. If enough of them get a node, they stay there, and the
// caller commits the overlay. Otherwise those that got one are taken back, in reverse order, and
// nothing of the attempt remains.
//
// It belongs to the goroutine that owns the snapshot of its overlay.
type Attempt struct {
	// Group is what the object of the group says, as far as there is one.
	Group podgroup.Group
	// Tree is the tree of groups whose pods are the members. nil: they are of one group.
	Tree *podgroup.Tree
	// Leaves are the states of the groups of pods of the tree, as the attempt begins.
	Leaves map[podgroup.Key]podgroup.Leaf
	// CountAll means that an attempt at a tree goes on with a group that cannot get enough nodes,
	// for Fit to have the number of its pods that fit.
	CountAll bool
	// Needed is how many members must get a node. Of a tree, it is the least number.
	Needed int
	// On are the nodes of pods of the group that have one already. Those of a tree are in Leaves.
	On sets.Set[string]
	// Nominated are the nodes that members are nominated for. Their domains come first.
	Nominated sets.Set[string]
	// Profile decides, and Members are what it decides. There is at least one.
	Profile *profile.Instance
	Members []fwk.PodInfo
	// IntN returns a random number from 0 to n-1, to choose the nodes that preemption tries first.
	IntN func(n int) int
	// DryRuns is how many dry runs of preemptions are left.
	DryRuns int
	// Memory is what other attempts have left.
	Memory *Memory
	// Overlay is on the snapshot on which Decider decides. The caller opens it, and closes it in
	// the end. It is empty at first.
	Overlay *cache.Overlay
	Decider Decider

	// Outcomes are the outcomes of the members.
	Outcomes []Outcome
	// Why is the reason of an attempt that failed.
	Why *Reason
	// Unfinished means that it was too much work to try all domains: Place goes on with the next
	// one when it is called again.
	Unfinished bool
	// Ordered means that Place has placed the members in the order that Preempt found.
	Ordered bool

	// placed are the members that have a node, in the order in which they got it.
	placed []int
	// work is how much may still be done, in members that are placed; see maxWork.
	work int
	// victims are what Preempt may evict.
	victims *preemption.Victims
	// wanted is known once a domain was looked for.
	wanted *podgroup.Wanted
	// all are the indexes of the members, in the order in which they are placed, and tree is the
	// branch of all of Tree, once known.
	all  []int
	tree *branch
}

// maxWork bounds the work of Place, of Preempt and of Reserve, in members that are placed: then no
// other domain is begun. To begin one costs as much as a member for each nodesPerWork nodes.
const (
	maxWork      = 8192
	nodesPerWork = 10
)

// Place looks for nodes for the members, in one domain after the other. It reports whether enough
// of them got one. If not, none has one, and Why is set.
func (a *Attempt) Place(ctx context.Context) bool {
	a.Outcomes = make([]Outcome, len(a.Members))
	a.work, a.Unfinished = maxWork, false
	a.all, a.Ordered = a.Memory.takeOrder(a.Group.Key, a.Members)
	domains := a.domains()
	first := a.Memory.place.take(a.Group.Key, domains)
	for i := first; i < len(domains); i++ {
		domain := domains[i]
		if i > first && a.work <= 0 {
			a.Why.Message += fmt.Sprintf("; %d of %d domains were tried", i, len(domains))
			a.Unfinished = true
			a.Memory.place.set(a.Group.Key, domain)
			return false
		}
		a.work -= a.Overlay.Snapshot().NumNodes() / nodesPerWork
		clear(a.Outcomes)
		if a.placeEnough(ctx, domain) {
			a.Why = nil
			return true
		}
		a.noteReason(a.reason(domain), domain)
		a.TakeBack(ctx)
		if a.Why.Err != nil {
			return false
		}
	}
	return false
}

// End closes the overlay, if there is one, and takes back what is in it.
func (a *Attempt) End(ctx context.Context) {
	if a.Overlay != nil {
		a.logRepair(ctx, a.Overlay.Close())
	}
}

// logRepair logs an error of the overlay.
func (a *Attempt) logRepair(ctx context.Context, err error) {
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "The snapshot was made anew after an attempt at a pod group",
			"podGroup", a.Group.Key)
	}
}

// TakeBack takes back the members that got a node, the latest first, and puts pods that were hidden
// back on their nodes.
func (a *Attempt) TakeBack(ctx context.Context) { a.takeBackTo(ctx, mark{}) }

// mark is a moment of an attempt.
type mark struct {
	placed, tried int
	choices       []*preemption.Choice
}

// mark returns a mark for takeBackTo.
func (a *Attempt) mark(plan *Plan) mark {
	m := mark{placed: len(a.placed), tried: a.Overlay.Mark()}
	if plan != nil {
		m.choices = plan.Trial.Choices()
	}
	return m
}

// takeBackTo is TakeBack of what has happened since a mark.
func (a *Attempt) takeBackTo(ctx context.Context, m mark) {
	for _, member := range slices.Backward(a.placed[m.placed:]) {
		a.Decider.Unreserve(ctx, member)
		a.Outcomes[member] = Outcome{}
	}
	a.placed = a.placed[:m.placed]
	a.logRepair(ctx, a.Overlay.RollbackTo(m.tried))
}

// Drop gives back what was reserved for a member that got a node, after the overlay was committed.
func (a *Attempt) Drop(ctx context.Context, member int) {
	a.Decider.Unreserve(ctx, member)
	a.Outcomes[member] = Outcome{}
	a.placed = slices.DeleteFunc(a.placed, func(i int) bool { return i == member })
}

// Nodes returns the nodes of the members, "" for those without one.
func (a *Attempt) Nodes() []string {
	nodes := make([]string, len(a.Outcomes))
	for i := range a.Outcomes {
		nodes[i] = a.Outcomes[i].Node
	}
	return nodes
}

// PlaceIn places the members on the nodes of a domain, and returns how many got one. It ends early
// if fewer than needed can get one.
func (a *Attempt) PlaceIn(ctx context.Context, domain podgroup.Domain, needed int) (placed int) {
	if a.Outcomes == nil {
		a.Outcomes = make([]Outcome, len(a.Members))
	}
	return a.placeMembers(ctx, a.everyone(), domain, needed)
}

// placeMembers is PlaceIn for some members.
func (a *Attempt) placeMembers(ctx context.Context, members []int, domain podgroup.Domain, needed int) (placed int) {
	for n, i := range members {
		if placed+len(members)-n < needed {
			return placed
		}
		if a.place(ctx, i, domain) {
			placed++
		}
	}
	return placed
}

// owns reports whether a group is the one of the attempt, or in its tree.
func (a *Attempt) owns(key podgroup.Key) bool {
	if a.Tree == nil {
		return key == a.Group.Key
	}
	for leaf := range a.Tree.Leaves() {
		if leaf.Key == key {
			return true
		}
	}
	return false
}

// everyone returns the indexes of all members.
func (a *Attempt) everyone() []int {
	if a.all == nil {
		a.all = make([]int, len(a.Members))
		for i := range a.all {
			a.all[i] = i
		}
	}
	return a.all
}

// placeEnough places the members on the nodes of a domain, and reports whether enough got one. It
// ends early if too few can get one.
func (a *Attempt) placeEnough(ctx context.Context, domain podgroup.Domain) bool {
	if a.Tree == nil {
		return a.PlaceIn(ctx, domain, a.Needed) >= a.Needed
	}
	enough, _ := a.placeTree(ctx, domain, nil) // without a plan there is no error
	return enough
}

// place looks for a node for a member, and reports whether there is one.
func (a *Attempt) place(ctx context.Context, member int, domain podgroup.Domain) bool {
	a.work--
	outcome := a.Decider.Decide(ctx, member, domain)
	if outcome.Node != "" {
		if err := a.Overlay.Place(outcome.Pod, outcome.Class); err != nil {
			a.Decider.Unreserve(ctx, member)
			outcome = Outcome{Status: fwk.AsStatus(err)}
		} else {
			a.placed = append(a.placed, member)
		}
	}
	a.Outcomes[member] = outcome
	return outcome.Node != ""
}

// domains returns the domains to try, in order. If there is none that could do, Why is set.
func (a *Attempt) domains() []podgroup.Domain {
	if a.Group.Problem != "" {
		a.Why = NewReason(fmt.Sprintf("%s: %s", a.Group.WithKind(), a.Group.Problem))
		a.Why.fit.Diagnosis.UnschedulablePlugins.Insert(podgroup.Gate)
		return nil
	}
	everywhere := []podgroup.Domain{nil}
	nodes := a.nodes()
	if len(nodes) == 0 {
		return everywhere // to place the first member fails, too, and has the reason
	}
	if required := a.Group.Topology.Required; required != "" &&
		!slices.ContainsFunc(nodes, func(node fwk.NodeInfo) bool {
			_, has := node.Node().Labels[required]
			return has
		}) {
		a.Why = NewReason(fmt.Sprintf("%s: no node has the label %s, which the group requires", a.Group.WithKind(),
			required))
		a.Why.fit.NumAllNodes = len(nodes)
		a.Why.AddPlugin(names.NodeAffinity) // for new nodes; the caller adds the plugin for changes of the label
		return nil
	}
	wanted := a.want()
	if wanted.Demand != nil && a.Needed > 1 {
		if room := wanted.Demand.Room(nodes); room < a.Needed {
			a.Why = a.tooLarge(len(nodes), room, "")
			return nil
		}
	}
	domains, most := a.Group.Topology.Candidates(nodes, wanted)
	if len(domains) == 0 {
		a.Why = a.tooLarge(len(nodes), most, " in one "+a.Group.Topology.Required)
		// A new node may have the label, whatever resources are left on it.
		a.Why.fit.Diagnosis.UnschedulablePlugins.Insert(names.NodeAffinity)
	}
	return domains
}

// DomainsWithRoom returns the domains to try, in order, where there may be room for as many
// members.
func (a *Attempt) DomainsWithRoom(members int) []podgroup.Domain {
	wanted := *a.want()
	wanted.Needed = members
	domains, _ := a.Group.Topology.Candidates(a.nodes(), &wanted)
	return domains
}

func (a *Attempt) nodes() []fwk.NodeInfo {
	nodes, _ := a.Overlay.Snapshot().List() // a snapshot has no error
	return nodes
}

// want returns what the group wants of a domain.
func (a *Attempt) want() *podgroup.Wanted {
	if a.wanted == nil {
		a.wanted = a.newWanted(a.Members, a.Needed)
		if a.wanted.On = a.On; a.Tree != nil {
			a.wanted.On = a.Tree.NodesOf(a.Leaves)
		}
	}
	a.wanted.First = a.Nominated
	return a.wanted
}

// newWanted returns what members want of a domain, of which some are needed.
func (a *Attempt) newWanted(members []fwk.PodInfo, needed int) *podgroup.Wanted {
	w := &podgroup.Wanted{Needed: needed}
	if a.Profile.FitsResources() {
		w.Demand = podgroup.NewDemand(members, a.Profile.ChecksOnNodes, a.Profile.Admits, a.Profile.ScoredResources())
	}
	return w
}
