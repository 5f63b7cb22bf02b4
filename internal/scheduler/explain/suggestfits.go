// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/internal/scheduler/fork"
)

// maxFits limits the pods that are placed to count how many a change helps.
const maxFits = 500

// countFits counts, for each of the changes that were tried, how many of the pods that wait for the
// same reason find a node with it. It stops when the time is up, which is no error. Pods with
// claims of their own are not counted: a copy of the pod would share them.
func (e *explainer) countFits(ctx context.Context, alike int, tried []suggestion) error {
	if alike == 0 || e.podGroup != nil || hasClaims(e.pod) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	source := rand.New(rand.NewPCG(0, 0)) // the same state gives the same numbers
	decider := e.fork.NewDecider(source.IntN, fork.DeciderOptions{})
	for i := range tried {
		if !tried[i].Verified {
			continue
		}
		fits, err := e.fitsWith(limited, decider, &tried[i], min(alike+1, maxFits))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case limited.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		tried[i].Fits = int32(fits)
	}
	return nil
}

func hasClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	})
}

// fitsWith places copies of the pod with a change until one fits nowhere, and takes everything
// back.
func (e *explainer) fitsWith(ctx context.Context, decider *fork.Decider, s *suggestion,
	most int) (fits int, err error) {
	undo, err := e.apply(s)
	defer func() { err = e.undone(undo, err) }()
	if err != nil {
		return 0, err
	}
	var placed []*fork.Assumed
	defer func() {
		for _, a := range slices.Backward(placed) {
			err = errors.Join(err, a.TakeBack(ctx))
		}
	}()
	like := cmp.Or(s.change.Pod, e.pod)
	for ; fits < most && ctx.Err() == nil; fits++ {
		pod := *like // shallow: nothing below its metadata is changed
		pod.Name, pod.UID = fmt.Sprintf("%s-%d", like.Name, fits), types.UID(fmt.Sprintf("counted-%d", fits))
		pod.Status = corev1.PodStatus{}
		d, err := decider.Decide(ctx, e.instance, &pod)
		if fork.StatusOf(err).IsRejected() {
			break
		}
		if err != nil {
			return 0, err
		}
		a, err := e.fork.Assume(ctx, d)
		if err != nil {
			return 0, err
		}
		placed = append(placed, a)
	}
	return fits, nil
}

// apply makes the change of a suggestion until undo is called, also after an error.
func (e *explainer) apply(s *suggestion) (undo func() error, err error) {
	switch {
	case len(s.change.Removed) > 0:
		return e.remove(s.change.Removed)
	case s.like != nil:
		_, remove, err := e.fork.AddNodeLike(s.like, "another-")
		return func() error { remove(); return nil }, err
	case s.change.Node != nil:
		snapshot, err := e.fork.Snapshot()
		if err != nil {
			return nothing, err
		}
		node, err := snapshot.NodeInfos().Get(s.change.Node.Name)
		if err != nil {
			return nothing, err
		}
		return e.replace(node.Node(), s.change.Node), nil
	}
	return nothing, nil
}

func nothing() error { return nil }
