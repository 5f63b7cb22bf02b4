// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/json"
	"hash/maphash"
	"time"

	compbasemetrics "k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// setup holds what is kept for plugins with their arguments: classes and rows. Instances with the
// same plugins and arguments decide alike, so they share a setup.
type setup struct {
	// rowPlan is the same for all instances. Their Plans hold the plugins.
	rowPlan
	// instances is the number of instances that use the setup.
	instances int
	// seed makes the keys of the setup's classes different from the keys of other setups; see
	// evicted.
	seed maphash.Seed

	classes         map[string]*class
	locals          map[string]*localRows
	eligibilityRows map[string]*eligibilityRows
	imageColumns    map[string]*imageColumn
	// affinityTrackers holds the trackers of InterPodAffinity that classes share, by tracker.key.
	affinityTrackers map[string]*tracker
}

func newSetup(plan *Plan) *setup {
	return &setup{
		rowPlan: plan.rowPlan, seed: maphash.MakeSeed(),
		classes: map[string]*class{}, locals: map[string]*localRows{}, eligibilityRows: map[string]*eligibilityRows{},
		imageColumns:     map[string]*imageColumn{},
		affinityTrackers: map[string]*tracker{},
	}
}

// instance is an instance of a profile that has decided on the fast path.
type instance struct {
	plan  *Plan
	setup *setup
	// The durations are nil if the pods of the instance take the scalar path.
	filterDuration, scoreDuration, preFilterDuration compbasemetrics.ObserverMetric
}

func newInstance(plan *Plan, of *setup, points *compbasemetrics.HistogramVec) *instance {
	in := &instance{plan: plan, setup: of}
	if !plan.scalar {
		duration := func(point string) compbasemetrics.ObserverMetric {
			return points.WithLabelValues(point, fwk.Success.String(), plan.framework.ProfileName())
		}
		in.preFilterDuration, in.filterDuration, in.scoreDuration =
			duration(schedmetrics.PreFilter), duration(schedmetrics.Filter), duration(schedmetrics.Score)
	}
	return in
}

// laps are the times at which a decision began, at which it had the class with its trackers, and at
// which it knew the nodes that the pod fits.
type laps struct{ began, prepared, filtered time.Time }

// observe records the durations of a decision that ends now.
func (i *instance) observe(l laps, scored bool) {
	i.preFilterDuration.Observe(l.prepared.Sub(l.began).Seconds())
	i.filterDuration.Observe(l.filtered.Sub(l.prepared).Seconds())
	if scored {
		i.scoreDuration.Observe(time.Since(l.filtered).Seconds())
	}
}

// isClosed reports whether the instance of the profile is closed.
func (i *instance) isClosed() bool {
	select {
	case <-i.plan.closed:
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
		if _, inTree := kindInTree(pl); !inTree && kindOf(pl) != opaque && kindOf(pl) != early {
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
