// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podfields"
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
	// profile tells the profiles of one time apart.
	profile string
	closed  <-chan struct{}
	// deviceSource may be nil: there are no devices.
	deviceSource DeviceSource
	// setupKey identifies the setup. "": the profile shares it with no other.
	setupKey string
	// scalar is true if the profile has no Score plugin, or runs a plugin at only some of the
	// extension points that it needs. Its pods take the scalar path, and no other field is set.
	scalar bool
	// nodeWise are the plugins of kinds eligibility, local and resources, which depend on one node.
	nodeWise    *framework.Framework
	eligibility *framework.Framework // kind eligibility
	local       *framework.Framework // kind local, and plugins of kind resources without a model
	// keys are the plugins of kind local that have their own keys.
	keys []NodeLocal
	// namesNodes is true if PreFilter of NodeAffinity returns the names of the nodes for a pod that
	// names nodes.
	namesNodes bool
	// listsNodes is true if PreScore of a plugin whose answers are kept may read the list of nodes.
	// That of kube-scheduler's plugins does not. Making the list after a node was added or removed
	// costs all nodes.
	listsNodes bool

	rowPlan
	topologyPlan
	uncachedPlan
}

// rowPlan describes the plugins whose answers are kept in rows, and refers to none of them: a setup
// holds it longer than the instance lives.
type rowPlan struct {
	// resources computes NodeResourcesFit and NodeResourcesBalancedAllocation.
	resources *resourceModel
	// eligibilityFixed and localFixed are the Score plugins of eligibility and of local that do not
	// normalize. Only the weighted sum of their scores is kept.
	eligibilityFixed, localFixed []scorer
	// highestFixed is the highest possible sum, including resources. It is -1 if the sum
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
	// spread is the plugin of that kind alone.
	spread *framework.Framework
	// These fields tell whether the two plugins run at all, and at which extension points. A weight
	// of 0 counts as no Score.
	hasSpread, hasAffinity         bool
	spreadFilters, affinityFilters bool
	spreadWeight, affinityWeight   int64
	// last is true if the two plugins, first PodTopologySpread, filter a node after all that depend
	// on the node alone, and only if none of these refuses it.
	last bool
}

// uncachedPlan is the part of a Plan for the plugins that are run for each pod.
type uncachedPlan struct {
	uncached *framework.Framework // kinds volumes, perPod and opaque
	// early are the plugins of kind early, and scoresEarly is true if there are any that score.
	early       *framework.Framework
	scoresEarly bool
	perPod      *framework.Framework // kind perPod
	skipped     sets.Set[string]     // the names of perPod, in the form that AllSkip takes
	dynamic     *framework.Framework // DynamicResources alone
	// devices is the name of DynamicResources if it is among perPod. DynamicResources knows for
	// each pod whether devices back a resource that the pod requests; if so, the answers of
	// NodeResourcesFit depend on more than the node.
	devices string
	// delegated is uncached with NodeResourcesFit, for pods with resources that devices back. If it
	// is nil, such pods take the scalar path. rememberedOfDelegated is remembered with it.
	delegated             *framework.Framework
	rememberedOfDelegated sets.Set[string]
	// opaque is true if there are plugins of that kind, and opaques are their names. remembered are
	// the names of the plugins whose answers are remembered. filters and scorers are the uncached
	// plugins that may refuse nodes and score them.
	opaque              bool
	opaques, remembered sets.Set[string]
	filters             []string
	scorers             []uncachedScorer
	// stores is nil if claimCheck cannot answer for VolumeBinding and NodeVolumeLimits. Otherwise
	// ofClaims are these two plugins and VolumeZone, and notOfClaims and otherFilters are the other
	// uncached plugins and filters.
	stores                *volumeStores
	ofClaims, notOfClaims *framework.Framework
	otherFilters          []string
	// notOfDevices is uncached without DynamicResources, notOfEither is notOfClaims without it.
	notOfDevices, notOfEither *framework.Framework
	// capacityScorer is nil if VolumeBinding does not score.
	capacityScorer *capacityScorer
}

// PlanConfig configures a Plan.
type PlanConfig struct {
	// Framework runs the plugins of the instance.
	Framework *framework.Framework
	// Profile identifies the profile among those that run at one time. Default: the name that the
	// Framework has for it.
	Profile string
	// Snapshot is the snapshot that decisions are made on. Informers are those that the plugins got
	// from their handle; if nil, PodTopologySpread and InterPodAffinity have no trackers.
	Snapshot  *cache.Snapshot
	Informers informers.SharedInformerFactory
	// Volumes lists the changes of the CSINodes and VolumeAttachments in Informers; if nil, plugins
	// for volumes are run on each node.
	Volumes *VolumeChanges
	// Features are the feature gates that the plugins were made with.
	Features feature.Features
	// Devices knows when device classes change, on which the answers for pods with extended
	// resources depend, and when claims do. nil: there are none.
	Devices DeviceSource
	// Closed is closed when the instance is closed and everything kept for it can be released. nil:
	// never.
	Closed <-chan struct{}
}

// DeviceSource knows the device classes and claims that plugins read.
type DeviceSource interface {
	// ClassChanges returns a number that grows with each change of a device class, once plugins see
	// the change.
	ClassChanges() uint64
	// ClaimChanges returns two numbers that grow with each change of a claim, one before and one
	// after plugins see it.
	ClaimChanges() (began, ended uint64)
	// Backs reports whether devices of a class back a resource that pods request by its name.
	Backs(name corev1.ResourceName) bool
	// ClaimsOf returns the claims of a pod, in the order of its spec, or false if one is not known.
	ClaimsOf(pod *corev1.Pod) ([]*resourcev1.ResourceClaim, bool)
	// ChangedNodes returns the names of the nodes whose devices have changed since a position in
	// the list of these changes, or whose allocations have, and the end of the list. It returns
	// false if these may be any nodes.
	ChangedNodes(since uint64) (names []string, end uint64, ok bool)
	// SeparateDevices reports whether each device belongs to a single node.
	SeparateDevices() bool
	// Narrow makes PreFilter of DynamicResources see the devices of these nodes only, until the
	// returned function is called. If it returns false, it has done nothing.
	Narrow(nodes []string) (widen func(), ok bool)
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

// NewPlan returns the Plan for an instance. It uses the informer of namespaces, and the informers
// that the plugins have requested.
func NewPlan(cfg PlanConfig) *Plan {
	f, trackers := cfg.Framework, newTopology(cfg)
	g := &Plan{framework: f, profile: cmp.Or(cfg.Profile, f.ProfileName()), closed: cfg.Closed,
		deviceSource: cfg.Devices,
		setupKey:     setupKey(f, trackers != nil)}
	points, usual := newPoints(f.Plugins())
	if !usual {
		g.scalar = true
		return g
	}
	model, modelled := newResourceModel(f, points)
	g.eligibility = partOf(f, eligibility)
	g.local = f.Part(func(pl fwk.Plugin) bool {
		of := kindOf(pl)
		return of == local || of == resources && !modelled.Has(pl.Name())
	})
	g.nodeWise = partOf(f, eligibility, local, resources)
	for _, p := range points {
		if own, ok := p.plugin.(NodeLocal); ok && p.kind == local {
			g.keys = append(g.keys, own)
		}
		if _, inTree := kindInTree(p.plugin); !inTree && p.preScore && p.kind != opaque && p.kind != early {
			g.listsNodes = true
		}
		g.namesNodes = g.namesNodes || p.preFilter && is[*nodeaffinity.NodeAffinity](p.plugin)
	}
	g.rowPlan = newRowPlan(g.eligibility, g.local, model)
	for _, s := range partOf(f, images).ScorePlugins() {
		g.imageWeight = s.Weight
	}
	g.topologyPlan = newTopologyPlan(f, points, trackers)
	g.uncachedPlan = newUncachedPlan(f, points, &cfg)
	if g.devices != "" && allModelled(points, modelled) {
		g.delegated = f.Part(func(pl fwk.Plugin) bool {
			return slices.Contains([]kind{opaque, volumes, perPod}, kindOf(pl)) || is[*noderesources.Fit](pl)
		})
		g.rememberedOfDelegated = g.remembered.Clone().Insert(noderesources.Name)
	}
	return g
}

// allModelled reports whether all plugins of kind resources have a model.
func allModelled(points map[string]*pointsOf, modelled sets.Set[string]) bool {
	for name, p := range points {
		if p.kind == resources && !modelled.Has(name) {
			return false
		}
	}
	return true
}

// devicesBack reports whether devices back a resource that a pod requests.
func (p *Plan) devicesBack(pod *corev1.Pod) bool {
	return p.deviceSource != nil && podfields.RequestsExtended(pod) &&
		podfields.RequestsAny(pod, p.deviceSource.Backs)
}

// withoutBacked returns a pod without its requests for resources that devices back: all that the
// plugins read whose answers are kept. It returns nil if one of them may read those requests.
func (p *Plan) withoutBacked(pod *corev1.Pod) *corev1.Pod {
	backs := p.deviceSource.Backs
	if p.delegated == nil || p.resources.scoresAny(backs) {
		return nil
	}
	if like := podfields.WithoutResources(pod, backs); p.sameOwnKeys(pod, like) {
		return like
	}
	return nil
}

// claimsOf returns the ResourceClaims of a pod, or false if they are not known.
func (p *Plan) claimsOf(pod *corev1.Pod) ([]*resourcev1.ResourceClaim, bool) {
	if p.deviceSource == nil {
		return nil, false
	}
	return p.deviceSource.ClaimsOf(pod)
}

// classChanges returns the number of changes of device classes so far.
func (p *Plan) classChanges() uint64 {
	if p.deviceSource == nil {
		return 0
	}
	return p.deviceSource.ClassChanges()
}

// claimChanges are the numbers of changes of claims before and after plugins see each change. While
// both stay the same, plugins see no change.
type claimChanges struct{ began, ended uint64 }

// claimChanges returns the changes of claims so far.
func (p *Plan) claimChanges() (c claimChanges) {
	if p.deviceSource != nil {
		c.began, c.ended = p.deviceSource.ClaimChanges()
	}
	return c
}

// partOf returns the part of a Framework with the plugins of some kinds.
func partOf(f *framework.Framework, kinds ...kind) *framework.Framework {
	return f.Part(func(pl fwk.Plugin) bool { return slices.Contains(kinds, kindOf(pl)) })
}

// newTopologyPlan returns the part of a Plan for PodTopologySpread and InterPodAffinity.
func newTopologyPlan(f *framework.Framework, points map[string]*pointsOf, trackers *topology.Factory) topologyPlan {
	t := topologyPlan{topology: trackers, spread: partOf(f, spread), last: !f.ChecksAllFilters()}
	before := local
	for _, pl := range f.Plugins().Filter {
		switch of := kindOf(pl); of {
		case spread:
			t.last, before = t.last && before != affinity, spread
		case affinity:
			before = affinity
		case eligibility, local, resources:
			t.last = t.last && before == local
		}
	}
	for _, p := range points {
		switch p.kind {
		case spread:
			t.hasSpread, t.spreadFilters, t.spreadWeight = true, p.filter, p.weight
		case affinity:
			t.hasAffinity, t.affinityFilters, t.affinityWeight = true, p.filter, p.weight
		}
	}
	return t
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

// newRowPlan returns the part of a Plan for rows.
func newRowPlan(eligibility, local *framework.Framework, model *resourceModel) rowPlan {
	g := rowPlan{resources: model, localFilters: local.FilterNames()}
	negative := false
	addFixed := func(weight int64) {
		g.highestFixed += fwk.MaxScore * weight
		negative = negative || weight < 0
	}
	for i := range model.scorers {
		addFixed(model.scorers[i].weight)
	}
	sort := func(s framework.WeightedScore, own scorer, fixed *[]scorer) {
		own.name, own.weight, own.normalization = s.Plugin.Name(), s.Weight, normalizationOf(s.Plugin)
		if own.normalization != asIs {
			g.normalized = append(g.normalized, own)
			return
		}
		*fixed = append(*fixed, own)
		addFixed(own.weight)
	}
	for i, s := range eligibility.ScorePlugins() {
		sort(s, scorer{at: i, eligibility: true}, &g.eligibilityFixed)
		g.eligibilityScores++
	}
	for i, s := range local.ScorePlugins() {
		sort(s, scorer{at: i}, &g.localFixed)
		g.localScores = append(g.localScores, s.Plugin.Name())
	}
	if negative || g.highestFixed >= maxBuckets {
		g.highestFixed = -1
	}
	return g
}

// pointsOf holds the extension points at which a plugin runs, and the weight of its score.
type pointsOf struct {
	plugin                             fwk.Plugin
	kind                               kind
	preFilter, filter, preScore, score bool
	weight                             int64
}

// newPoints returns the extension points of each plugin that filters or scores nodes, by name. It
// returns false if the profile has no Score plugin, or runs a plugin at only some of the extension
// points that it needs.
func newPoints(plugins *framework.Plugins) (map[string]*pointsOf, bool) {
	points := map[string]*pointsOf{}
	of := func(pl fwk.Plugin) *pointsOf {
		p, ok := points[pl.Name()]
		if !ok {
			p = &pointsOf{plugin: pl, kind: kindOf(pl), weight: plugins.ScoreWeights[pl.Name()]}
			points[pl.Name()] = p
		}
		return p
	}
	for _, pl := range plugins.PreFilter {
		of(pl).preFilter = true
	}
	for _, pl := range plugins.Filter {
		of(pl).filter = true
	}
	for _, pl := range plugins.PreScore {
		of(pl).preScore = true
	}
	for _, pl := range plugins.Score {
		of(pl).score = true
	}
	for _, p := range points {
		if !p.usual() {
			return nil, false
		}
	}
	return points, len(plugins.Score) > 0 // without Score plugins, the first node that fits is taken
}

// usual reports whether a plugin runs at all extension points that its kind relies on.
// In a profile that enables only some of them, the plugin may fail because its own state is
// missing. PreScore without Score is usual: a profile that disables all Score plugins but a few, as
// for bin packing, leaves PreScore on, and nothing uses its state.
func (p *pointsOf) usual() bool {
	switch p.kind {
	case volumes, perPod:
		return p.preFilter
	case early:
		return p.preScore || !p.score || !is[fwk.PreScorePlugin](p.plugin)
	case spread, affinity:
		return p.preFilter == p.filter && (p.preScore || !p.score)
	}
	return true
}

// ownKeys writes the keys of the plugins that have their own.
func (p *Plan) ownKeys(w *keyWriter, pod *corev1.Pod) bool {
	for _, pl := range p.keys {
		key, ok := pl.NodeLocalKey(pod)
		if !ok {
			return false
		}
		w.Text(key)
	}
	return true
}

// sameOwnKeys reports whether the plugins that have their own keys give two pods the same ones.
func (p *Plan) sameOwnKeys(a, b *corev1.Pod) bool {
	for _, pl := range p.keys {
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
