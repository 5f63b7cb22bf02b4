// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"errors"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// ErrNoNodesAvailable is returned when the cluster has no node at all. The words
// are kube-scheduler's; they become the pod's condition.
var ErrNoNodesAvailable = errors.New("no nodes available to schedule pods")

// Config is what a Scheduler is made of.
type Config struct {
	// Snapshot is the cluster as decisions see it. Who calls Schedule refreshes
	// it between the calls. NodeInfos().List() is the order in which nodes are
	// sampled.
	Snapshot fwk.SharedLister
	// IntN returns a random number from 0 to n-1, to draw nodes of equal score.
	// Default: rand.IntN.
	IntN func(n int) int
	// Rows decides on the fast path, on the same snapshot. nil: every decision takes the scalar
	// path.
	Rows *fastpath.Engine
	// Verify has every decision of the fast path made on the scalar path as well, which then
	// counts.
	Verify bool
}

// Profile is what the profile of a pod contributes to its decision.
type Profile struct {
	Framework *framework.Framework
	// Extenders are asked after the plugins, in order.
	Extenders []fwk.Extender
	// PercentageOfNodesToScore ends the search once that share of the nodes, and
	// not less than 100 nodes, is found to fit. 0 and 100: all nodes are scored. On the
	// fast path it ends the search of those plugins alone that have to be asked node by
	// node.
	PercentageOfNodesToScore int32
	// FastPath is how the fast path treats the plugins. nil: the pod takes the scalar path.
	FastPath *fastpath.Plan
}

// Result is a decision.
type Result struct {
	// SuggestedHost is the name of the node.
	SuggestedHost string
	// EvaluatedNodes is the number of nodes that the filters were run on.
	EvaluatedNodes int
	// FeasibleNodes is the number of those that the pod fits.
	FeasibleNodes int
	// Class is the class of the pod if it is known, which saves work when the pod is assumed.
	Class cache.Class

	// rest says why plugins had to be asked node by node on the fast path; see fastpath.Decision.
	rest fastpath.Reason
}

// Scheduler decides for one pod at a time; it is for the scheduling loop's
// goroutine alone. It serves all profiles, so that the nodes they sample rotate
// together.
type Scheduler struct {
	snapshot fwk.SharedLister
	intN     func(n int) int
	// next is the position in the list of nodes where the next sample begins.
	next int
	// fast is nil if there is no fast path.
	fast *fastPath
}

// New returns a Scheduler.
func New(cfg Config) *Scheduler {
	s := &Scheduler{snapshot: cfg.Snapshot, intN: cfg.IntN}
	if s.intN == nil {
		s.intN = rand.IntN
	}
	if cfg.Rows != nil {
		s.fast = &fastPath{rows: cfg.Rows, verify: cfg.Verify}
	}
	return s
}

// Schedule finds the best node for the pod. state has to be new, and is
// afterwards what Reserve and the later extension points need.
//
// The error is, or wraps, a *schedframework.FitError if the pod fits nowhere: it says why,
// for each node. It is ErrNoNodesAvailable if there are no nodes. Any other
// error is a plugin's or an extender's, or the cause of ctx having ended.
func (s *Scheduler) Schedule(ctx context.Context, p Profile, state fwk.CycleState, pod *corev1.Pod) (Result, error) {
	if s.fast == nil || p.FastPath == nil {
		return s.newCycle(p, state, pod).schedule(ctx)
	}
	return s.scheduleFast(ctx, p, state, pod)
}

// newCycle begins a decision on the scalar path.
func (s *Scheduler) newCycle(p Profile, state fwk.CycleState, pod *corev1.Pod) *cycle {
	return &cycle{Scheduler: s, profile: p, state: state, pod: pod}
}

// schedule decides on the scalar path.
func (c *cycle) schedule(ctx context.Context) (Result, error) {
	allNodes, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return Result{}, err
	}
	if len(allNodes) == 0 {
		return Result{}, ErrNoNodesAvailable
	}
	c.allNodes = allNodes
	c.feasible, err = c.findNodesThatFit(ctx)
	if err != nil {
		return Result{}, err
	}
	evaluated := len(c.feasible) + c.diagnosis.NodeToStatus.Len()
	switch len(c.feasible) {
	case 0:
		return Result{}, &schedframework.FitError{Pod: c.pod, NumAllNodes: len(allNodes), Diagnosis: c.diagnosis}
	case 1:
		return Result{SuggestedHost: c.feasible[0].Node().Name, EvaluatedNodes: evaluated, FeasibleNodes: 1}, nil
	}
	c.scores, err = c.prioritize(ctx, c.feasible)
	if err != nil {
		return Result{}, err
	}
	return Result{SuggestedHost: c.selectHost(), EvaluatedNodes: evaluated, FeasibleNodes: len(c.feasible)}, nil
}

// selectHost returns the node with the highest total, or one of those that share it.
func (c *cycle) selectHost() string {
	var best []int
	for i := range c.scores {
		switch {
		case len(best) == 0 || c.scores[i].TotalScore > c.scores[best[0]].TotalScore:
			best = append(best[:0], i)
		case c.scores[i].TotalScore == c.scores[best[0]].TotalScore:
			best = append(best, i)
		}
	}
	chosen := c.draw(len(best), func(i int) int { return len(c.feasible[best[i]].GetPods()) })
	return c.scores[best[chosen]].Name
}

// draws is how many of the nodes with one total are looked at. With one, pods would gather on nodes
// that others were placed on, as totals are whole numbers and do not tell few small pods from none;
// with all, each decision would go through all the nodes that are alike.
const draws = 32

// draw chooses among n nodes with one total: of those that it draws, all if they are few, the one
// with the fewest pods.
func (s *Scheduler) draw(n int, pods func(i int) int) int {
	if n == 1 {
		return 0
	}
	first := s.intN(n)
	chosen, fewest := first, pods(first)
	for k := 1; k < min(n, draws) && fewest > 0; k++ {
		i := (first + k) % n
		if n > draws {
			i = s.intN(n)
		}
		if here := pods(i); here < fewest {
			chosen, fewest = i, here
		}
	}
	return chosen
}

// cycle is one decision on the scalar path.
type cycle struct {
	*Scheduler
	profile   Profile
	state     fwk.CycleState
	pod       *corev1.Pod
	allNodes  []fwk.NodeInfo
	diagnosis schedframework.Diagnosis

	// What schedule came to: the nodes that the pod fits and, if there are several, their scores.
	feasible []fwk.NodeInfo
	scores   []fwk.NodePluginScores
}
