// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// FitsResources reports whether the profile places a pod only where its requests fit: the plugin
// NodeResourcesFit filters.
func (i *Instance) FitsResources() bool {
	return slices.ContainsFunc(i.plugins.Filter,
		func(plugin fwk.FilterPlugin) bool { return plugin.Name() == names.NodeResourcesFit })
}

// ChecksOnNodes reports whether a resource must be allocatable on the node: the profile does not
// ignore it, and no device class provides it, also by the name that each class has implicitly. That
// is not the name of an extended resource.
func (i *Instance) ChecksOnNodes(name corev1.ResourceName) bool {
	switch {
	case !schedutil.IsDRAExtendedResourceName(name):
		return true
	case i.handle.env.Devices.Backs(name):
		return false
	case !v1helper.IsExtendedResourceName(name): // no plugin ignores it
		return true
	}
	args := i.fitArgs()
	return len(args.IgnoredResources)+len(args.IgnoredResourceGroups) == 0 // only the plugin knows which
}

// ScoredResources returns the resources by which the plugin NodeResourcesFit scores placements of
// groups.
func (i *Instance) ScoredResources() []schedconfig.ResourceSpec {
	if strategy := i.fitArgs().ScoringStrategy; strategy != nil {
		return strategy.Resources
	}
	return nil
}

// fitArgs returns the arguments of the plugin NodeResourcesFit, which are empty without it.
func (i *Instance) fitArgs() *schedconfig.NodeResourcesFitArgs {
	for _, c := range i.Config.Config.PluginConfig {
		if args, ok := c.Args.(*schedconfig.NodeResourcesFitArgs); ok {
			return args
		}
	}
	return &schedconfig.NodeResourcesFitArgs{}
}

// ofNodes are the plugins whose answers depend on the pod and the object of the node only.
var ofNodes = []string{names.NodeName, names.NodeUnschedulable, names.NodeAffinity, names.TaintToleration}

// Admits returns a function that reports whether those filters of the profile let a pod on a node
// that look at the pod and the object of the node only.
func (i *Instance) Admits(pod *corev1.Pod) func(node fwk.NodeInfo) bool {
	ctx, state := context.Background(), schedframework.NewCycleState()
	var filters []fwk.FilterPlugin
	for _, filter := range i.plugins.Filter {
		if !slices.Contains(ofNodes, filter.Name()) {
			continue
		}
		if pre, ok := filter.(fwk.PreFilterPlugin); ok {
			if _, status := pre.PreFilter(ctx, state, pod, nil); status.IsSkip() {
				continue
			}
		}
		filters = append(filters, filter)
	}
	return func(node fwk.NodeInfo) bool {
		return !slices.ContainsFunc(filters,
			func(f fwk.FilterPlugin) bool { return !f.Filter(ctx, state, pod, node).IsSuccess() })
	}
}
