// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// resourceModel computes NodeResourcesFit and NodeResourcesBalancedAllocation for one instance of a
// profile from the numbers of the nodeTable. For the pods that classes are made of, whose requests
// follow from the spec (see podfields.ReportsResources), the results equal the results of the
// plugins of kube-scheduler 1.37 to the last bit. It does not know resources for which
// DynamicResources allocates devices: see decision.delegated.
//
// The counterparts of the model are fit.go, resource_allocation.go, least_allocated.go,
// most_allocated.go, requested_to_capacity_ratio.go and balanced_allocation.go of the plugins.
type resourceModel struct {
	// filters is true if nodes without enough resources are filtered out.
	filters bool
	// ignored and ignoredGroups are the extended resources that the filter ignores, by name and by
	// the part of the name before the slash.
	ignored, ignoredGroups sets.Set[string]
	// podLevel is true if the pod-level requests count. They never count for the score of
	// NodeResourcesFit.
	podLevel bool
	// scorers describes how the two plugins score. A plugin that does not score has no entry.
	scorers []resourceScorer
}

// resourceScorer describes how one of the plugins scores.
type resourceScorer struct {
	strategy  strategy
	resources []schedconfig.ResourceSpec
	// plugin is the name of the plugin, weight the weight of its score.
	plugin string
	weight int64
	// shape is the score of RequestedToCapacityRatio by utilization in percent.
	shape *[fullUtilization + 1]int64
}

// newResourceModel returns the model for the plugins of a profile, and the names of the plugins
// that it replaces. The others must be run: those whose arguments are not known, or that run at
// only some of the extension points that they need.
func newResourceModel(f *framework.Framework, points map[string]*pointsOf) (*resourceModel, sets.Set[string]) {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	model := &resourceModel{podLevel: features.EnablePodLevelResources}
	names := sets.New[string]()
	for name, p := range points {
		switch p.plugin.(type) {
		case *noderesources.Fit:
			args, ok := f.Args(name).(*schedconfig.NodeResourcesFitArgs)
			if !ok || p.filter != p.preFilter {
				continue
			}
			scorer, ok := strategyScorer(args.ScoringStrategy)
			if !ok {
				continue
			}
			model.filters, model.ignored, model.ignoredGroups = p.filter, sets.New(args.IgnoredResources...),
				sets.New(args.IgnoredResourceGroups...)
			model.addScorer(p, scorer)
			names.Insert(name)
		case *noderesources.BalancedAllocation:
			if args, ok := f.Args(name).(*schedconfig.NodeResourcesBalancedAllocationArgs); ok {
				model.addScorer(p, resourceScorer{strategy: balancedAllocation, resources: args.Resources})
				names.Insert(name)
			}
		}
	}
	return model, names
}

func (m *resourceModel) addScorer(p *pointsOf, scorer resourceScorer) {
	if p.score {
		scorer.plugin, scorer.weight = p.plugin.Name(), p.weight
		m.scorers = append(m.scorers, scorer)
	}
}

// strategyScorer returns the scoring of NodeResourcesFit, or false if the strategy is not known.
func strategyScorer(args *schedconfig.ScoringStrategy) (resourceScorer, bool) {
	if args == nil || len(args.Resources) == 0 {
		return resourceScorer{}, false
	}
	scorer := resourceScorer{resources: args.Resources}
	switch args.Type {
	case schedconfig.LeastAllocated:
		scorer.strategy = leastAllocated
	case schedconfig.MostAllocated:
		scorer.strategy = mostAllocated
	case schedconfig.RequestedToCapacityRatio:
		if args.RequestedToCapacityRatio == nil || len(args.RequestedToCapacityRatio.Shape) == 0 {
			return resourceScorer{}, false
		}
		scorer.strategy = requestedToCapacityRatio
		scorer.shape = scoresByUtilization(args.RequestedToCapacityRatio.Shape)
	default:
		return resourceScorer{}, false
	}
	return scorer, true
}

// demand holds what the pods with one local key request of a node. It is made for one Plan, and
// holds columns of the nodeTable.
type demand struct {
	filters bool
	core    [numCore]int64
	scalars []scalarDemand
	scores  []nodeScore
	held    []corev1.ResourceName
}

type scalarDemand struct {
	column  *scalarColumn
	request int64
}

// demandOf returns the demand of a pod.
func (m *resourceModel) demandOf(pod *corev1.Pod, table *nodeTable, snapshot *cache.Snapshot) *demand {
	d := &demand{filters: m.filters}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{SkipPodLevelResources: !m.podLevel})
	hold := func(name corev1.ResourceName) *scalarColumn {
		d.held = append(d.held, name)
		return table.hold(name, snapshot)
	}
	if m.filters {
		var room schedframework.Resource
		room.SetMaxResource(requests)
		d.core = [...]int64{room.MilliCPU, room.Memory, room.EphemeralStorage}
		for name, request := range room.ScalarResources {
			if request != 0 && !m.ignores(name) {
				d.scalars = append(d.scalars, scalarDemand{hold(name), request})
			}
		}
	}
	for i := range m.scorers {
		s := &m.scorers[i]
		requests := requests
		if s.strategy != balancedAllocation {
			requests = nonZeroRequests(pod, requests)
		}
		if score, ok := s.scoreOf(requests, hold); ok {
			d.scores = append(d.scores, score)
		}
	}
	return d
}

// ignores reports whether the filter ignores a resource.
func (m *resourceModel) ignores(name corev1.ResourceName) bool {
	if m.ignored.Len() == 0 && m.ignoredGroups.Len() == 0 || !v1helper.IsExtendedResourceName(name) {
		return false
	}
	group, _, _ := strings.Cut(string(name), "/")
	return m.ignored.Has(string(name)) || m.ignoredGroups.Has(group)
}

// scoresAny reports whether one of the resources that is selects counts for a score.
func (m *resourceModel) scoresAny(is func(corev1.ResourceName) bool) bool {
	return slices.ContainsFunc(m.scorers, func(s resourceScorer) bool {
		return slices.ContainsFunc(s.resources, func(spec schedconfig.ResourceSpec) bool {
			return is(corev1.ResourceName(spec.Name))
		})
	})
}

// nonZeroRequests returns the requests of a pod for the score of NodeResourcesFit: a container that
// does not request cpu or memory counts with a small request, and pod-level requests do not count.
// requests are the requests without these changes.
func nonZeroRequests(pod *corev1.Pod, requests corev1.ResourceList) corev1.ResourceList {
	if pod.Spec.Resources == nil && allRequest(pod.Spec.Containers) && allRequest(pod.Spec.InitContainers) {
		return requests
	}
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		SkipPodLevelResources: true,
		NonMissingContainerRequests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(schedutil.DefaultMilliCPURequest, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(schedutil.DefaultMemoryRequest, resource.DecimalSI),
		},
	})
}

// allRequest reports whether all containers request cpu and memory.
func allRequest(containers []corev1.Container) bool {
	for i := range containers {
		requests := containers[i].Resources.Requests
		_, hasCPU := requests[corev1.ResourceCPU]
		_, hasMemory := requests[corev1.ResourceMemory]
		if !hasCPU || !hasMemory {
			return false
		}
	}
	return true
}

// scoreOf returns the scoring of nodes for the requests, or false if all nodes get 0.
func (s *resourceScorer) scoreOf(requests corev1.ResourceList,
	hold func(corev1.ResourceName) *scalarColumn) (nodeScore, bool) {
	score := nodeScore{resourceScorer: s}
	bestEffort := true
	for _, spec := range s.resources {
		name := corev1.ResourceName(spec.Name)
		quantity := requests[name]
		t := term{weight: spec.Weight, request: quantity.Value()}
		if name == corev1.ResourceCPU {
			t.request = quantity.MilliValue()
		}
		bestEffort = bestEffort && t.request == 0
		if at, ok := coreResources[name]; ok {
			t.core, score.request[at] = at, t.request
		} else if t.request != 0 && schedutil.IsScalarResourceName(name) {
			t.scalar = hold(name)
		} else {
			continue // no node has the resource, or it does not count for this pod
		}
		score.terms = append(score.terms, t)
	}
	score.pair = len(score.terms) == 2 && score.has(cpu) && score.has(memory)
	return score, len(score.terms) > 0 && (s.strategy != balancedAllocation || !bestEffort)
}

// has reports whether one of the resources that every node has counts.
func (s *nodeScore) has(core int) bool {
	return slices.ContainsFunc(s.terms, func(t term) bool { return t.scalar == nil && t.core == core })
}

// release releases the columns.
func (d *demand) release(table *nodeTable) {
	for _, name := range d.held {
		table.release(name)
	}
	d.held = nil
}

// fits reports whether a node has enough resources.
func (d *demand) fits(n *nodeResources, slot int) bool {
	if !d.filters {
		return true
	}
	if n.pods+1 > n.maxPods {
		return false
	}
	for i, request := range &d.core {
		if request > 0 && request > n.allocatable[i]-n.requested[i] {
			return false
		}
	}
	for i := range d.scalars {
		s := &d.scalars[i]
		if s.request > s.column.allocatable[slot]-s.column.requested[slot] {
			return false
		}
	}
	return true
}

// score returns the weighted sum of the scores of the two plugins for a node.
func (d *demand) score(n *nodeResources, slot int) (int64, error) {
	var sum int64
	for i := range d.scores {
		s := &d.scores[i]
		score := s.of(n, slot)
		if score < fwk.MinScore || score > fwk.MaxScore {
			return 0, outOfRange(s.plugin, score)
		}
		sum += score * s.weight
	}
	return sum, nil
}
