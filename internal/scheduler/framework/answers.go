// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Answers is a CycleState that remembers the results of some plugins at PreFilter and, node by
// node, at Filter. If a pod is evaluated a second time in one cycle, with the same Answers and the
// same snapshot, these plugins are not called again: unknown plugins may count the calls, act on
// them, or return another result.
//
// A clone is an ordinary state and remembers nothing, as it serves other circumstances. Like any
// CycleState, Answers is safe for concurrent use.
type Answers struct {
	fwk.CycleState
	plugins sets.Set[string]

	mu        sync.Mutex // guards the fields below
	preFilter map[string]preFilterAnswer
	filter    map[filterQuestion]*fwk.Status
}

type preFilterAnswer struct {
	result *fwk.PreFilterResult
	status *fwk.Status
}

// filterQuestion is the plugin and the node of a call.
type filterQuestion struct {
	plugin string
	node   fwk.NodeInfo
}

// NewAnswers returns a state, for one cycle, that remembers the results of the plugins with these
// names.
func NewAnswers(state fwk.CycleState, plugins sets.Set[string]) *Answers {
	return &Answers{
		CycleState: state, plugins: plugins,
		preFilter: map[string]preFilterAnswer{}, filter: map[filterQuestion]*fwk.Status{},
	}
}

// answersOf returns state if it remembers the results of the plugin, nil if not.
func answersOf(state fwk.CycleState, plugin string) *Answers {
	if a, ok := state.(*Answers); ok && a.plugins.Has(plugin) {
		return a
	}
	return nil
}

// toPreFilter returns the remembered result of a plugin. The first call gets it from ask.
func (a *Answers) toPreFilter(plugin string,
	ask func() (*fwk.PreFilterResult, *fwk.Status)) (*fwk.PreFilterResult, *fwk.Status) {
	if a == nil {
		return ask()
	}
	known := remembered(a, a.preFilter, plugin, func() (answer preFilterAnswer) {
		answer.result, answer.status = ask()
		return answer
	})
	return known.result, known.status
}

// remembered returns the answer to a question. The first call gets it from ask.
func remembered[Q comparable, A any](a *Answers, answers map[Q]A, question Q, ask func() A) A {
	a.mu.Lock()
	answer, ok := answers[question]
	a.mu.Unlock()
	if !ok {
		answer = ask()
		a.mu.Lock()
		answers[question] = answer
		a.mu.Unlock()
	}
	return answer
}
