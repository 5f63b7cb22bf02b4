// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// undoableState is a CycleState whose writes can be undone. Like any CycleState, it may be used by
// plugins from several goroutines; undo must not run at the same time.
type undoableState struct {
	fwk.CycleState
	skippedFilters, skippedScores sets.Set[string]

	mu sync.Mutex
	// before holds the previous values of the keys that were written or deleted; nil: there was
	// none.
	before map[fwk.StateKey]fwk.StateData
}

func newUndoable(state fwk.CycleState) *undoableState {
	return &undoableState{
		CycleState: state, before: map[fwk.StateKey]fwk.StateData{},
		skippedFilters: state.GetSkipFilterPlugins(), skippedScores: state.GetSkipScorePlugins(),
	}
}

// Write implements fwk.CycleState.
func (u *undoableState) Write(key fwk.StateKey, value fwk.StateData) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.remember(key)
	u.CycleState.Write(key, value)
}

// Delete implements fwk.CycleState.
func (u *undoableState) Delete(key fwk.StateKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.remember(key)
	u.CycleState.Delete(key)
}

func (u *undoableState) remember(key fwk.StateKey) {
	if _, ok := u.before[key]; ok {
		return
	}
	u.before[key], _ = u.Read(key) // nil if it fails
}

// undo restores the state.
func (u *undoableState) undo() {
	for key, value := range u.before {
		if value == nil {
			u.CycleState.Delete(key)
		} else {
			u.CycleState.Write(key, value)
		}
	}
	u.SetSkipFilterPlugins(u.skippedFilters)
	u.SetSkipScorePlugins(u.skippedScores)
}
