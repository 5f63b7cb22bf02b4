// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufragmentation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/plugins/args"
)

// MostAllocatedName is the name of the plugin GPUMostAllocated.
const MostAllocatedName = "GPUMostAllocated"

// MostAllocated is the plugin GPUMostAllocated: it prefers the nodes whose GPUs are allocated most.
// With a small weight, it chooses among the nodes that have the same score by GPUFragmentation.
// Several goroutines may use it.
type MostAllocated struct{ *finder }

var (
	_ fwk.PreScorePlugin = MostAllocated{}
	_ fwk.ScorePlugin    = MostAllocated{}
)

// CheckMostAllocatedArgs checks the arguments of GPUMostAllocated.
func CheckMostAllocatedArgs(object runtime.Object) error {
	_, err := parseMostAllocatedArgs(object)
	return err
}

func parseMostAllocatedArgs(object runtime.Object) (d Devices, err error) {
	if err := args.Decode(object, &d); err != nil {
		return d, err
	}
	return d, d.check()
}

// NewMostAllocated is the factory of GPUMostAllocated.
func NewMostAllocated(_ context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	of, err := parseMostAllocatedArgs(object)
	if err != nil {
		return nil, err
	}
	f, err := newFinder(of, "", handle)
	if err != nil {
		return nil, err
	}
	return MostAllocated{f}, nil
}

// Name implements fwk.Plugin.
func (MostAllocated) Name() string { return MostAllocatedName }

// ScoresBeforeFilter marks the plugin for the fast path, as GPUFragmentation.
func (MostAllocated) ScoresBeforeFilter() {}

// PreScore begins a decision.
func (pl MostAllocated) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	pl.known.age()
	return nil
}

// Score returns the share of the node's GPUs that is allocated, from 0 to fwk.MaxScore.
func (pl MostAllocated) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod,
	nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	gpus := pl.gpusOf(nodeInfo)
	if len(gpus) == 0 {
		return fwk.MinScore, nil
	}
	total := int64(len(gpus)) * whole
	used := total
	for i := range gpus {
		used -= gpus[i].free
	}
	return used * fwk.MaxScore / total, nil
}

// ScoreExtensions implements fwk.ScorePlugin: Score returns normalised scores.
func (MostAllocated) ScoreExtensions() fwk.ScoreExtensions { return nil }
