// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// Plan is how the fast path treats the plugins of one instance of a profile: which of them it
// evaluates itself, of which it keeps the answers and in what form, and which it runs for each pod.
//
// A Plan is made together with the instance, off the scheduling loop, and does not change
// afterwards. What the fast path learns while it decides by the Plan belongs to the Engine. The
// trackers of topology domains that the Plan makes belong to the goroutine of the scheduling loop.
type Plan struct {
	framework *framework.Framework
	closed    <-chan struct{}
	// scalar is true if the profile has no Score plugin, or runs plugins at extension points where
	// they are not meant to run alone: its pods take the scalar path, and nothing else is set.
	scalar bool
	// nodeWise are the plugins of kinds eligibility, local and resources, which look at one node.
	nodeWise *framework.Framework
	// namesNodes is true if PreFilter of NodeAffinity names the nodes that are left for a pod that
	// names them.
	namesNodes bool

	rowPlan
	topologyPlan
	uncachedPlan
}

// rowPlan is the part of a Plan for the plugins whose answers are kept in rows.
type rowPlan struct {
	eligibility *framework.Framework // kind eligibility
	local       *framework.Framework // kind local, and those of kind resources without a model
	images      *framework.Framework // kind images
	// resources computes NodeResourcesFit and NodeResourcesBalancedAllocation.
	resources *resourceModel
	// keys are the plugins of kind local that have keys of their own.
	keys []NodeLocal

	// Score plugins of eligibility and of local that do not normalize. Only the weighted sum of
	// their scores is kept.
	eligibilityFixed, localFixed []scorer
	// highestFixed is the highest possible sum, with that of resources; -1 if the sum can be
	// negative or is too high for buckets.
	highestFixed int64
	// normalized are those that do. The scores of each are kept.
	normalized []scorer
	// eligibilityScores is the number of Score plugins of eligibility. localScores and localFilters
	// are the names of those of local, in their order.
	eligibilityScores         int
	localScores, localFilters []string
	// imageWeight is 0 if ImageLocality does not score.
	imageWeight int64
}

// topologyPlan is the part of a Plan for PodTopologySpread and InterPodAffinity.
type topologyPlan struct {
	// topology makes the trackers that stand in for the two plugins. nil: there are none, and pods
	// that the plugins do something for take the scalar path.
	topology *topology.Factory
	spread   *framework.Framework // kind spread
	// Whether the two plugins run at all, and where. A weight of 0 is no Score.
	hasSpread, hasAffinity         bool
	spreadFilters, affinityFilters bool
	spreadWeight, affinityWeight   int64
}

// uncachedPlan is the part of a Plan for the plugins that are run for each pod.
type uncachedPlan struct {
	uncached *framework.Framework // kinds volumes, perPod and opaque
	perPod   *framework.Framework // kind perPod
	skipped  sets.Set[string]     // the names of perPod, as AllSkip takes them
	dynamic  *framework.Framework // DynamicResources alone
	// devices is the name of DynamicResources if that is among perPod. It knows for each pod
	// whether a resource that the pod requests is backed by devices, in which case the answers of
	// NodeResourcesFit depend on more than the node.
	devices string
	// opaque is true if there are plugins of that kind, and opaques are their names. filters and
	// scorers are the uncached plugins that may leave out nodes and score them.
	opaque  bool
	opaques sets.Set[string]
	filters []string
	scorers []uncachedScorer
	// stores is nil if claimCheck cannot answer for VolumeBinding and NodeVolumeLimits. Otherwise
	// ofClaims are these two, and notOfClaims and otherFilters the uncached plugins and filters
	// without them.
	stores                *volumeStores
	ofClaims, notOfClaims *framework.Framework
	otherFilters          []string
}

// PlanConfig is what a Plan is made of.
type PlanConfig struct {
	// Framework runs the plugins of the instance.
	Framework *framework.Framework
	// Snapshot is the one that decisions are made on, and Informers are those that the plugins got
	// from their handle. nil Informers: PodTopologySpread and InterPodAffinity have no trackers.
	Snapshot  *cache.Snapshot
	Informers informers.SharedInformerFactory
	// Features are the feature gates that the plugins were made with.
	Features feature.Features
	// Closed is closed when the instance is gone, and what is kept for it can go. nil: never.
	Closed <-chan struct{}
}

// scorer is a Score plugin.
type scorer struct {
	// at is its position in the ScorePlugins of Plan.eligibility if eligibility says so, of
	// Plan.local otherwise.
	at            int
	eligibility   bool
	name          string
	weight        int64
	normalization normalization
}

// NewPlan returns the Plan for an instance. The informers that it asks for are those that the
// plugins have asked for, and that of the namespaces.
func NewPlan(cfg PlanConfig) *Plan {
	f := cfg.Framework
	g := &Plan{
		framework: f, closed: cfg.Closed, topologyPlan: topologyPlan{topology: newTopology(cfg)},
		uncachedPlan: uncachedPlan{skipped: sets.New[string](), opaques: sets.New[string]()},
	}
	points, usual := g.sortPlugins()
	if !usual {
		g.scalar = true
		return g
	}
	part := func(of kind) *framework.Framework {
		return f.Part(func(pl fwk.Plugin) bool { return kindOf(pl) == of })
	}
	g.eligibility, g.images, g.perPod, g.spread = part(eligibility), part(images), part(perPod), part(spread)
	var modelled sets.Set[string]
	g.resources, modelled = newResourceModel(f, points)
	g.local = f.Part(func(pl fwk.Plugin) bool {
		of := kindOf(pl)
		return of == local || of == resources && !modelled.Has(pl.Name())
	})
	g.nodeWise = f.Part(func(pl fwk.Plugin) bool {
		of := kindOf(pl)
		return of == eligibility || of == local || of == resources
	})
	g.localFilters = g.local.FilterNames()
	g.sortScorers()
	g.sortUncached(cfg.Informers)
	return g
}

// newTopology returns what makes the trackers for PodTopologySpread and InterPodAffinity. It is nil
// if the profile has neither plugin, or if the arguments of one are not known.
func newTopology(cfg PlanConfig) *topology.Factory {
	if cfg.Informers == nil {
		return nil
	}
	made := &topology.Factory{}
	known, needed := true, false
	for _, pl := range cfg.Framework.Plugins().All {
		args := cfg.Framework.Args(pl.Name())
		switch pl.(type) {
		case *podtopologyspread.PodTopologySpread:
			needed = true
			made.SpreadArgs, _ = args.(*schedconfig.PodTopologySpreadArgs)
			known = known && made.SpreadArgs != nil
		case *interpodaffinity.InterPodAffinity:
			needed = true
			made.AffinityArgs, _ = args.(*schedconfig.InterPodAffinityArgs)
			known = known && made.AffinityArgs != nil
		}
	}
	if !known || !needed {
		return nil
	}
	made.Sources = topology.NewSources(cfg.Snapshot, cfg.Informers, cfg.Features)
	return made
}

// sortScorers sorts the Score plugins that look at one node at a time by how their scores are kept.
func (g *Plan) sortScorers() {
	negative := false
	for i := range g.resources.scorers {
		g.highestFixed += fwk.MaxScore * g.resources.scorers[i].weight
		negative = negative || g.resources.scorers[i].weight < 0
	}
	sort := func(s framework.WeightedScore, at int, eligible bool, fixed *[]scorer) {
		own := scorer{
			at: at, eligibility: eligible, name: s.Plugin.Name(), weight: s.Weight, normalization: normalizationOf(s.Plugin),
		}
		if own.normalization != asIs {
			g.normalized = append(g.normalized, own)
			return
		}
		*fixed = append(*fixed, own)
		g.highestFixed += fwk.MaxScore * own.weight
		negative = negative || own.weight < 0
	}
	for i, s := range g.eligibility.ScorePlugins() {
		sort(s, i, true, &g.eligibilityFixed)
		g.eligibilityScores++
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
func (g *Plan) sortPlugins() (map[string]*pointsOf, bool) {
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
		case eligibility:
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

// usual reports whether a plugin runs at the extension points that it needs for what kindOf says of
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
func (g *Plan) ownKeys(w *keyWriter, pod *corev1.Pod) bool {
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
