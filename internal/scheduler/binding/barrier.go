// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// Barrier keeps the pods of a group from being bound before enough of them are ready to be: Permit
// and PreBind, which may refuse a pod, have let them pass. Until then, the whole group can be taken
// back. The binding cycles of the group's pods share it.
//
// It opens or breaks once, and stays so: the pods that come later pass, or are refused.
type Barrier struct {
	cfg     BarrierConfig
	decided chan struct{} // closed when the barrier opens or breaks

	mu sync.Mutex // guards the rest
	// ready are the pods that are ready, and coming is how many others may still be.
	ready  []*corev1.Pod
	coming int
	// onBreak are called before any pod is refused.
	onBreak []func(reason error)
	// broken is why the barrier is broken. nil: it is open, or not decided yet.
	broken error
}

var (
	// errGroupTimeout is the error of the pods of a group that took too long.
	errGroupTimeout = errors.New("not enough of its pods were ready to be bound in time")
	// errDeleted is the reason of a pod that was deleted.
	errDeleted = errors.New("it was deleted")
)

// BarrierConfig configures a Barrier. Its functions must not call the barrier.
type BarrierConfig struct {
	Group podgroup.Key
	// Needed is how many of the Pods must be ready together, 0 < Needed <= Pods.
	Needed, Pods int
	// Timeout is how long the first one that is ready waits for the others. 0: as long as their
	// plugins take.
	Timeout time.Duration
	// Exists reports whether a pod that is ready has not been deleted since. A deleted pod does not
	// count.
	Exists func(*corev1.Pod) bool
	// OnOpen is called when the barrier opens: the group stays together.
	OnOpen func()
	// OnBreak is called if the barrier breaks, before any pod is refused: from then on, the pods do
	// not count as placed.
	OnBreak func(reason error)
}

// NewBarrier returns a barrier for the first pods of a group.
func NewBarrier(cfg BarrierConfig) *Barrier {
	return &Barrier{cfg: cfg, decided: make(chan struct{}), coming: cfg.Pods, onBreak: []func(error){cfg.OnBreak}}
}

// Join adds a number of pods of the group that got a node later. They count like the others, which
// are needed no less. It returns false if the barrier is open or broken: then it does not concern
// them. onBreak is as in BarrierConfig.
func (b *Barrier) Join(pods int, onBreak func(reason error)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isDecidedLocked() {
		return false
	}
	b.coming += pods
	b.onBreak = append(b.onBreak, onBreak)
	return true
}

// Decided reports whether the barrier is open or broken.
func (b *Barrier) Decided() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isDecidedLocked()
}

// pass notes that a pod is ready, and waits until enough others are. It returns an error if they
// will not be: then none of them may be bound. If ctx ends before, this pod is not ready any more.
// A nil Barrier lets every pod pass.
func (b *Barrier) pass(ctx context.Context, pod *corev1.Pod) error {
	if b == nil {
		return nil
	}
	b.arrive(pod)
	var late <-chan time.Time
	if b.cfg.Timeout > 0 {
		timer := time.NewTimer(b.cfg.Timeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-b.decided:
	case <-late:
	case <-ctx.Done():
		return b.leave(pod, context.Cause(ctx))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.breakLocked(errGroupTimeout) // unless it is decided
	return b.broken
}

// leave notes that a pod is not ready any more, for a reason. It returns nil if the barrier is
// open.
func (b *Barrier) leave(pod *corev1.Pod, reason error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isDecidedLocked() {
		return b.broken
	}
	b.ready = slices.DeleteFunc(b.ready, func(other *corev1.Pod) bool { return other.UID == pod.UID })
	b.breakIfHopelessLocked(reason)
	return fmt.Errorf("%s: %w", b.cfg.Group.WithKind(), reason)
}

// arrive notes that one more pod is ready.
func (b *Barrier) arrive(pod *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming--
	b.ready = append(b.ready, pod)
	if len(b.ready) < b.cfg.Needed || b.isDecidedLocked() {
		return
	}
	b.ready = slices.DeleteFunc(b.ready, func(pod *corev1.Pod) bool { return !b.cfg.Exists(pod) })
	if len(b.ready) >= b.cfg.Needed {
		b.cfg.OnOpen()
		close(b.decided)
		return
	}
	b.breakIfHopelessLocked(errDeleted)
}

// drop notes that a pod will not be ready, for a reason. It must be called once for each pod that
// does not call pass.
func (b *Barrier) drop(reason error) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming--
	b.breakIfHopelessLocked(reason)
}

// breakIfHopelessLocked breaks the barrier if too few pods are left.
func (b *Barrier) breakIfHopelessLocked(reason error) {
	if len(b.ready)+b.coming < b.cfg.Needed {
		b.breakLocked(fmt.Errorf("another pod cannot be bound: %w", reason))
	}
}

// breakLocked breaks the barrier, unless it is decided.
func (b *Barrier) breakLocked(reason error) {
	if !b.isDecidedLocked() {
		b.broken = fmt.Errorf("%s: %w", b.cfg.Group.WithKind(), reason)
		for _, onBreak := range b.onBreak {
			onBreak(b.broken)
		}
		close(b.decided)
	}
}

func (b *Barrier) isDecidedLocked() bool {
	select {
	case <-b.decided:
		return true
	default:
		return false
	}
}
