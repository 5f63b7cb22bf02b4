// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// uncachedScorer is a Score plugin that is run for each pod.
type uncachedScorer struct {
	name string
	kind kind
	// ofClaims means VolumeBinding, whose score claimCheck knows for the nodes that it accepts.
	ofClaims bool
}

// mayScore reports whether a plugin may return a score other than 0, given the plugins that
// PreFilter has skipped. A skipped plugin that kindOf knows does not score.
func (s *uncachedScorer) mayScore(skipped sets.Set[string]) bool {
	return s.kind == opaque || !skipped.Has(s.name)
}

// isOfClaims reports whether claimCheck answers for a plugin.
func isOfClaims(pl fwk.Plugin) bool {
	return is[*volumebinding.VolumeBinding](pl) || is[*nodevolumelimits.CSILimits](pl) ||
		is[*volumezone.VolumeZone](pl)
}

// newUncachedPlan returns the part of a Plan for the plugins that are run for each pod.
func newUncachedPlan(f *framework.Framework, points map[string]*pointsOf, cfg *PlanConfig) uncachedPlan {
	g := uncachedPlan{uncached: partOf(f, opaque, volumes, perPod), perPod: partOf(f, perPod),
		early:   partOf(f, early),
		skipped: sets.New[string](), opaques: sets.New[string](), remembered: sets.New[string]()}
	for name, p := range points {
		switch p.kind {
		case perPod:
			g.skipped.Insert(name)
			if is[*dynamicresources.DynamicResources](p.plugin) {
				g.devices = name
			}
		case opaque:
			g.opaque = true
			g.opaques.Insert(name)
		}
		if p.kind == opaque || p.kind == perPod {
			g.remembered.Insert(name)
		}
	}
	g.dynamic = f.Part(func(pl fwk.Plugin) bool { return g.devices != "" && pl.Name() == g.devices })
	g.scoresEarly = len(g.early.ScorePlugins()) > 0
	notDevices := func(pl fwk.Plugin) bool { return pl.Name() != g.devices }
	g.notOfDevices = g.uncached.Part(notDevices)
	g.filters = g.uncached.FilterNames()
	if filters := f.Plugins().Filter; cfg.Informers != nil && cfg.Volumes != nil && AnswersForClaims(filters) {
		g.stores = newVolumeStores(cfg.Informers, cfg.Volumes)
		g.stores.zones = readsZones(filters)
		g.ofClaims = g.uncached.Part(isOfClaims)
		g.notOfClaims = g.uncached.Part(func(pl fwk.Plugin) bool { return !isOfClaims(pl) })
		g.otherFilters = g.notOfClaims.FilterNames()
		g.notOfEither = g.notOfClaims.Part(notDevices)
	}
	for _, s := range g.uncached.ScorePlugins() {
		if of := kindOf(s.Plugin); of == opaque || mayScore(s.Plugin) {
			g.scorers = append(g.scorers, uncachedScorer{s.Plugin.Name(), of, isOfClaims(s.Plugin)})
			if g.stores != nil && is[*volumebinding.VolumeBinding](s.Plugin) {
				g.capacityScorer = newCapacityScorer(f, s.Plugin.Name(), s.Weight)
			}
		}
	}
	return g
}

// uncachedReason returns the reason for which plugins are run for a pod.
func (p *uncachedPlan) uncachedReason(pod *corev1.Pod) Reason {
	switch {
	case p.opaque:
		return UnknownPlugin
	case podfields.OrdinaryVolumes(pod):
		return Devices
	}
	return Volumes
}
