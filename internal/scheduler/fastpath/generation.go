// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	compbasemetrics "k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// generation is what is known of one generation of one profile.
type generation struct {
	framework *framework.Framework
	closed    <-chan struct{}
	// scalar says that the profile has no Score plugin, or runs plugins where they were not meant
	// to: its pods take the scalar path, and nothing below is set.
	scalar bool

	// The profile's plugins, sorted by kind.
	constraints *framework.Framework // kind constraints
	local       *framework.Framework // kind local, and those of kind resources that resources does not stand in for
	images      *framework.Framework // kind images
	perPod      *framework.Framework // kind perPod
	skipped     sets.Set[string]     // the names of perPod, as AllSkip wants them
	dynamic     *framework.Framework // DynamicResources alone
	rest        *framework.Framework // kinds volumes, perPod and opaque
	spread      *framework.Framework // kind spread
	nodeWise    *framework.Framework // kinds constraints, local and resources: whatever looks at one node
	// resources stands in for NodeResourcesFit and NodeResourcesBalancedAllocation.
	resources *resourceTwin
	// namesNodes says that NodeAffinity has PreFilter name the nodes that are left for a pod that
	// names them.
	namesNodes bool
	// devices is the name of DynamicResources if that is among perPod. It tells for each pod
	// whether a resource that it requests is backed by devices, in which case the answers of
	// NodeResourcesFit depend on more than the node.
	devices string
	// opaque says that there are plugins of that kind. restFilters and restScorers are the plugins
	// of rest that may leave out nodes and score them.
	opaque      bool
	opaques     sets.Set[string] // their names
	restFilters []string
	restScorers []restScorer
	// stores is nil if claims cannot answer for VolumeBinding and NodeVolumeLimits. Otherwise
	// ofClaims are these two, restOthers and otherFilters rest and restFilters without them.
	stores               *volumeStores
	ofClaims, restOthers *framework.Framework
	otherFilters         []string
	// keys are the plugins of kind local that say themselves what they go by.
	keys []NodeLocal

	// Score plugins of constraints and of local that do not normalise. The weighted sum of their
	// scores is all that has to be kept of them.
	constraintFixed, localFixed []scorer
	// highestFixed is what that sum can come to, together with resources, -1 if it can be negative
	// or is too much for buckets.
	highestFixed int64
	// normalised are those that do. The scores of each are kept.
	normalised []scorer
	// constraintScores is the number of Score plugins of constraints. localScores and localFilters
	// are the names of those of local, in their order.
	constraintScores          int
	localScores, localFilters []string
	// imageWeight is 0 if ImageLocality does not score.
	imageWeight int64

	// Whether the two plugins that look beyond a node run at all, and where. A weight of 0 is no
	// Score.
	hasSpread, hasAffinity         bool
	spreadFilters, affinityFilters bool
	spreadWeight, affinityWeight   int64

	classes        map[string]*class
	locals         map[string]*localRows
	constraintRows map[string]*constraintRows

	filterDuration, scoreDuration, preFilterDuration compbasemetrics.ObserverMetric
}

// scorer is a Score plugin.
type scorer struct {
	// at is its position in the ScorePlugins of generation.constraints if constraints says so, of
	// generation.local otherwise.
	at            int
	constraints   bool
	name          string
	weight        int64
	normalization normalization
}

func newGeneration(p Profile) *generation {
	g := &generation{
		framework: p.Framework, closed: p.Closed,
		classes: map[string]*class{}, locals: map[string]*localRows{}, constraintRows: map[string]*constraintRows{},
		skipped: sets.New[string](), opaques: sets.New[string](),
	}
	points, usual := g.sortPlugins()
	if !usual {
		g.scalar = true
		return g
	}
	part := func(of kind) *framework.Framework {
		return p.Framework.Part(func(pl fwk.Plugin) bool { return kindOf(pl) == of })
	}
	g.constraints, g.images, g.perPod, g.spread = part(constraints), part(images), part(perPod), part(spread)
	var twinned sets.Set[string]
	g.resources, twinned = newResourceTwin(p.Framework, points)
	g.local = p.Framework.Part(func(pl fwk.Plugin) bool {
		of := kindOf(pl)
		return of == local || of == resources && !twinned.Has(pl.Name())
	})
	g.nodeWise = p.Framework.Part(func(pl fwk.Plugin) bool {
		of := kindOf(pl)
		return of == constraints || of == local || of == resources
	})
	g.localFilters = g.local.FilterNames()
	g.sortScorers()
	g.sortRest(p.Twins)
	duration := func(point string) compbasemetrics.ObserverMetric {
		return schedmetrics.FrameworkExtensionPointDuration.WithLabelValues(point, fwk.Success.String(), p.Framework.ProfileName())
	}
	g.preFilterDuration, g.filterDuration, g.scoreDuration =
		duration(schedmetrics.PreFilter), duration(schedmetrics.Filter), duration(schedmetrics.Score)
	return g
}

// sortScorers sorts the Score plugins that look at one node at a time by how their scores are kept.
func (g *generation) sortScorers() {
	negative := false
	for i := range g.resources.scorers {
		g.highestFixed += fwk.MaxScore * g.resources.scorers[i].weight
		negative = negative || g.resources.scorers[i].weight < 0
	}
	sort := func(s framework.WeightedScore, at int, constraints bool, fixed *[]scorer) {
		own := scorer{
			at: at, constraints: constraints, name: s.Plugin.Name(), weight: s.Weight, normalization: normalizationOf(s.Plugin),
		}
		if own.normalization != asIs {
			g.normalised = append(g.normalised, own)
			return
		}
		*fixed = append(*fixed, own)
		g.highestFixed += fwk.MaxScore * own.weight
		negative = negative || own.weight < 0
	}
	for i, s := range g.constraints.ScorePlugins() {
		sort(s, i, true, &g.constraintFixed)
		g.constraintScores++
	}
	for i, s := range g.local.ScorePlugins() {
		sort(s, i, false, &g.localFixed)
		g.localScores = append(g.localScores, s.Plugin.Name())
	}
	if negative || g.highestFixed >= maxBuckets {
		g.highestFixed = -1
	}
}

// sortPlugins looks at the plugins that decide on nodes, and returns at which points each runs and
// whether that is where they were meant to.
func (g *generation) sortPlugins() (map[string]*pointsOf, bool) {
	plugins := g.framework.Plugins()
	if len(plugins.Score) == 0 {
		return nil, false // the first node that fits is taken
	}
	points := map[string]*pointsOf{}
	enter := func(pl fwk.Plugin, enabled func(*pointsOf)) {
		p, ok := points[pl.Name()]
		if !ok {
			p = &pointsOf{plugin: pl, kind: kindOf(pl)}
			points[pl.Name()] = p
		}
		enabled(p)
	}
	for _, pl := range plugins.PreFilter {
		enter(pl, func(p *pointsOf) { p.preFilter = true })
	}
	for _, pl := range plugins.Filter {
		enter(pl, func(p *pointsOf) { p.filter = true })
	}
	for _, pl := range plugins.PreScore {
		enter(pl, func(p *pointsOf) { p.preScore = true })
	}
	for _, pl := range plugins.Score {
		enter(pl, func(p *pointsOf) { p.score = true })
	}
	for name, p := range points {
		if !p.usual() {
			return nil, false
		}
		weight := plugins.ScoreWeights[name]
		switch p.kind {
		case constraints:
			g.namesNodes = g.namesNodes || p.preFilter && is[*nodeaffinity.NodeAffinity](p.plugin)
		case local:
			if own, ok := p.plugin.(NodeLocal); ok {
				g.keys = append(g.keys, own)
			}
		case images:
			g.imageWeight = weight
		case perPod:
			g.skipped.Insert(name)
			if is[*dynamicresources.DynamicResources](p.plugin) {
				g.devices = name
			}
		case opaque:
			g.opaque = true
			g.opaques.Insert(name)
		case spread:
			g.hasSpread, g.spreadFilters, g.spreadWeight = true, p.filter, weight
		case affinity:
			g.hasAffinity, g.affinityFilters, g.affinityWeight = true, p.filter, weight
		}
	}
	return points, true
}

// pointsOf says at which extension points a plugin runs.
type pointsOf struct {
	plugin                             fwk.Plugin
	kind                               kind
	preFilter, filter, preScore, score bool
}

// usual says whether a plugin runs at the extension points that it needs for what kindOf says of
// it. In a profile that has taken a plugin apart it may fail for want of its own state.
func (p *pointsOf) usual() bool {
	switch p.kind {
	case volumes, perPod:
		return p.preFilter
	case spread, affinity:
		return p.preFilter == p.filter && p.preScore == p.score
	}
	return true
}

// ownKeys writes what the plugins that have keys of their own go by.
func (g *generation) ownKeys(w *keyWriter, pod *corev1.Pod) bool {
	for _, pl := range g.keys {
		key, ok := pl.NodeLocalKey(pod)
		if !ok {
			return false
		}
		w.Text(key)
	}
	return true
}

func is[T fwk.Plugin](pl fwk.Plugin) bool {
	_, ok := pl.(T)
	return ok
}
