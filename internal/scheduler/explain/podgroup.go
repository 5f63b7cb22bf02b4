// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/gang"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// podGroup is a group that is placed on the fork, to find out how many of its pods fit together.
type podGroup struct {
	*fork.Group
	// pods are the pods of the group, in the order in which they are placed.
	pods    []*corev1.Pod
	decider *fork.Decider
	// leaf is the group that the pod names: the group itself, or one of a tree.
	leaf podgroup.Key
	// best is how much fitted where the most did, in the domain bestIn, if one was tried.
	best   gang.Fit
	bestIn podgroup.Domain
	fit    *v1alpha1.PodGroupFit
}

// GroupOf returns the group with a key, or the tree that it is in, with those pods of a scheduler
// name that are ready to be placed. It returns nil if the group has no object, or if its pods are
// scheduled one by one.
func GroupOf(groups *podgroup.Registry, key podgroup.Key, schedulerName string, pods []*corev1.Pod,
	ready func(*corev1.Pod) bool) *fork.Group {
	group, nodes, known := groups.Get(key)
	tree, problem := groups.TreeOf(key)
	if !known || problem != "" || group.OneByOne && tree == nil {
		return nil
	}
	g := &fork.Group{Group: group, On: nodes}
	if g.Needed, _ = groups.Needed(key); tree != nil {
		g.Group, g.Tree, g.Leaves = tree.Group, tree, groups.LeavesOf(tree, len(pods))
	}
	unit := groups.Unit(key)
	for _, pod := range pods {
		if other := podgroup.KeyOf(pod); other != (podgroup.Key{}) && pod.Spec.SchedulerName == schedulerName &&
			groups.Unit(other) == unit && ready(pod) {
			g.Pods = append(g.Pods, pod)
		}
	}
	return g
}

// lacksRoom reports whether too few pods of the group fit together.
func (p *podGroup) lacksRoom() bool {
	return p != nil && p.fit.Fit < p.fit.Needed && p.Problem == "" && !p.fit.Incomplete && p.fit.Ready >= p.fit.Needed
}

// fitGroup finds how many pods of a group fit together: it places them in one domain after the
// other, and takes them back. It ends when all fit, when all domains were tried, or when the time
// is up.
func (e *explainer) fitGroup(ctx context.Context, g *fork.Group) (*v1alpha1.PodGroupFit, error) {
	pods := slices.DeleteFunc(slices.Clone(g.Pods), e.fork.IsAssumed) // since the queue was asked
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name),
		)
	})
	e.podGroup = &podGroup{
		Group: g, pods: pods, leaf: podgroup.KeyOf(e.pod), decider: e.fork.NewDecider(rand.IntN, fork.DeciderOptions{}),
		best: gang.Fit{Key: g.Key, Needed: g.Needed, Ready: len(pods)},
		fit:  &v1alpha1.PodGroupFit{},
	}
	fit := e.podGroup.fit
	defer func() { report(&e.podGroup.best, fit) }()
	if g.Problem != "" || len(pods) == 0 {
		return fit, nil
	}
	attempt, err := e.attempt(pods)
	if err != nil {
		return nil, err
	}
	defer attempt.End(ctx)
	if g.Tree != nil {
		e.podGroup.best = attempt.Unplaced()
	}
	limited, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	for _, domain := range attempt.DomainsWithRoom(1) {
		found, err := e.podGroup.placeIn(limited, attempt, domain)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		fit.Incomplete = limited.Err() != nil
		if err != nil && !fit.Incomplete {
			return nil, err
		}
		// The scheduler takes the first domain where enough groups of a tree fit. If one that is
		// not needed does not fit there, that is the answer.
		inside := found.Key != e.podGroup.best.Key
		better := inside || found.Fit > e.podGroup.best.Fit || len(fit.Tried) == 0
		if better {
			e.podGroup.best, e.podGroup.bestIn, fit.Domain = found, domain, domain.String()
		}
		tried := v1alpha1.DomainFit{Domain: domain.String(), Fit: int32(found.Fit)}
		switch {
		case inside:
			fit.Tried = []v1alpha1.DomainFit{tried}
		case len(fit.Tried) < maxTried:
			fit.Tried = append(fit.Tried, tried)
		case better:
			fit.Tried[maxTried-1] = tried
		}
		if inside || found.Fit == found.Ready || fit.Incomplete {
			break
		}
	}
	return fit, nil
}

// report writes how much fits into an explanation.
func report(found *gang.Fit, fit *v1alpha1.PodGroupFit) {
	fit.Name, fit.Composite = found.Name, found.Source == podgroup.Composite
	fit.Needed, fit.Ready, fit.Fit = int32(found.Needed), int32(found.Ready), int32(found.Fit)
}

// maxTried limits the domains that are listed.
const maxTried = 8

// placeIn places the pods of an attempt on the nodes of a domain, each on the cluster with those
// before it, and takes all of them back. It returns how many fit. An error means that a plugin
// failed for a pod.
func (p *podGroup) placeIn(ctx context.Context, attempt *gang.Attempt, domain podgroup.Domain) (gang.Fit, error) {
	found := attempt.FitIn(ctx, domain, p.leaf)
	defer attempt.TakeBack(ctx)
	if ctx.Err() != nil {
		return found, context.Cause(ctx)
	}
	for i := range attempt.Outcomes {
		if status := attempt.Outcomes[i].Status; !status.IsSuccess() && !status.IsRejected() {
			return found, fmt.Errorf("deciding the pod %s of the group: %w", attempt.Members[i].GetPod().Name,
				status.AsError())
		}
	}
	return found, nil
}

// attempt begins an attempt at pods of the group, which the caller must end.
func (e *explainer) attempt(pods []*corev1.Pod) (attempt *gang.Attempt, err error) {
	g := *e.podGroup.Group
	g.Pods = pods
	attempt, _ = e.fork.NewAttempt(&g, e.instance, func(ctx context.Context, pod *corev1.Pod) (fork.Decision, error) {
		return e.podGroup.decider.Decide(ctx, e.instance, pod)
	})
	attempt.CountAll = true
	attempt.Overlay, err = e.fork.BeginOverlay()
	return attempt, err
}
