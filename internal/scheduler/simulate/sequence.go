// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Sequence decides pods one after the other on a fork, as the scheduling loop does: each pod is
// assumed on its node, and those that it preempts have left theirs, before the next one is decided.
// It belongs to the goroutine of its fork, and a fork has one Sequence at a time.
//
// Nodes of equal score are drawn from a source that begins anew for each pod, with the seed of the
// sequence and the UID of the pod. So the same pods with the same seed get the same nodes, and a
// pod that is decided otherwise does not change the draws of the next ones.
type Sequence struct {
	fork    *fork.Fork
	decider *fork.Decider
	seed    uint64
	source  *rand.PCG
	// groupDryRuns is how many dry runs of preemptions by groups are left.
	groupDryRuns int
	// undo takes back what was done, from the last to the first.
	undo []func(context.Context) error
}

// maxGroupDryRuns limits the dry runs of preemptions by all groups of a Sequence. They take some
// seconds.
const maxGroupDryRuns = 100_000

// NewSequence begins a sequence.
func NewSequence(k *fork.Fork, seed uint64) *Sequence {
	s := &Sequence{fork: k, seed: seed, source: rand.NewPCG(seed, 0), groupDryRuns: maxGroupDryRuns}
	s.decider = k.NewDecider(rand.New(s.source).IntN, fork.DeciderOptions{Preempts: true})
	return s
}

// Decide decides a pod with a profile, and assumes it nowhere. The pod must not be on a node. The
// error is one that Refused knows, an error of a plugin, or the cause of ctx.
func (s *Sequence) Decide(ctx context.Context, cfg *resolve.Profile, pod *corev1.Pod) (fork.Decision, error) {
	instance, err := s.fork.Instance(ctx, cfg)
	if err != nil {
		return fork.Decision{}, err
	}
	s.source.Seed(s.seed, hashOf(pod))
	return s.decider.Decide(ctx, instance, pod)
}

// Place decides a pod like Decide, and assumes it on its node.
func (s *Sequence) Place(ctx context.Context, cfg *resolve.Profile, pod *corev1.Pod) (fork.Decision, error) {
	d, err := s.Decide(ctx, cfg, pod)
	if err != nil {
		return d, err
	}
	return d, s.Assume(ctx, d)
}

// Assume assumes the pod of the latest decision on its node.
func (s *Sequence) Assume(ctx context.Context, d fork.Decision) error {
	a, err := s.fork.Assume(ctx, d)
	if err != nil {
		return err
	}
	s.undo = append(s.undo, a.TakeBack)
	return nil
}

// Preempt evicts the pods that a refused pod would preempt, and places it. refused and reason are
// what Place has just returned. It returns nil if preemption does not help. The error is one that
// Place returns, or preemption.ErrTooManyDryRuns. The evicted pods stay away also after an error.
func (s *Sequence) Preempt(ctx context.Context, cfg *resolve.Profile, refused fork.Decision,
	reason error) (*fork.Preempted, fork.Decision, error) {
	preempted, err := s.decider.Preempt(ctx, refused, reason)
	if preempted == nil || err != nil {
		return nil, refused, err
	}
	s.undo = append(s.undo, func(context.Context) error { return preempted.TakeBack() })
	d, err := s.Decide(ctx, cfg, refused.Pod)
	if d.SuggestedHost != preempted.Node {
		// The scheduling loop tries the nominated node first, and leaves the fast path for that.
		nominated := *refused.Pod // shallow: nothing below the status is changed
		nominated.Status.NominatedNodeName = preempted.Node
		d, err = s.Decide(ctx, cfg, &nominated)
	}
	if err == nil {
		err = s.Assume(ctx, d)
	}
	return preempted, d, err
}

// TakeBack takes back all pods and preemptions, the latest first. The fork is then as it was before
// the sequence, and the sequence must not be used any more.
func (s *Sequence) TakeBack(ctx context.Context) error {
	var errs []error
	for _, undo := range slices.Backward(s.undo) {
		errs = append(errs, undo(ctx))
	}
	s.undo = nil
	return errors.Join(errs...)
}

// Reasons returns the error of a pod that has just been refused, with the reasons: a decision
// leaves them out, because it takes long to find them.
func (s *Sequence) Reasons(ctx context.Context, cfg *resolve.Profile, pod *corev1.Pod, refused error) error {
	instance, err := s.fork.Instance(ctx, cfg)
	if err != nil {
		return refused
	}
	if _, err := s.fork.Decide(ctx, instance, pod); err != nil {
		return err
	}
	return refused
}

// Refused reports whether the error of a decision means that the pod fits no node.
func Refused(err error) bool {
	return fork.StatusOf(err).IsRejected()
}

func hashOf(pod *corev1.Pod) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, string(pod.UID)) // it never fails
	return h.Sum64()
}
