// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// claimChanges tells binding cycles when a claim for a volume changes, or the volume that refers to
// it. Event handlers and binding cycles use it at the same time.
type claimChanges struct {
	mu       sync.Mutex // guards watching
	watching map[types.NamespacedName]map[chan struct{}]struct{}
}

func newClaimChanges() *claimChanges {
	return &claimChanges{watching: map[types.NamespacedName]map[chan struct{}]struct{}{}}
}

// watch returns a channel that has a value after each change of a claim of the pod, until stop is
// called.
func (c *claimChanges) watch(pod *corev1.Pod) (changed <-chan struct{}, stop func()) {
	notify := make(chan struct{}, 1)
	var keys []types.NamespacedName
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range podfields.VolumeClaimNames(pod) {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		keys = append(keys, key)
		if c.watching[key] == nil {
			c.watching[key] = map[chan struct{}]struct{}{}
		}
		c.watching[key][notify] = struct{}{}
	}
	return notify, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, key := range keys {
			if delete(c.watching[key], notify); len(c.watching[key]) == 0 {
				delete(c.watching, key)
			}
		}
	}
}

// tell follows a change of a claim or of a volume.
func (c *claimChanges) tell(obj any) {
	var key types.NamespacedName
	switch changed := informers.Last(obj).(type) {
	case *corev1.PersistentVolumeClaim:
		key = types.NamespacedName{Namespace: changed.Namespace, Name: changed.Name}
	case *corev1.PersistentVolume:
		if changed.Spec.ClaimRef == nil {
			return
		}
		key = types.NamespacedName{Namespace: changed.Spec.ClaimRef.Namespace, Name: changed.Spec.ClaimRef.Name}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for notify := range c.watching[key] {
		select {
		case notify <- struct{}{}:
		default: // it has a value
		}
	}
}

// after returns a handler that tells of each event after handler has handled it.
func (c *claimChanges) after(handler toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	return informers.Around(handler, func(obj any, handle func()) {
		handle()
		c.tell(obj)
	})
}

// toldClaims is the informer of claims for the volume binder. claimChanges follow the events that
// the binder has handled.
type toldClaims struct {
	coreinformers.PersistentVolumeClaimInformer
	changes *claimChanges
}

// Informer implements PersistentVolumeClaimInformer.
func (c toldClaims) Informer() toolscache.SharedIndexInformer {
	return toldInformer{c.PersistentVolumeClaimInformer.Informer(), c.changes}
}

type toldInformer struct {
	toolscache.SharedIndexInformer
	changes *claimChanges
}

func (i toldInformer) AddEventHandler(
	handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(i.changes.after(handler))
}
