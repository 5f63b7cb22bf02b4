// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/fork"
)

// NoNodeError is the error for a node that does not exist.
type NoNodeError struct{ Name string }

// Error implements error.
func (e *NoNodeError) Error() string { return fmt.Sprintf("there is no node %q", e.Name) }

// Node compares a node with the others that the pod fits on, and describes what refuses the pod
// there. A pod that is on a node is taken off it on the fork and decided as if it were pending, so
// the fork must not be used for anything else afterwards. The result is nil if no profile has the
// scheduler name of the pod.
//
// The error is a *NoNodeError, an error of a plugin, or the cause of ctx.
func Node(ctx context.Context, k *fork.Fork, pod *corev1.Pod, name string) (*v1alpha1.NodeExplanation, error) {
	cfg, err := k.ProfileOf(pod)
	if errors.Is(err, fork.ErrNoProfile) {
		return nil, nil
	}
	unplaced, err := takeOff(k, pod)
	if err != nil {
		return nil, err
	}
	e := newExplainer(k, unplaced, &v1alpha1.PodExplanation{})
	if e.instance, err = k.Instance(ctx, cfg); err != nil {
		return nil, err
	}
	if err := e.findRefusals(ctx); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(e.all, func(n fwk.NodeInfo) bool { return n.Node().Name == name }) {
		return nil, &NoNodeError{name}
	}
	x := &v1alpha1.NodeExplanation{Name: name, Fits: true}
	for i := range e.nodes {
		if n := &e.nodes[i]; n.name() == name {
			_, refusals := e.keyOf(n)
			x.Fits = false
			x.Refusals = append(e.podRefusals(), e.group(&row{nodes: []*refusedNode{n}, refusals: refusals}).
				Refusals...)
		}
	}
	if e.Feasible > 0 {
		err = e.compare(ctx, x, pod.Spec.NodeName)
	}
	return x, err
}

// compare compares the scores of a node with the highest. Of several nodes with the highest total,
// it prefers the node itself, and then the one that the pod is on.
func (e *explainer) compare(ctx context.Context, x *v1alpha1.NodeExplanation, current string) error {
	d, err := e.fork.DecideAmongAll(ctx, e.instance, e.pod)
	if err != nil {
		return err
	}
	preference := func(s fwk.NodePluginScores) int { return slices.Index([]string{current, x.Name}, s.Name) }
	best := slices.MinFunc(d.Scores, func(a, b fwk.NodePluginScores) int {
		return cmp.Or(cmp.Compare(b.TotalScore, a.TotalScore), cmp.Compare(preference(b), preference(a)),
			cmp.Compare(a.Name, b.Name))
	})
	x.Best = &nodeScores([]fwk.NodePluginScores{best})[0]
	at := slices.IndexFunc(d.Scores, func(s fwk.NodePluginScores) bool { return s.Name == x.Name })
	if at < 0 {
		return nil
	}
	x.Score, x.Rank = &nodeScores(d.Scores[at : at+1])[0], 1
	for _, s := range d.Scores {
		if s.TotalScore > d.Scores[at].TotalScore {
			x.Rank++
		}
	}
	return nil
}
