// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

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
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// Bound is what an explanation of a bound pod begins with.
type Bound struct {
	// Pod must be complete, as the API server has it, for Recompute.
	Pod *corev1.Pod
	// Decision is the decision that put the pod on its node, nil if it is not in the log. Changes
	// is the number of changes of nodes and pods since.
	Decision *decisionlog.Decision
	Changes  int64
	Now      time.Time
}

// IsRecorded reports whether the log has all that explains the decision: the scores by plugin,
// unless there were none.
func (b Bound) IsRecorded() bool {
	return b.Decision != nil && (b.Decision.Top != nil || b.isUnscored())
}

// isUnscored reports whether the node was not scored, because no other was known to fit. A total of
// 0 counts as none.
func (b Bound) isUnscored() bool { return b.Decision.Feasible == 1 && b.Decision.Total == 0 }

// Recorded explains why a pod is on its node, by a recorded decision.
func Recorded(b Bound) *v1alpha1.PodExplanation {
	x, d := newBound(b, v1alpha1.BasisRecorded), b.Decision
	x.Nodes, x.Feasible, x.Bound.Tied = int32(d.Nodes), int32(d.Feasible), int32(d.Tied)
	if d.Partial {
		x.Bound.Evaluated = int32(d.Evaluated)
	}
	x.Bound.Top = nodeScores(d.Top)
	x.Message = b.chosen()
	return x
}

// chosen describes among how many nodes the node was chosen.
func (b Bound) chosen() string {
	d := b.Decision
	fitted := fmt.Sprintf("The pod fitted on %d of %d nodes.", d.Feasible, d.Nodes)
	switch {
	case d.Partial:
		fitted = fmt.Sprintf("livesched evaluated %d of %d nodes, and the pod fitted on %d of those.", d.Evaluated,
			d.Nodes, d.Feasible)
		if b.isUnscored() {
			return fitted + " It was not scored."
		}
	case b.isUnscored():
		return fmt.Sprintf("Of %d nodes, the pod fitted only this one, which was not scored.", d.Nodes)
	}
	if d.Tied > 1 {
		return fitted + fmt.Sprintf(" %d of them shared the highest total, %d, and this one was drawn.", d.Tied,
			d.Total)
	}
	return fitted + fmt.Sprintf(" This one had the highest total, %d.", d.Total)
}

// lead describes the decision about the pod, before the text about a decision made now.
func (b Bound) lead() string {
	if b.Decision == nil {
		return "The decision was not recorded."
	}
	return b.chosen() + " The scores by plugin were not recorded."
}

// Recompute explains why a pod is on its node if the log does not: it takes the pod off the node on
// the fork, and decides it again. The fork must not be used for anything else afterwards.
//
// The error is the cause of ctx. If a plugin fails, the explanation contains its error.
func Recompute(ctx context.Context, k *fork.Fork, b Bound) (*v1alpha1.PodExplanation, error) {
	x, pod := newBound(b, v1alpha1.BasisRecomputed), b.Pod
	cfg, err := k.ProfileOf(pod)
	if errors.Is(err, fork.ErrNoProfile) {
		x.Message = b.lead() + " " + noProfile(pod.Spec.SchedulerName, k.SchedulerNames())
		return x, nil
	}
	again := " Decided again in the present state of the cluster"
	if b.Decision == nil {
		x.Profile, x.Revision = cfg.Name, cfg.Revision
	} else if b.Decision.Revision != cfg.Revision {
		again += fmt.Sprintf(" by %s@%s", cfg.Name, cfg.Revision)
	}
	d, err := decideAgain(ctx, k, pod)
	var fitError *schedframework.FitError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &fitError):
		x.Nodes = int32(fitError.NumAllNodes)
		x.Message = b.lead() + again + fmt.Sprintf(", it would fit on none of %d nodes.", x.Nodes)
		return x, nil
	case err != nil:
		x.Message = b.lead() + fmt.Sprintf(" Deciding again failed: %v.", err)
		return x, nil
	}
	snapshot, err := k.Snapshot()
	if err != nil {
		return nil, err
	}
	x.Nodes, x.Feasible, x.Bound.Tied = int32(snapshot.NumNodes()), int32(d.FeasibleNodes), int32(d.TiedNodes)
	if d.Partial {
		x.Bound.Evaluated = int32(d.EvaluatedNodes)
	}
	x.Bound.Top = nodeScores(algorithm.Highest(d.Scores, pod.Spec.NodeName, decisionlog.TopNodes))
	x.Message = b.lead() + again + ", " + rank(d, pod.Spec.NodeName)
	if len(cfg.Extenders) > 0 {
		x.Message += " The extenders of the profile were not asked."
	}
	return x, nil
}

// decideAgain decides a pod that is on a node as if it were on none.
func decideAgain(ctx context.Context, k *fork.Fork, pod *corev1.Pod) (fork.Decision, error) {
	cfg, err := k.ProfileOf(pod)
	if err != nil {
		return fork.Decision{}, err
	}
	instance, err := k.Instance(ctx, cfg)
	if err != nil {
		return fork.Decision{}, err
	}
	unplaced, err := takeOff(k, pod)
	if err != nil {
		return fork.Decision{}, err
	}
	unplaced.Status.NominatedNodeName = ""
	return k.Decide(ctx, instance, unplaced)
}

// takeOff takes a pod off its node on a fork, if it is on one. It returns the pod without a node.
func takeOff(k *fork.Fork, pod *corev1.Pod) (*corev1.Pod, error) {
	if placed := k.Pod(pod); placed != nil {
		if err := k.RemovePod(placed); err != nil {
			return nil, err
		}
	}
	unplaced := *pod
	podfields.Unassign(&unplaced)
	return &unplaced, nil
}

// rank describes how the node of the pod compares with the others.
func rank(d fork.Decision, node string) string {
	best := slices.MaxFunc(d.Scores,
		func(a, b fwk.NodePluginScores) int { return cmp.Compare(a.TotalScore, b.TotalScore) }).TotalScore
	at := slices.IndexFunc(d.Scores, func(s fwk.NodePluginScores) bool { return s.Name == node })
	switch {
	case at < 0:
		return "the pod would not fit on its node."
	case d.Scores[at].TotalScore < best:
		return "another node would have a higher total."
	case d.TiedNodes > 1:
		return fmt.Sprintf("its node is one of %d with the highest total.", d.TiedNodes)
	}
	return "its node has the highest total."
}

// newBound returns an explanation with what is known of the decision.
func newBound(b Bound, basis v1alpha1.Basis) *v1alpha1.PodExplanation {
	x := newExplanation(Pending{Pod: b.Pod, Now: b.Now})
	x.Pending, x.Verdict = nil, v1alpha1.VerdictBound
	x.Bound = &v1alpha1.BoundExplanation{Node: b.Pod.Spec.NodeName, Basis: basis}
	if d := b.Decision; d != nil {
		x.Profile, x.Revision = d.Profile, d.Revision
		x.Bound.Decided, x.Bound.Changes = metav1.NewTime(d.Time), b.Changes
	}
	return x
}

func nodeScores(top []fwk.NodePluginScores) []v1alpha1.NodeScore {
	var out []v1alpha1.NodeScore
	for _, node := range top {
		score := v1alpha1.NodeScore{Node: node.Name, Total: node.TotalScore}
		for _, s := range node.Scores {
			if score.Scores == nil {
				score.Scores = map[string]int64{}
			}
			score.Scores[s.Name] += s.Score
		}
		out = append(out, score)
	}
	return out
}
