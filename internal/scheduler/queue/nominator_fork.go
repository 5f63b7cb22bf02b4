// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"
	"slices"
	"sync"
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
