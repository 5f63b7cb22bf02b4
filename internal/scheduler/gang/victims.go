// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/preemption"
)

// Plan is how a group gets nodes after evictions.
type Plan struct {
	// Trial has the victims. There are none if the group fits in another order of its members, or
	// with other draws among nodes of equal score.
	Trial *preemption.GroupTrial
	// Domain is where the members get nodes, and Nodes are these, "" for members without one.
	Domain podgroup.Domain
	Nodes  []string

	members []*corev1.Pod
}

// Preemptor returns a member that gets a node, or another one if none does, and its node.
func (p *Plan) Preemptor(node string) (*corev1.Pod, string) {
	i := slices.Index(p.Nodes, node)
	if i < 0 {
		i = slices.IndexFunc(p.Nodes, func(node string) bool { return node != "" })
	}
	return p.members[i], p.Nodes[i]
}

// Preempt looks for a way to place a group that has got no nodes if pods of a lower priority leave.
// It returns nil if there is none; message then may add to the reason of the group. Nothing is
// evicted, and no member has a node in the end. The error is preemption.ErrTooManyDryRuns, or
// comes from a plugin or from a context that ended.
func (a *Attempt) Preempt(ctx context.Context) (plan *Plan, message string, err error) {
	plugin := a.Profile.GroupPreemption()
	if plugin == nil {
		return nil, "", nil
	}
	if ok, message := plugin.GroupMayPreempt(&a.Group, a.pods()); !ok {
		return nil, message, nil
	}
	if a.awaitsVictims(ctx, plugin) {
		return nil, preemption.VictimsTerminating, nil
	}
	plan, err = a.chooseVictims(ctx, plugin)
	return plan, "", err
}

// awaitsVictims reports whether a member waits for victims of an earlier preemption, on a node that
// may take it when they are gone.
func (a *Attempt) awaitsVictims(ctx context.Context, plugin *preemption.Plugin) bool {
	return slices.ContainsFunc(a.pods(), func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(plugin.Awaited(pod), func(victim *corev1.Pod) bool {
			return !a.isRefusedBy(ctx, pod, victim.Spec.NodeName)
		})
	})
}

// isRefusedBy reports whether a node refuses a member even without the pods that are there. Pod
// affinity may be to members that have no node yet.
func (a *Attempt) isRefusedBy(ctx context.Context, pod *corev1.Pod, name string) bool {
	node, err := a.Overlay.Snapshot().Get(name)
	if err != nil {
		return false
	}
	check, err := a.Profile.Framework.NewCheck(ctx, schedframework.NewCycleState(), pod)
	if err != nil {
		return false
	}
	refusals, err := check.Node(ctx, node)
	return err == nil && slices.ContainsFunc(refusals, func(s *fwk.Status) bool {
		return s.Code() == fwk.UnschedulableAndUnresolvable && s.Plugin() != names.InterPodAffinity
	})
}

func (a *Attempt) pods() []*corev1.Pod {
	pods := make([]*corev1.Pod, len(a.Members))
	for i, info := range a.Members {
		pods[i] = info.GetPod()
	}
	return pods
}

// chooseVictims returns how the group gets nodes after evictions, nil if these do not help. Of the
// domains that it has the time to compare, it takes the one with the least important victims.
func (a *Attempt) chooseVictims(ctx context.Context, plugin *preemption.Plugin) (best *Plan, err error) {
	defer a.startOver(ctx, nil)
	a.work = maxWork
	priority := a.highestPriority()
	if !plugin.MayHaveBelow(priority) {
		return nil, nil
	}
	a.victims = plugin.VictimsFor(a.owns)
	domains := a.domainsWithout(priority)
	if len(domains) == 0 || a.Group.Topology.Required != "" || a.Tree != nil { // some domains are not tried
		a.Why.addRoomPlugins()
	}
	if len(domains) == 0 {
		return nil, nil
	}
	first := a.Memory.evict.take(a.Group.Key, domains)
	for i := range domains {
		if best != nil && a.work <= 0 {
			break
		}
		domain := domains[(first+i)%len(domains)]
		begin := a.Overlay.Snapshot().NumNodes() / nodesPerWork
		a.work, a.DryRuns = a.work-begin, a.DryRuns-begin
		var plan *Plan
		if plan, err = a.planIn(ctx, domain); err != nil {
			// The next attempt goes on from here. A domain that takes all dry runs is left out.
			a.Memory.evict.set(a.Group.Key, domains[(first+max(i, 1))%len(domains)])
			break
		}
		if plan != nil && (best == nil || plan.Trial.Compare(best.Trial) < 0) {
			best = plan
		}
		if best != nil && best.Trial.Empty() {
			a.Memory.place.set(a.Group.Key, domain)
			a.Memory.setOrder(a.Group.Key, a.placedPods())
			return best, nil
		}
	}
	if best == nil {
		return nil, err
	}
	a.reprieve(ctx, best)
	a.evictForRest(ctx, best)
	return best, nil
}

// placedPods returns the members that have a node, in the order in which they got it.
func (a *Attempt) placedPods() (pods []types.UID) {
	for _, i := range a.placed {
		pods = append(pods, a.Members[i].GetPod().UID)
	}
	return pods
}

// planIn returns how enough members get nodes in a domain, nil if they do not. If a dry run for
// every second node has not found that out, it looks first whether there is a way at all.
func (a *Attempt) planIn(ctx context.Context, domain podgroup.Domain) (*Plan, error) {
	few := min(a.DryRuns, max(100, a.Overlay.Snapshot().NumNodes()/2))
	more := a.DryRuns - few
	plan, err := a.planWith(ctx, a.victims.NewTrial(a.IntN, few), domain)
	a.DryRuns += more
	if plan != nil {
		plan.Trial.AllowDryRuns(more)
	}
	if more == 0 || !errors.Is(err, preemption.ErrTooManyDryRuns) {
		return plan, err
	}
	trial := a.victims.NewTrial(a.IntN, a.DryRuns)
	if !a.fitsWithout(ctx, trial, domain) {
		return nil, nil
	}
	return a.planWith(ctx, trial, domain)
}

// planWith is planIn with the dry runs of a trial.
func (a *Attempt) planWith(ctx context.Context, trial *preemption.GroupTrial, domain podgroup.Domain) (*Plan, error) {
	a.startOver(ctx, nil)
	plan := &Plan{Trial: trial, Domain: domain, members: a.pods()}
	enough, err := a.placeEnoughEvicting(ctx, plan)
	a.DryRuns = trial.DryRunsLeft()
	if err != nil || !enough {
		return nil, err
	}
	plan.Nodes = a.Nodes()
	return plan, nil
}

// fitsWithout reports whether enough members get a node in a domain when all pods are gone that may
// be evicted for them there. If they do not, such as members that exclude each other, dry runs for
// one member after the other would take long to find that out.
func (a *Attempt) fitsWithout(ctx context.Context, trial *preemption.GroupTrial, domain podgroup.Domain) bool {
	a.startOver(ctx, nil)
	preemptor := *a.Members[0].GetPod()
	preemptor.Spec.Priority = new(a.highestPriority())
	a.hide(ctx, trial.Evictable(domain, &preemptor)...)
	enough := a.placeEnough(ctx, domain)
	for i := range a.Outcomes {
		var fit *schedframework.FitError
		if errors.As(a.Outcomes[i].Status.AsError(), &fit) {
			a.Why.addPluginsOf(fit)
		}
	}
	return enough
}

// placeEnoughEvicting places the members in the domain of a plan, and takes victims off the
// snapshot for those that need it. It reports whether enough members got a node.
func (a *Attempt) placeEnoughEvicting(ctx context.Context, plan *Plan) (bool, error) {
	if a.Tree != nil {
		return a.placeTree(ctx, plan.Domain, plan)
	}
	placed, err := a.placeEvicting(ctx, plan, a.everyone(), plan.Domain, a.Needed, a.Needed)
	return placed >= a.Needed, err
}

// maxReprieves bounds the work of reprieve, in members that are placed.
const maxReprieves = 4096

// reprieve lets victims stay without whom enough members get a node, too, the most important ones
// first. A member that came later may have made more room than it needed itself. It tries many
// victims at once, then parts of them, and of a large group no parts that are too small to try all.
func (a *Attempt) reprieve(ctx context.Context, plan *Plan) {
	choices := plan.Trial.Choices()
	least := (len(choices)*len(a.Members) + maxReprieves - 1) / maxReprieves
	for i, n := 0, len(choices)/2; i < len(choices) && len(choices) > 1; {
		n = min(max(n, least), len(choices)-i)
		rest := slices.Delete(slices.Clone(choices), i, i+n)
		a.startOver(ctx, rest)
		switch {
		case a.placeEnough(ctx, plan.Domain):
			choices, plan.Nodes = rest, a.Nodes()
		case n > least:
			n /= 2
		default:
			i += n
		}
	}
	plan.Trial.Keep(choices)
}

// evictForRest chooses victims for the members that have no node in a plan, too. Those of a tree
// wait for the next attempt.
func (a *Attempt) evictForRest(ctx context.Context, plan *Plan) {
	if a.Tree != nil || !slices.Contains(plan.Nodes, "") {
		return
	}
	needed := plan.Trial.Choices()
	a.startOver(ctx, needed)
	// An error leaves the others to the next attempt.
	placed, _ := a.placeEvicting(ctx, plan, a.everyone(), plan.Domain, a.Needed, len(a.Members))
	if placed >= a.Needed {
		plan.Nodes = a.Nodes()
	} else { // other draws among nodes of equal score
		plan.Trial.Keep(needed)
	}
	a.DryRuns = plan.Trial.DryRunsLeft()
}

// startOver takes all members back, and takes only the victims of some choices off the snapshot.
func (a *Attempt) startOver(ctx context.Context, choices []*preemption.Choice) {
	a.TakeBack(ctx)
	for _, choice := range choices {
		a.hide(ctx, choice.Victims...)
	}
	clear(a.Outcomes)
}

// hide takes pods off the snapshot.
func (a *Attempt) hide(ctx context.Context, pods ...*corev1.Pod) {
	if err := a.Overlay.Hide(pods...); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Pods cannot be hidden in an attempt at a pod group", "podGroup",
			a.Group.Key)
	}
}

// domainsWithout returns the domains in which the group may fit without the pods of a lower
// priority.
func (a *Attempt) domainsWithout(priority int32) []podgroup.Domain {
	freed := a.Memory.freedNodes(a.Overlay.Snapshot(), priority, a.victims)
	return a.Group.Topology.CandidatesWithout(freed, a.want())
}

// MayPreempt reports whether there are pods that a member may preempt, as far as is known without
// an attempt.
func (a *Attempt) MayPreempt(member *corev1.Pod) bool {
	plugin := a.Profile.GroupPreemption()
	return plugin != nil && plugin.MayHaveBelow(a.priorityOf(member))
}

// highestPriority returns the highest priority that counts for a member.
func (a *Attempt) highestPriority() int32 {
	highest := a.priorityOf(a.Members[0].GetPod())
	for _, info := range a.Members {
		highest = max(highest, a.priorityOf(info.GetPod()))
	}
	return highest
}

// priorityOf returns the priority that counts for a pod of the group: the priority of the group, if
// it has one.
func (a *Attempt) priorityOf(pod *corev1.Pod) int32 {
	if a.Group.Priority != nil {
		return *a.Group.Priority
	}
	return corev1helpers.PodPriority(pod)
}

// placeEvicting places as many members as fit in a domain, and then, until so many have a node,
// others for which it takes victims off the snapshot. It ends early if fewer than needed can get
// one, and returns how many got a node.
func (a *Attempt) placeEvicting(
	ctx context.Context, plan *Plan, members []int, domain podgroup.Domain, needed, wanted int,
) (placed int, err error) {
	placed = a.placeMembers(ctx, members, domain, 0)
	missing := len(members) - placed
	var refused alikes // since victims were chosen
	for _, i := range members {
		if placed >= wanted || placed+missing < needed {
			return placed, nil
		}
		if a.Outcomes[i].Node != "" {
			continue
		}
		missing--
		pod := a.Members[i].GetPod()
		if refused.has(pod) {
			continue
		}
		switch fits, err := a.placeMemberEvicting(ctx, plan, i, domain); {
		case err != nil:
			return placed, err
		case fits:
			placed, refused = placed+1, nil
		default:
			refused = append(refused, pod)
		}
	}
	return placed, nil
}

// placeMemberEvicting places a member. It takes victims off the snapshot if it fits nowhere: those
// of members before it may have left room.
func (a *Attempt) placeMemberEvicting(
	ctx context.Context, plan *Plan, member int, domain podgroup.Domain,
) (bool, error) {
	if a.place(ctx, member, domain) {
		return true, nil
	}
	outcome := a.Outcomes[member]
	var fit *schedframework.FitError
	if !errors.As(outcome.Status.AsError(), &fit) {
		return false, nil
	}
	// A group that is too large for the free resources was refused before plugins saw its members.
	// What keeps victims from making room, such as a taint, may change.
	a.Why.addPluginsOf(fit)
	pod := domain.Restrict(a.Members[member].GetPod())
	if a.Group.Priority != nil {
		ofGroup := *pod
		ofGroup.Spec.Priority = a.Group.Priority
		pod = &ofGroup
	}
	choice, err := plan.Trial.Choose(ctx, outcome.State, pod, fit.Diagnosis.NodeToStatus)
	if choice == nil || err != nil {
		return false, err
	}
	a.hide(ctx, choice.Victims...)
	return a.place(ctx, member, domain), nil
}
