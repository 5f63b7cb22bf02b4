// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpufragmentation has the plugins GPUFragmentation and GPUMostAllocated. GPUFragmentation
// prefers the nodes where the pod leaves the free GPUs most useful for the pods that are typical of
// the cluster. It is the policy of
// "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent"
// (USENIX ATC 2023):
//
//	pod, its claims --> demand --+
//	node: free CPU --------------+--> fragmentation before and after --> score
//	node's devices: what is free +
//
// Kubernetes, not the plugin, chooses among the devices of a node: the first that fits. The plugin
// assumes the same.
package gpufragmentation

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name of the plugin.
const Name = "GPUFragmentation"

// GPUFragmentation is the plugin. Several goroutines may use it.
type GPUFragmentation struct {
	*finder
	args  *Args
	types []podType
	// claims is nil without a driver.
	claims fwk.ResourceClaimTracker
}

var (
	_ fwk.PreScorePlugin = &GPUFragmentation{}
	_ fwk.ScorePlugin    = &GPUFragmentation{}
)

// New is the plugin's factory.
func New(_ context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, types, err := parseArgs(object)
	if err != nil {
		return nil, err
	}
	pl := &GPUFragmentation{args: args, types: types}
	if pl.finder, err = newFinder(args.Devices, args.ModelAttribute, handle); err != nil {
		return nil, err
	}
	if args.Driver != "" {
		pl.claims = handle.SharedDRAManager().ResourceClaims()
	}
	return pl, nil
}

// Name implements fwk.Plugin.
func (*GPUFragmentation) Name() string { return Name }

// ScoresBeforeFilter marks the plugin for the fast path (see fastpath.EarlyScorer): its score of a
// node depends on no other node.
func (*GPUFragmentation) ScoresBeforeFilter() {}

// PreScore reads what the pod needs.
func (pl *GPUFragmentation) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod,
	_ []fwk.NodeInfo) *fwk.Status {
	pl.known.age()
	state.Write(Name, pl.demandOf(pod))
	return nil
}

// Score returns a score from 0 to fwk.MaxScore by how the fragmentation of the node would change.
// It is 0 if there are too few GPUs.
func (pl *GPUFragmentation) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod,
	nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	var d *demand
	if data, err := state.Read(Name); err == nil {
		d, _ = data.(*demand)
	}
	if d == nil { // the profile does not run PreScore
		d = pl.demandOf(pod)
	}
	gpus := pl.gpusOf(nodeInfo)
	cpu := nodeInfo.GetAllocatable().GetMilliCPU() - nodeInfo.GetRequested().GetMilliCPU()
	before := fragmentation(pl.types, cpu, gpus)
	if len(d.requests) > 0 {
		gpus = slices.Clone(gpus)
	}
	for i := range d.requests {
		if !d.requests[i].takeFrom(gpus) {
			return fwk.MinScore, nil // the pod does not fit: other nodes are asked first
		}
	}
	return scoreOf(before, fragmentation(pl.types, cpu-d.cpu, gpus)), nil
}

// ScoreExtensions implements fwk.ScorePlugin: Score returns normalised scores.
func (*GPUFragmentation) ScoreExtensions() fwk.ScoreExtensions { return nil }
