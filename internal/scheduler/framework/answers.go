// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"maps"
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
	plugins, once sets.Set[string]
	// deferred runs PreFilter of the plugin deferredOf, once, before its Filter is called and
	// before the state is copied. nil: there is none.
	deferred   func() error
	deferredOf string

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
// names. once are those of them that must not be called again even if their context had ended: the
// others may have stopped before they had an answer, which is not remembered.
func NewAnswers(state fwk.CycleState, plugins, once sets.Set[string]) *Answers {
	return &Answers{
		CycleState: state, plugins: plugins, once: once,
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

// toFilter returns the remembered status. The first call gets it from ask.
func (a *Answers) toFilter(ctx context.Context, question filterQuestion, ask func() *fwk.Status) *fwk.Status {
	a.mu.Lock()
	status, ok := a.filter[question]
	a.mu.Unlock()
	if ok {
		return status
	}
	if a.deferred != nil && question.plugin == a.deferredOf {
		if err := a.deferred(); err != nil {
			return fwk.AsStatus(err)
		}
	}
	status = ask()
	if ctx.Err() == nil || a.once.Has(question.plugin) {
		a.mu.Lock()
		a.filter[question] = status
		a.mu.Unlock()
	}
	return status
}

// DeferPreFilterOf is DeferPreFilterOf for this state. PreFilter runs, at the latest, before a call
// of Filter of the plugin and before the state is copied, and then with ctx, which is that of the
// scheduling cycle. Call it before the state is shared.
func (a *Answers) DeferPreFilterOf(ctx context.Context, plugin string,
	run func(context.Context, fwk.CycleState) error) {
	DeferPreFilterOf(plugin, a.CycleState, run)
	a.deferredOf, a.deferred = plugin, sync.OnceValue(func() error {
		return RunDeferredPreFilter(ctx, a.CycleState)
	})
}

// Clone implements fwk.CycleState.
func (a *Answers) Clone() fwk.CycleState {
	if a.deferred != nil {
		_ = a.deferred() // if it fails, it stays deferred, and Filter refuses nodes
	}
	return a.CycleState.Clone()
}

// Remember adds the result of a plugin at Filter, one of those whose results are remembered.
func (a *Answers) Remember(plugin string, node fwk.NodeInfo, status *fwk.Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.filter[filterQuestion{plugin, node}] = status
}

// Forget forgets the results of a plugin.
func (a *Answers) Forget(plugin string) {
	a.ForgetFilter(plugin)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.preFilter, plugin)
}

// ForgetFilter forgets the results of a plugin at Filter.
func (a *Answers) ForgetFilter(plugin string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.filter, func(q filterQuestion, _ *fwk.Status) bool { return q.plugin == plugin })
}
