// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/json"
	"hash/maphash"

	compbasemetrics "k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// setup holds what is kept for plugins with their arguments: classes and rows. Profiles with the
// same plugins and arguments decide alike, so they share a setup.
type setup struct {
	// Plan is that of the profile that decides at present. What is kept depends on nothing in which
	// the Plans of a setup differ. It uses the plugins through this field only, because the other
	// profiles may be closed.
	*Plan
	// members is the number of profiles that use the setup.
	members int
	// seed makes the keys of the setup's classes different from those of other setups; see evicted.
	seed maphash.Seed

	classes         map[string]*class
	locals          map[string]*localRows
	eligibilityRows map[string]*eligibilityRows
}

func newSetup(plan *Plan) *setup {
	return &setup{
		Plan: plan, seed: maphash.MakeSeed(),
		classes: map[string]*class{}, locals: map[string]*localRows{}, eligibilityRows: map[string]*eligibilityRows{},
	}
}

// member is an instance of a profile that has decided on the fast path.
type member struct {
	plan  *Plan
	setup *setup

	filterDuration, scoreDuration, preFilterDuration compbasemetrics.ObserverMetric
}

func newMember(plan *Plan, of *setup) *member {
	duration := func(point string) compbasemetrics.ObserverMetric {
		if !plan.framework.Measured() {
			return unobserved{}
		}
		return schedmetrics.FrameworkExtensionPointDuration.WithLabelValues(point, fwk.Success.String(), plan.framework.ProfileName())
	}
	m := &member{plan: plan, setup: of}
	if !plan.scalar {
		m.preFilterDuration, m.filterDuration, m.scoreDuration =
			duration(schedmetrics.PreFilter), duration(schedmetrics.Filter), duration(schedmetrics.Score)
	}
	return m
}

// isClosed reports whether the instance of the profile is closed.
func (m *member) isClosed() bool {
	select {
	case <-m.plan.closed:
		return true
	default:
		return false
	}
}

// setupKey returns everything that the answers kept for a profile depend on: the names of the
// plugins that filter and score, in their order, their weights and arguments, and whether all
// filters are run. It returns "" if the profile cannot share a setup, because answers of a plugin
// are kept that kube-scheduler does not have: such a plugin may read more than its arguments when
// it is built.
func setupKey(f *framework.Framework, trackers bool) string {
	key := struct {
		PreFilter, Filter, PreScore, Score []string
		Weights                            []int64
		Args                               map[string]any
		AllFilters, Trackers               bool
	}{Args: map[string]any{}, AllFilters: f.ChecksAllFilters(), Trackers: trackers}
	shared := true
	add := func(to *[]string, pl fwk.Plugin) {
		name := pl.Name()
		*to = append(*to, name)
		if args := f.Args(name); args != nil {
			key.Args[name] = args
		}
		if _, inTree := kindInTree(pl); !inTree && kindOf(pl) != opaque {
			shared = false
		}
	}
	plugins := f.Plugins()
	for _, pl := range plugins.PreFilter {
		add(&key.PreFilter, pl)
	}
	for _, pl := range plugins.Filter {
		add(&key.Filter, pl)
	}
	for _, pl := range plugins.PreScore {
		add(&key.PreScore, pl)
	}
	for _, pl := range plugins.Score {
		add(&key.Score, pl)
		key.Weights = append(key.Weights, plugins.ScoreWeights[pl.Name()])
	}
	text, err := json.Marshal(key)
	if err != nil || !shared {
		return ""
	}
	return string(text)
}
