// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufragmentation

import "sync"

// known holds the devices of nodes as they were last read. It forgets nodes that no decision has
// needed for long, such as those that are gone. The goroutines that score nodes share it.
type known struct {
	mu  sync.Mutex // guards the fields below
	old map[string]knownNode
	// young are the nodes that were needed since old was made.
	young map[string]knownNode
	// decisions counts the decisions since then.
	decisions int
}

// knownNode are the devices of a node, in a version. Nobody changes them.
type knownNode struct {
	version [2]uint64
	gpus    []gpu
}

// ageLimit is the number of decisions for which a node is known at least.
const ageLimit = 1024

// age begins a decision.
func (k *known) age() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.decisions++; k.decisions > ageLimit {
		k.old, k.young, k.decisions = k.young, nil, 0
	}
}

// get returns what is known of a node: no devices, in version 0, if nothing is.
func (k *known) get(node string) knownNode {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n, ok := k.young[node]; ok {
		return n
	}
	n, ok := k.old[node]
	if ok {
		k.setLocked(node, n)
	}
	return n
}

func (k *known) set(node string, n knownNode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setLocked(node, n)
}

func (k *known) setLocked(node string, n knownNode) {
	if k.young == nil {
		k.young = map[string]knownNode{}
	}
	k.young[node] = n
}
