// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// PodsInPreBind holds the pods whose PreBind plugins run, by UID: while they run, preemption can
// cancel a pod's binding cycle instead of deleting the pod, and so does the loss of a resource
// claim. There is one collection per process, for the same reason as with WaitingPods. It is safe
// for concurrent use.
type PodsInPreBind struct {
	mu   sync.RWMutex // guards pods
	pods map[types.UID]*podInPreBind
}

// NewPodsInPreBind returns an empty collection.
func NewPodsInPreBind() *PodsInPreBind {
	return &PodsInPreBind{pods: map[types.UID]*podInPreBind{}}
}

// Add adds a pod whose binding cycle ends when cancel is called.
func (p *PodsInPreBind) Add(uid types.UID, cancel context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods[uid] = &podInPreBind{cancel: cancel}
}

// Get returns the pod with that UID, or nil.
func (p *PodsInPreBind) Get(uid types.UID) fwk.PodInPreBind {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if pod, ok := p.pods[uid]; ok {
		return pod
	}
	return nil
}

// Remove removes the pod with that UID, if it is in the collection.
func (p *PodsInPreBind) Remove(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pods, uid)
}

// podInPreBind is cancelled or passes PreBind. The first of these states is final.
type podInPreBind struct {
	cancel context.CancelCauseFunc

	mu       sync.Mutex // guards the fields below
	canceled bool
	prebound bool
}

var _ fwk.PodInPreBind = (*podInPreBind)(nil)

// CancelPod cancels the pod's binding cycle, with reason as the cause. It returns false if the pod
// is already past PreBind.
func (p *podInPreBind) CancelPod(reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prebound {
		return false
	}
	if !p.canceled {
		p.canceled = true
		p.cancel(errors.New(reason))
	}
	return true
}

// MarkPrebound is called before the pod is bound; afterwards it cannot be cancelled. It returns
// false if the pod was cancelled and must not be bound.
func (p *podInPreBind) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.canceled {
		return false
	}
	p.prebound = true
	return true
}
