// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// trial is a CycleState whose writes can be undone. Like any CycleState, it may be used by plugins
// from several goroutines; undo must not run at the same time.
type trial struct {
	fwk.CycleState
	skippedFilters, skippedScores sets.Set[string]

	mu sync.Mutex
	// before holds the previous values of the keys that were written or deleted; nil: there was
	// none.
	before map[fwk.StateKey]fwk.StateData
}

func newTrial(state fwk.CycleState) *trial {
	return &trial{
		CycleState: state, before: map[fwk.StateKey]fwk.StateData{},
		skippedFilters: state.GetSkipFilterPlugins(), skippedScores: state.GetSkipScorePlugins(),
	}
}

// Write implements fwk.CycleState.
func (t *trial) Write(key fwk.StateKey, value fwk.StateData) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remember(key)
	t.CycleState.Write(key, value)
}

// Delete implements fwk.CycleState.
func (t *trial) Delete(key fwk.StateKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remember(key)
	t.CycleState.Delete(key)
}

func (t *trial) remember(key fwk.StateKey) {
	if _, ok := t.before[key]; ok {
		return
	}
	value, err := t.Read(key)
	if err != nil {
		value = nil
	}
	t.before[key] = value
}

// undo restores the state.
func (t *trial) undo() {
	for key, value := range t.before {
		if value == nil {
			t.CycleState.Delete(key)
		} else {
			t.CycleState.Write(key, value)
		}
	}
	t.SetSkipFilterPlugins(t.skippedFilters)
	t.SetSkipScorePlugins(t.skippedScores)
}
