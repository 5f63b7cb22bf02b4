// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Fork returns a Nominator with the nominations as they are now. It belongs to no queue and reads
// no informer cache: what it holds changes only through its own methods.
func (n *Nominator) Fork() *Nominator {
	n.mu.RLock()
	defer n.mu.RUnlock()
	f := newNominator(&sync.Mutex{}, nil)
	f.byPod, f.changed, f.last = maps.Clone(n.byPod), maps.Clone(n.changed), n.last
	for node, nominated := range n.byNode {
		f.byNode[node] = slices.Clone(nominated) // a list changes in place
	}
	f.served = n.served // replaced as a whole, never changed
	f.size.Store(int64(len(f.byPod)))
	return f
}

// Suspend removes all nominations of a fork until restore is called. What is nominated in between
// is lost.
func (n *Nominator) Suspend() (restore func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	byNode, byPod, changed := n.byNode, n.byPod, n.changed
	n.byNode, n.byPod, n.changed = map[string][]*nomination{}, map[types.UID]*nomination{}, map[string]uint64{}
	n.size.Store(0)
	n.log.Cut()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.byNode, n.byPod, n.changed = byNode, byPod, changed
		n.size.Store(int64(len(byPod)))
		n.log.Cut()
	}
}
