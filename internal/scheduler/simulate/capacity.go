// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/nodepool"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// CountRequest asks how many pods like one fit, or how many groups of them.
type CountRequest struct {
	// Pod is like the pods that are counted. It is on no node.
	Pod *corev1.Pod
	// Group counts groups of its MinMember pods, each placed together. nil: single pods.
	Group *podgroup.Group
	// ClaimTemplates are the specs of claims that each pod gets, by the name of the template.
	ClaimTemplates map[string]resourcev1.ResourceClaimSpec
	Nodes          Nodes
	Limit          int
	Seed           uint64
	// SuggestFor is how long changes that may help the next pod are tried.
	SuggestFor time.Duration
	// HideNodes erases the names of nodes in the message about a group.
	HideNodes bool
}

// Count counts how many pods or groups fit. The fork is changed, and must not be used afterwards.
// The error is an *InvalidError, an error of a plugin, or the cause of ctx.
func Count(ctx context.Context, k *fork.Fork, r CountRequest) (*v1alpha1.CapacityStatus, error) {
	if errs := checkSchedulerName(specPath.Child("pod", "spec", "schedulerName"), k,
		r.Pod.Spec.SchedulerName); len(errs) > 0 {
		return nil, &InvalidError{errs}
	}
	cfg, err := k.Profile(r.Pod.Spec.SchedulerName)
	if err != nil {
		return nil, err
	}
	snapshot, err := k.Snapshot()
	if err != nil {
		return nil, err
	}
	removed, templates, errs := r.Nodes.resolve(snapshot)
	if len(errs) > 0 {
		return nil, &InvalidError{errs}
	}
	if err := r.Nodes.apply(k, templates, removed); err != nil {
		return nil, err
	}
	if snapshot, err = k.Snapshot(); err != nil {
		return nil, err
	}
	status := &v1alpha1.CapacityStatus{
		Profile: cfg.Name, Revision: cfg.Revision, ExtendersNotCalled: len(cfg.Extenders) > 0,
		ClusterNodes: int32(snapshot.NumNodes()),
	}
	if r.Group == nil {
		if status.PodGroup, err = r.useNamedGroup(ctx, k, cfg); err != nil {
			return nil, err
		}
	}
	c := &counter{CountRequest: r, fork: k, profile: cfg, sequence: NewSequence(k, r.Seed), pools: poolPods{},
		status: status}
	if r.Group != nil {
		err = c.countGroups(ctx)
	} else {
		err = c.countPods(ctx)
	}
	c.pools.report(status)
	return status, err
}

// counter is the state of Count.
type counter struct {
	CountRequest
	fork     *fork.Fork
	profile  *resolve.Profile
	sequence *Sequence
	pools    poolPods
	status   *v1alpha1.CapacityStatus
}

// countPods places pods until one fits nowhere, and explains why.
func (c *counter) countPods(ctx context.Context) error {
	for number := range c.Limit {
		pod := c.numbered(number)
		d, err := c.sequence.Place(ctx, c.profile, pod)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case Refused(err):
			c.status.Next, err = c.next(ctx, explain.Pending{Pod: pod})
			return err
		case err != nil:
			return fmt.Errorf("deciding pod %d: %w", number+1, err)
		}
		if err := c.add(d.SuggestedHost); err != nil {
			return err
		}
	}
	c.status.Limited = true
	return nil
}

// add counts a pod on a node.
func (c *counter) add(nodeName string) error {
	snapshot, err := c.fork.Snapshot()
	if err != nil {
		return err
	}
	node, err := snapshot.NodeInfos().Get(nodeName)
	if err != nil {
		return err
	}
	c.pools.add(nodepool.Of(node.Node()), nodeName)
	c.status.Pods++
	return nil
}

// countGroups places groups until one fits nowhere, and explains why.
func (c *counter) countGroups(ctx context.Context) error {
	size := c.Group.MinMember
	for int(c.status.Pods)+size <= c.Limit {
		g := &fork.Group{Group: *c.Group, Needed: size}
		for i := range size {
			g.Pods = append(g.Pods, c.numbered(int(c.status.Pods)+i))
		}
		d, err := c.sequence.PlaceGang(ctx, c.profile, g)
		switch {
		case err != nil:
			return fmt.Errorf("deciding group %d: %w", c.status.PodGroups+1, err)
		case !d.Placed:
			return c.nextGroup(ctx, g, d)
		}
		for _, node := range d.Nodes {
			if err := c.add(node); err != nil {
				return err
			}
		}
		c.status.PodGroups++
	}
	c.status.Limited = true
	return nil
}

// nextGroup explains a group that does not fit.
func (c *counter) nextGroup(ctx context.Context, g *fork.Group, d *GangDecision) error {
	var err error
	c.status.Next, err = c.next(ctx, explain.Pending{Pod: g.Pods[0], Group: g})
	if err != nil {
		return err
	}
	c.status.Next.Message = d.Reason(0).Error()
	if c.HideNodes {
		snapshot, err := c.fork.Snapshot()
		if err != nil {
			return err
		}
		names := nodeNames{}
		names.addAll(snapshot)
		c.status.Next.Message = names.erase(c.status.Next.Message)
	}
	return nil
}

// next explains a pod that does not fit, or of a group that does not fit.
func (c *counter) next(ctx context.Context, in explain.Pending) (*v1alpha1.NextPod, error) {
	in.SuggestFor = c.SuggestFor
	x, err := explain.Explain(ctx, c.fork, in)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.NextPod{
		Verdict: x.Verdict, Message: x.Message, PodGroup: x.Pending.PodGroup,
		PodRefusals: x.Pending.PodRefusals, Groups: x.Pending.Groups, Suggestions: x.Pending.Suggestions,
	}, nil
}

// numbered returns a copy of the pod with a name, a UID and claims of its own.
func (c *counter) numbered(number int) *corev1.Pod {
	pod := *c.Pod // shallow: nothing below its metadata is changed
	pod.Name = fmt.Sprintf("%s-%d", c.Pod.Name, number)
	pod.UID = types.UID(fmt.Sprintf("counted-%d", number))
	for _, ref := range pod.Spec.ResourceClaims {
		spec, ok := c.ClaimTemplates[ptr.Deref(ref.ResourceClaimTemplateName, "")]
		if !ok {
			continue
		}
		claim := claimFor(&pod, ref.Name, spec)
		c.fork.Devices().AddClaim(claim)
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses,
			corev1.PodResourceClaimStatus{Name: ref.Name, ResourceClaimName: &claim.Name})
	}
	return &pod
}

// claimFor returns the claim that a controller would create for a pod. The name of no object of the
// cluster has a colon.
func claimFor(pod *corev1.Pod, ref string, spec resourcev1.ResourceClaimSpec) *resourcev1.ResourceClaim {
	name := pod.Name + ":" + ref
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name, UID: types.UID(string(pod.UID) + ":" + ref), ResourceVersion: "1",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: spec,
	}
}

// poolPods counts pods by pool, with the nodes that they are on.
type poolPods map[string]*poolCount

type poolCount struct {
	pods  int
	nodes sets.Set[string]
}

func (p poolPods) add(pool, node string) {
	if p[pool] == nil {
		p[pool] = &poolCount{nodes: sets.New[string]()}
	}
	p[pool].pods++
	p[pool].nodes.Insert(node)
}

// report writes the pools, with the most pods first.
func (p poolPods) report(status *v1alpha1.CapacityStatus) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		status.Nodes += int32(p[name].nodes.Len())
		status.Pools = append(status.Pools,
			v1alpha1.PoolCapacity{Pool: name, Pods: int32(p[name].pods), Nodes: int32(p[name].nodes.Len())})
	}
	slices.SortStableFunc(status.Pools, func(a, b v1alpha1.PoolCapacity) int { return cmp.Compare(b.Pods, a.Pods) })
}
