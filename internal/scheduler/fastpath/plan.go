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

// Plan describes how the fast path treats the plugins of one instance of a profile: which plugins
// it evaluates itself, which answers it keeps and in what form, and which plugins it runs for each
// pod.
//
// A Plan is made together with the instance, off the scheduling loop, and does not change
// afterwards. The Engine owns the state that decisions by the Plan build up. The trackers of
// topology domains that the Plan makes belong to the goroutine of the scheduling loop.
type Plan struct {
	framework *framework.Framework
	closed    <-chan struct{}
	// setupKey identifies the setup. "": the profile shares it with no other.
	setupKey string
	// scalar is true if the profile has no Score plugin, or runs a plugin at only some of the
	// extension points that it needs. Its pods take the scalar path, and no other field is set.
	scalar bool
	// nodeWise are the plugins of kinds eligibility, local and resources, which depend on one node.
	nodeWise *framework.Framework
	// namesNodes is true if PreFilter of NodeAffinity returns the names of the nodes for a pod that
	// names nodes.
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
	// keys are the plugins of kind local that have their own keys.
	keys []NodeLocal

	// eligibilityFixed and localFixed are the Score plugins of eligibility and of local that do not
	// normalize. Only the weighted sum of their scores is kept.
	eligibilityFixed, localFixed []scorer
	// highestFixed is the highest possible sum, including that of resources. It is -1 if the sum
	// can be negative or is too high for buckets.
	highestFixed int64
	// normalized are the Score plugins that normalize. The scores of each are kept.
	normalized []scorer
	// eligibilityScores is the number of Score plugins of eligibility. localScores and localFilters
	// are the names of the Score and Filter plugins of local, in their order.
	eligibilityScores         int
	localScores, localFilters []string
	// imageWeight is 0 if ImageLocality does not score.
	imageWeight int64
}

// topologyPlan is the part of a Plan for PodTopologySpread and InterPodAffinity.
type topologyPlan struct {
	// topology makes the trackers that replace the two plugins. If it is nil, there are no
	// trackers, and pods for which one of the plugins does something take the scalar path.
	topology *topology.Factory
	spread   *framework.Framework // kind spread
	// These fields tell whether the two plugins run at all, and at which extension points. A weight
	// of 0 counts as no Score.
	hasSpread, hasAffinity         bool
	spreadFilters, affinityFilters bool
	spreadWeight, affinityWeight   int64
}

// uncachedPlan is the part of a Plan for the plugins that are run for each pod.
type uncachedPlan struct {
	uncached *framework.Framework // kinds volumes, perPod and opaque
	perPod   *framework.Framework // kind perPod
	skipped  sets.Set[string]     // the names of perPod, in the form that AllSkip takes
	dynamic  *framework.Framework // DynamicResources alone
	// devices is the name of DynamicResources if it is among perPod. DynamicResources knows for
	// each pod whether devices back a resource that the pod requests; if so, the answers of
	// NodeResourcesFit depend on more than the node.
	devices string
	// opaque is true if there are plugins of that kind, and opaques are their names. filters and
	// scorers are the uncached plugins that may refuse nodes and score them.
	opaque  bool
	opaques sets.Set[string]
	filters []string
	scorers []uncachedScorer
	// stores is nil if claimCheck cannot answer for VolumeBinding and NodeVolumeLimits. Otherwise
	// ofClaims are these two plugins, and notOfClaims and otherFilters are the other uncached
	// plugins and filters.
	stores                *volumeStores
	ofClaims, notOfClaims *framework.Framework
	otherFilters          []string
}

// PlanConfig configures a Plan.
type PlanConfig struct {
	// Framework runs the plugins of the instance.
	Framework *framework.Framework
	// Snapshot is the snapshot that decisions are made on. Informers are those that the plugins got
	// from their handle; if nil, PodTopologySpread and InterPodAffinity have no trackers.
	Snapshot  *cache.Snapshot
	Informers informers.SharedInformerFactory
	// Features are the feature gates that the plugins were made with.
	Features feature.Features
	// Closed is closed when the instance is closed and everything kept for it can be released. nil:
	// never.
	Closed <-chan struct{}
}

// scorer is a Score plugin.
type scorer struct {
	// at is its position in the ScorePlugins of Plan.eligibility if eligibility is true, of
	// Plan.local otherwise.
	at            int
	eligibility   bool
	name          string
	weight        int64
	normalization normalization
}

// NewPlan returns the Plan for an instance. It uses the informers that the plugins have requested,
// and that of namespaces.
func NewPlan(cfg PlanConfig) *Plan {
	f := cfg.Framework
	g := &Plan{
		framework: f, closed: cfg.Closed, topologyPlan: topologyPlan{topology: newTopology(cfg)},
		uncachedPlan: uncachedPlan{skipped: sets.New[string](), opaques: sets.New[string]()},
	}
	g.setupKey = setupKey(f, g.topology != nil)
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

// newTopology returns the factory of the trackers for PodTopologySpread and InterPodAffinity. It
// returns nil if the profile has neither plugin, or if the arguments of one are not known.
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

// sortScorers sorts the Score plugins that depend on one node by the form in which their scores are
// kept.
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

// sortPlugins sorts the plugins that filter and score nodes by kind, and returns the extension
// points of each. It returns false if the profile has no Score plugin, or runs a plugin at only
// some of the extension points that it needs.
func (g *Plan) sortPlugins() (map[string]*pointsOf, bool) {
	plugins := g.framework.Plugins()
	if len(plugins.Score) == 0 {
		return nil, false // without Score plugins, the first node that fits is taken
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

// pointsOf holds the extension points at which a plugin runs.
type pointsOf struct {
	plugin                             fwk.Plugin
	kind                               kind
	preFilter, filter, preScore, score bool
}

// usual reports whether a plugin runs at all extension points that the entry in kindOf relies on.
// In a profile that enables only some of them, the plugin may fail because its own state is
// missing. PreScore without Score is usual: a profile that disables all Score plugins but a few, as
// for bin packing, leaves PreScore on, and nothing uses its state.
func (p *pointsOf) usual() bool {
	switch p.kind {
	case volumes, perPod:
		return p.preFilter
	case spread, affinity:
		return p.preFilter == p.filter && (p.preScore || !p.score)
	}
	return true
}

// ownKeys writes the keys of the plugins that have their own.
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

// sameOwnKeys reports whether the plugins that have their own keys give two pods the same ones.
func (g *Plan) sameOwnKeys(a, b *corev1.Pod) bool {
	for _, pl := range g.keys {
		keyOfA, okA := pl.NodeLocalKey(a)
		keyOfB, okB := pl.NodeLocalKey(b)
		if keyOfA != keyOfB || okA != okB {
			return false
		}
	}
	return true
}

func is[T fwk.Plugin](pl fwk.Plugin) bool {
	_, ok := pl.(T)
	return ok
}
