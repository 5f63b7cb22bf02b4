// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Answers is a CycleState that remembers what some plugins answer at PreFilter and, node by node,
// at Filter. Who has to look at a pod a second time in one cycle, with the same Answers and the
// same snapshot, has none of them asked again: plugins of which nothing is known may count the
// calls, act on them, or answer otherwise.
//
// A clone is a state like any other, and remembers nothing, as it is for asking under other
// circumstances. Plugins may use Answers from several goroutines, as any CycleState.
type Answers struct {
	fwk.CycleState
	plugins sets.Set[string]

	mu        sync.Mutex // guards what follows
	preFilter map[string]preFilterAnswer
	filter    map[filterQuestion]*fwk.Status
}

type preFilterAnswer struct {
	result *fwk.PreFilterResult
	status *fwk.Status
}

// filterQuestion is whom was asked about what.
type filterQuestion struct {
	plugin string
	node   fwk.NodeInfo
}

// NewAnswers returns a state, for one cycle, that remembers what the plugins of these names answer.
func NewAnswers(state fwk.CycleState, plugins sets.Set[string]) *Answers {
	return &Answers{
		CycleState: state, plugins: plugins,
		preFilter: map[string]preFilterAnswer{}, filter: map[filterQuestion]*fwk.Status{},
	}
}

// answersOf returns the answers that are remembered of a plugin, nil if none are.
func answersOf(state fwk.CycleState, plugin string) *Answers {
	if a, ok := state.(*Answers); ok && a.plugins.Has(plugin) {
		return a
	}
	return nil
}

// toPreFilter returns what a plugin has answered, or has it asked.
func (a *Answers) toPreFilter(plugin string, ask func() (*fwk.PreFilterResult, *fwk.Status)) (*fwk.PreFilterResult, *fwk.Status) {
	if a == nil {
		return ask()
	}
	a.mu.Lock()
	known, ok := a.preFilter[plugin]
	a.mu.Unlock()
	if !ok {
		known.result, known.status = ask()
		a.mu.Lock()
		a.preFilter[plugin] = known
		a.mu.Unlock()
	}
	return known.result, known.status
}

// toFilter is toPreFilter for a node.
func (a *Answers) toFilter(plugin string, node fwk.NodeInfo, ask func() *fwk.Status) *fwk.Status {
	question := filterQuestion{plugin, node}
	a.mu.Lock()
	status, ok := a.filter[question]
	a.mu.Unlock()
	if !ok {
		status = ask()
		a.mu.Lock()
		a.filter[question] = status
		a.mu.Unlock()
	}
	return status
}
