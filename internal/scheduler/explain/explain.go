// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain explains why a pod is pending. It decides the pod on a fork of the scheduler,
// again and again: as it is, to find all plugins that refuse it on each node, and with changes that
// might help.
//
//	reasons.go     the words for refusals
//	details*.go    what refuses the pod, by name
//	events.go      the names of the events that a pod waits for
//	groups.go      nodes with the same refusals, and what they are short of
//	suggest.go     changes that would help, each tried on the fork
//	suggestnode.go changes of nodes and what is on them
//	suggestpod.go  changes of the pod
//	suggestfits.go how many pods a change helps
//	podgroup.go    how many pods of the pod's group fit together
//	verdict.go     what keeps the pod pending, in a word
package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/nodepool"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Pending is a pod that is not bound, with what the scheduler knows about it.
type Pending struct {
	Pod *corev1.Pod
	// Wait is what the pod waits for in the queue, nil if it is not there.
	Wait *queue.Wait
	// NominatedNode is the node that the pod is nominated to, or "".
	NominatedNode string
	// PermitPlugins are the plugins that the pod waits for at Permit.
	PermitPlugins []string
	// Group is the pod group that the pod is placed with, nil if there is none.
	Group *fork.Group
	// Now is the time of the explanation.
	Now time.Time
	// SuggestFor is how long changes that may help are tried, and then how long nodes are emptied
	// one by one to find the verdict, and how long the pods of the group are placed. 0 means
	// DefaultSuggestFor.
	SuggestFor time.Duration
}

// Explanation is an explanation with the changes that it suggests.
type Explanation struct {
	*v1alpha1.PodExplanation
	// Changes are what was tried for each suggestion, in the same order.
	Changes []Change
}

// Explain explains why a pod is pending. The fork is left as it was.
//
// The error is the cause of ctx. If a plugin fails, the explanation contains its error.
func Explain(ctx context.Context, k *fork.Fork, in Pending) (Explanation, error) {
	x := newExplanation(in)
	cfg, err := k.ProfileOf(in.Pod)
	if errors.Is(err, fork.ErrNoProfile) {
		return withoutProfile(x, in.Pod, k.SchedulerNames()), nil
	}
	x.Profile, x.Revision = cfg.Name, cfg.Revision
	x.Pending.Victims = victimsOf(k, in.Pod, in.NominatedNode)
	switch {
	case k.IsAssumed(in.Pod):
		return binding(x, k.Pod(in.Pod).Spec.NodeName, in.PermitPlugins), nil
	case isGated(in):
		return gated(x, in), nil
	}
	e := newExplainer(k, in.Pod, x)
	e.extenders, e.patience = len(cfg.Extenders), cmp.Or(in.SuggestFor, DefaultSuggestFor)
	if e.instance, err = k.Instance(ctx, cfg); err == nil && in.Group != nil {
		x.Pending.PodGroup, err = e.fitGroup(ctx, in.Group)
	}
	if err == nil {
		err = e.run(ctx, in)
	}
	if ctx.Err() != nil {
		return Explanation{}, context.Cause(ctx)
	}
	if err != nil {
		x.Verdict, x.Message = v1alpha1.VerdictUnknown, fmt.Sprintf("It is unknown whether the pod fits: %v.", err)
	}
	return e.Explanation, nil
}

func newExplainer(k *fork.Fork, pod *corev1.Pod, x *v1alpha1.PodExplanation) *explainer {
	e := &explainer{fork: k, pod: pod, Explanation: Explanation{PodExplanation: x}, reasons: reasons{}}
	e.details.explainer = e
	return e
}

// newExplanation returns what is known without a decision.
func newExplanation(in Pending) *v1alpha1.PodExplanation {
	pod := in.Pod
	x := &v1alpha1.PodExplanation{
		TypeMeta:      metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodExplanation"},
		Metadata:      metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Time:          metav1.NewTime(in.Now),
		SchedulerName: pod.Spec.SchedulerName,
		Pending:       &v1alpha1.PendingExplanation{Since: pod.CreationTimestamp, NominatedNode: in.NominatedNode},
	}
	if _, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled); c != nil && c.Status != corev1.ConditionTrue {
		x.Pending.Reason, x.Pending.Message = c.Reason, c.Message
	}
	if w := in.Wait; w != nil {
		p := x.Pending
		p.Place, p.Attempts, p.Alike = w.Place.String(), int32(w.Attempts), int32(w.Alike)
		p.GatingPlugin, p.GatingMessage = w.GatingPlugin, w.GatingMessage
		if !w.NextTry.IsZero() {
			p.NextTry = metav1.NewTime(w.NextTry)
		}
		p.WaitsFor = awaited(w.Events)
	}
	return x
}

// explainer explains a pod that is to be decided.
type explainer struct {
	Explanation
	fork      *fork.Fork
	pod       *corev1.Pod
	instance  *profile.Instance
	extenders int
	// patience bounds each of three times: to try suggestions, to empty nodes, and to place the
	// group.
	patience time.Duration
	reasons  reasons
	// all are all nodes, and nodes those that the pod does not fit on.
	all   []fwk.NodeInfo
	nodes []refusedNode
	// everywhere are the refusals of the pod whatever the node is. Those of the nodes do not repeat
	// them.
	everywhere []*fwk.Status
	details    details
	// podGroup is the group of the pod, nil if there is none.
	podGroup *podGroup
}

// refusedNode is a node that refuses the pod.
type refusedNode struct {
	fwk.NodeInfo
	refusals []*fwk.Status
	pool     string
	short    shortage
	// key is the key of the node's row, if it has one.
	key string
}

func (n *refusedNode) name() string { return n.Node().Name }

// run finds the refusals, and what follows from them.
func (e *explainer) run(ctx context.Context, in Pending) error {
	if err := e.findRefusals(ctx); err != nil {
		return err
	}
	x := e.PodExplanation
	x.Pending.PodRefusals = e.podRefusals()
	x.Pending.Groups = e.groups()
	freeing := false
	if x.Feasible == 0 || e.podGroup.lacksRoom() {
		tried, err := e.suggest(ctx)
		if err == nil {
			err = e.countFits(ctx, int(x.Pending.Alike), tried)
		}
		if err != nil {
			return err
		}
		for _, s := range tried {
			x.Pending.Suggestions = append(x.Pending.Suggestions, s.Suggestion)
			e.Changes = append(e.Changes, s.change)
			freeing = freeing || s.Type == v1alpha1.SuggestionFree
		}
	}
	var err error
	x.Verdict, x.Message, err = e.verdict(ctx, in, freeing)
	return err
}

// findRefusals runs all filters on all nodes.
func (e *explainer) findRefusals(ctx context.Context) error {
	refusals, err := e.fork.Refusals(ctx, e.instance, e.pod)
	if err != nil {
		return err
	}
	wanted := (&schedframework.PodInfo{Pod: e.pod}).CalculateResource().Resource
	e.all, e.everywhere = refusals.Nodes, refusals.Everywhere
	e.Nodes, e.Feasible = int32(len(refusals.Nodes)), int32(refusals.Fits())
	for i, node := range refusals.Nodes {
		if statuses := refusals.ByNode[i]; len(statuses) > 0 {
			own := e.details.withDevicesToFree(node.Node(), statuses[len(refusals.Everywhere):])
			e.nodes = append(e.nodes, refusedNode{
				NodeInfo: node, refusals: own, pool: nodepool.Of(node.Node()), short: shortageOf(wanted, node, own),
			})
		}
	}
	e.liftRefusals()
	return nil
}

// liftRefusals makes refusals of nodes into such of the pod that are about a claim of the pod: some
// plugins look at claims only when they are asked about a node.
func (e *explainer) liftRefusals() {
	if e.Feasible > 0 || len(e.nodes) == 0 {
		return
	}
	for _, refusal := range e.nodes[0].refusals {
		same := func(s *fwk.Status) bool {
			return s.Plugin() == refusal.Plugin() && slices.Equal(s.Reasons(), refusal.Reasons())
		}
		lacks := func(n refusedNode) bool { return !slices.ContainsFunc(n.refusals, same) }
		if !isAboutClaims(e.reasons.of(refusal)) || slices.ContainsFunc(e.nodes, lacks) {
			continue
		}
		e.everywhere = append(e.everywhere, refusal)
		for i := range e.nodes {
			n := &e.nodes[i]
			n.refusals = slices.DeleteFunc(slices.Clone(n.refusals), same)
		}
	}
}
