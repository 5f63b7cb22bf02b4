// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says why a pod is pending. It decides the pod on a fork of the scheduler, again
// and again: as it is, to find all plugins that refuse it on each node, and with changes that might
// help.
//
//	reasons.go     the words for refusals
//	events.go      the names of the events that a pod waits for
//	groups.go      nodes with the same refusals, by pool, and what they are short of
//	suggest.go     changes that would help, each tried on the fork
//	suggestnode.go those of nodes and what is on them
//	suggestpod.go  those of the pod
//	podgroup.go    how many pods of the pod's group fit together
//	verdict.go     what keeps the pod pending, in a word
package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
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
	// PermitPlugins are those that the pod waits for at Permit.
	PermitPlugins []string
	// Group is the pod group that the pod is placed with, nil if there is none.
	Group *Group
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
// The error is that of a context that ended. If a plugin fails, the explanation says so.
func Explain(ctx context.Context, k *fork.Fork, in Pending) (Explanation, error) {
	x := newExplanation(in)
	cfg, err := k.Profile(in.Pod.Spec.SchedulerName)
	if errors.Is(err, fork.ErrNoProfile) {
		return withoutProfile(x, in.Pod), nil
	}
	x.Profile, x.Revision = cfg.Name, cfg.Revision
	switch {
	case k.IsAssumed(in.Pod):
		return binding(x, k.Pod(in.Pod).Spec.NodeName, in.PermitPlugins), nil
	case isGated(in):
		return gated(x, in), nil
	}
	e := &explainer{fork: k, pod: in.Pod, Explanation: Explanation{PodExplanation: x}, extenders: len(cfg.Extenders)}
	e.patience = cmp.Or(in.SuggestFor, DefaultSuggestFor)
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
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status != corev1.ConditionTrue {
			x.Pending.Reason, x.Pending.Message = condition.Reason, condition.Message
		}
	}
	if w := in.Wait; w != nil {
		p := x.Pending
		p.Place, p.Attempts, p.Alike, p.GatingPlugin = w.Place.String(), int32(w.Attempts), int32(w.Alike), w.GatingPlugin
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
	// patience bounds the time in which suggestions are tried, that in which nodes are emptied, and
	// that in which the group is placed.
	patience time.Duration
	refusals *fork.Refusals
	nodes    []refusedNode
}

// refusedNode is a node that refuses the pod.
type refusedNode struct {
	fwk.NodeInfo
	refusals []*fwk.Status
	pool     string
	short    shortage
}

func (n *refusedNode) name() string { return n.Node().Name }

// run finds the refusals, and what follows from them.
func (e *explainer) run(ctx context.Context, in Pending) error {
	var err error
	if e.refusals, err = e.fork.Refusals(ctx, e.instance, e.pod); err != nil {
		return err
	}
	x := e.PodExplanation
	x.Nodes, x.Feasible = int32(len(e.refusals.Nodes)), int32(e.refusals.Fits())
	for i, node := range e.refusals.Nodes {
		if refusals := e.refusals.ByNode[i]; len(refusals) > 0 {
			e.nodes = append(e.nodes, refusedNode{
				NodeInfo: node, refusals: refusals, pool: PoolOf(node.Node()), short: shortageOf(e.pod, node, refusals),
			})
		}
	}
	x.Pending.Groups = groups(e.nodes)
	freeing := false
	if x.Feasible == 0 {
		tried, err := e.suggest(ctx)
		if err != nil {
			return err
		}
		for _, s := range tried {
			x.Pending.Suggestions = append(x.Pending.Suggestions, s.Suggestion)
			e.Changes = append(e.Changes, s.change)
			freeing = freeing || s.Type == v1alpha1.SuggestionFree
		}
	}
	return e.decideVerdict(ctx, in, freeing)
}
