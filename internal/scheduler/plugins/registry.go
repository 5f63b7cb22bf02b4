// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugins holds the registry of scheduling plugins: kube-scheduler's in-tree plugins,
// unmodified; livesched's own, most of which kube-scheduler has removed; and out-of-tree plugins.
package plugins

import (
	"fmt"
	"maps"
	"slices"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	schedplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins/gpufragmentation"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodelabel"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodepreferavoidpods"
	"github.com/livesched/livesched/internal/scheduler/plugins/noderesources"
	"github.com/livesched/livesched/internal/scheduler/plugins/selectorspread"
	"github.com/livesched/livesched/internal/scheduler/plugins/serviceaffinity"
)

// own returns the plugins for GPUs, and those that kube-scheduler has removed.
func own() framework.Registry {
	return framework.Registry{
		gpufragmentation.MostAllocatedName:         gpufragmentation.NewMostAllocated,
		gpufragmentation.Name:                      gpufragmentation.New,
		nodelabel.Name:                             nodelabel.New,
		nodepreferavoidpods.Name:                   nodepreferavoidpods.New,
		noderesources.LeastAllocatedName:           noderesources.NewLeastAllocated,
		noderesources.LimitsName:                   noderesources.NewLimits,
		noderesources.MostAllocatedName:            noderesources.NewMostAllocated,
		noderesources.RequestedToCapacityRatioName: noderesources.NewRequestedToCapacityRatio,
		selectorspread.Name:                        selectorspread.New,
		serviceaffinity.Name:                       serviceaffinity.New,
	}
}

// singlePods returns the features for DefaultPreemption, which preempts for single pods: package
// gang preempts for groups. With the gates for groups, the plugin would look for them in the
// snapshot, where they are not.
func singlePods() plfeature.Features {
	features := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	features.EnableGenericWorkload, features.EnableCompositePodGroup = false, false
	return features
}

// NewRegistry returns kube-scheduler's in-tree plugins merged with livesched's own and with
// outOfTree, which uses the same factory type, so that a plugin written for kube-scheduler
// registers without a change. A name in two of the registries is an error, since it would be
// unclear which plugin runs.
//
// The set of in-tree plugins and their behaviour depend on the process-wide feature gates, which
// must be set before the call.
func NewRegistry(outOfTree framework.Registry) (framework.Registry, error) {
	registry := schedplugins.NewInTreeRegistry()
	registry[names.DefaultPreemption] = schedruntime.FactoryAdapter(singlePods(), defaultpreemption.New)
	if err := registry.Merge(own()); err != nil {
		return nil, fmt.Errorf("registering livesched's own plugins: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(outOfTree)) {
		if err := registry.Register(name, outOfTree[name]); err != nil {
			return nil, fmt.Errorf("registering out-of-tree plugin %q: %w", name, err)
		}
	}
	return registry, nil
}
