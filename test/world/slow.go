// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// slowPlugin is the name of a plugin that accepts all pods, and takes its time. Without it, no time
// passes while livesched decides, and nothing happens meanwhile.
const slowPlugin = "Slow"

// slowness draws how long plugins take. Any goroutine may call its methods.
type slowness struct {
	mu     sync.Mutex // guards random
	random *rand.Rand
}

// newPlugin returns a plugin for a profile.
func (s *slowness) newPlugin(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &slow{s}, nil
}

// pause lets some time pass, one time out of three. s may be nil: no time.
func (s *slowness) pause(ctx context.Context) {
	if s == nil {
		return
	}
	s.mu.Lock()
	take := time.Duration(s.random.IntN(3*30)-60) * time.Millisecond
	s.mu.Unlock()
	if take <= 0 {
		return
	}
	timer := time.NewTimer(take)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

type slow struct{ *slowness }

var (
	_ fwk.PreFilterPlugin = &slow{}
	_ fwk.ReservePlugin   = &slow{}
)

// Name implements fwk.Plugin.
func (*slow) Name() string { return slowPlugin }

// PreFilter implements fwk.PreFilterPlugin.
func (s *slow) PreFilter(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) (
	*fwk.PreFilterResult, *fwk.Status) {
	s.pause(ctx)
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (*slow) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Reserve implements fwk.ReservePlugin.
func (s *slow) Reserve(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ string) *fwk.Status {
	s.pause(ctx)
	return nil
}

// Unreserve implements fwk.ReservePlugin.
func (s *slow) Unreserve(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ string) {
	s.pause(ctx)
}
