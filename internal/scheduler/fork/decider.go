// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fork

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/preemption"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// classMemory limits the memory of the classes of a Decider, in bytes.
const classMemory = 64 << 20

// Decider decides many pods of a fork as the scheduling loop does: on the fast path if the running
// scheduler has one. It belongs to the goroutine of its fork.
//
// A new Decider knows no classes of pods and begins its samples at the first node. So two Deciders
// that decide the same pods in the same state, with the same draws, decide the same.
type Decider struct {
	fork    *Fork
	decider *algorithm.Decider
	intN    func(n int) int
	options DeciderOptions
	// trials choose the victims of preemptions. They know classes of the fast path, too. Those of
	// profiles that do not preempt are nil.
	trials map[*profile.Instance]*preemption.Trial
}

// DeciderOptions are the options of a Decider.
type DeciderOptions struct {
	// Preempts means that Preempt will be called.
	Preempts bool
	// EveryNode makes decisions find all nodes that a pod fits, also where the best are enough: see
	// algorithm.Params.
	EveryNode bool
}

// NewDecider returns a Decider. intN returns a random number from 0 to n-1,
// to draw among nodes of equal score, and the node at which a preemption begins its search.
func (f *Fork) NewDecider(intN func(n int) int, options DeciderOptions) *Decider {
	cfg := algorithm.Config{Snapshot: f.snapshot, IntN: intN, Reproducible: true}
	if f.forker.cfg.FastPath {
		cfg.Engine = fastpath.NewUnmeasured(f.snapshot, classMemory)
	}
	return &Decider{fork: f, decider: algorithm.New(cfg), intN: intN, options: options,
		trials: map[*profile.Instance]*preemption.Trial{}}
}

// Decide decides a pod without preemption and without extenders. If the pod fits no node, the error
// wraps a *schedframework.FitError, which may lack the reasons if preemption cannot help: see
// Fork.Decide. The decision has no Scores.
func (d *Decider) Decide(ctx context.Context, p *profile.Instance, pod *corev1.Pod) (Decision, error) {
	trial := d.trial(p)
	return d.decide(ctx, p, pod, trial == nil || !trial.MayHelp(pod))
}

// DecideMember is Decide for a pod that is placed with its group. The error never lacks reasons.
func (d *Decider) DecideMember(ctx context.Context, p *profile.Instance, pod *corev1.Pod) (Decision, error) {
	return d.decide(ctx, p, pod, false)
}

func (d *Decider) decide(ctx context.Context, p *profile.Instance, pod *corev1.Pod,
	unexplained bool) (Decision, error) {
	decision := Decision{Pod: pod, Profile: p, State: d.fork.newState()}
	if err := d.fork.refresh(); err != nil {
		return decision, err
	}
	var err error
	decision.Decision, err = d.decider.Decide(ctx, algorithm.Params{
		Framework:                p.Framework,
		PercentageOfNodesToScore: p.Config.PercentageOfNodesToScore,
		FastPath:                 p.FastPath(),
		Unexplained:              unexplained,
		EveryNode:                d.options.EveryNode,
	}, decision.State, pod)
	return decision, err
}
