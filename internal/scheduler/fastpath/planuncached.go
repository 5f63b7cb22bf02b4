// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// uncachedScorer is a Score plugin that is run for each pod.
type uncachedScorer struct {
	name string
	kind kind
}

// mayScore reports whether a plugin may return a score other than 0, given the plugins that
// PreFilter has skipped. A skipped plugin that kindOf knows does not score.
func (s *uncachedScorer) mayScore(skipped sets.Set[string]) bool {
	return s.kind == opaque || !skipped.Has(s.name)
}

// isOfClaims reports whether claimCheck answers for a plugin.
func isOfClaims(pl fwk.Plugin) bool {
	return is[*volumebinding.VolumeBinding](pl) || is[*nodevolumelimits.CSILimits](pl)
}

// sortUncached sorts the plugins that are run for each pod.
func (g *Plan) sortUncached(factory informers.SharedInformerFactory) {
	g.uncached = g.framework.Part(func(pl fwk.Plugin) bool { return kindOf(pl).isUncached() })
	g.dynamic = g.framework.Part(func(pl fwk.Plugin) bool { return g.devices != "" && pl.Name() == g.devices })
	g.filters = g.uncached.FilterNames()
	if g.topology != nil && g.answersForClaims() {
		g.stores = newVolumeStores(factory)
		g.ofClaims = g.uncached.Part(isOfClaims)
		g.notOfClaims = g.uncached.Part(func(pl fwk.Plugin) bool { return !isOfClaims(pl) })
		g.otherFilters = g.notOfClaims.FilterNames()
	}
	for _, s := range g.uncached.ScorePlugins() {
		if of := kindOf(s.Plugin); of == opaque || mayScore(s.Plugin) {
			g.scorers = append(g.scorers, uncachedScorer{s.Plugin.Name(), of})
		}
	}
}

// uncachedReason returns the reason for which plugins are run for a pod.
func (g *Plan) uncachedReason(pod *corev1.Pod) Reason {
	switch {
	case g.opaque:
		return UnknownPlugin
	case podfields.OrdinaryVolumes(pod):
		return Devices
	}
	return Volumes
}

// devicesSkip reports whether DynamicResources still has nothing to do for a pod.
func (g *Plan) devicesSkip(ctx context.Context, pod *corev1.Pod) bool {
	return g.dynamic.AllSkip(ctx, schedframework.NewCycleState(), pod, nil)
}
