// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// capacityScorer computes the score of VolumeBinding for nodes on which volumes are created: how
// much of the capacity that the driver reports the claims request. Its counterparts are
// volumebinding/volume_binding.go and scorer.go.
type capacityScorer struct {
	plugin string
	weight int64
	// of returns the score of a utilization in percent, and percent has its results. It is nil if
	// the profile's arguments for the plugin are not known.
	of      func(utilization int64) int64
	percent [fullUse + 1]int64
}

// fullUse is the highest utilization.
const fullUse = 100

func newCapacityScorer(f *framework.Framework, plugin string, weight int64) *capacityScorer {
	args, ok := f.Args(plugin).(*schedconfig.VolumeBindingArgs)
	if !ok {
		return &capacityScorer{}
	}
	return scorerOf(args, plugin, weight)
}

func scorerOf(args *schedconfig.VolumeBindingArgs, plugin string, weight int64) *capacityScorer {
	var shape helper.FunctionShape
	for _, point := range args.Shape {
		shape = append(shape, helper.FunctionShapePoint{Utilization: int64(point.Utilization),
			Score: int64(point.Score) * (fwk.MaxScore / schedconfig.MaxCustomPriorityScore)})
	}
	s := &capacityScorer{plugin: plugin, weight: weight, of: helper.BuildBrokenLinearFunction(shape)}
	for utilization := range s.percent {
		s.percent[utilization] = s.of(int64(utilization))
	}
	return s
}

// score returns the weighted score for what the claims of each class request.
func (s *capacityScorer) score(demands []classDemand) int64 {
	if len(demands) == 1 {
		return s.ofClass(&demands[0]) * s.weight
	}
	var sum int64
	for i := range demands {
		sum += s.ofClass(&demands[i])
	}
	return int64(math.Round(float64(sum)/float64(len(demands)))) * s.weight
}

func (s *capacityScorer) ofClass(d *classDemand) int64 {
	if d.capacity == 0 || d.requested > d.capacity {
		return s.percent[fullUse]
	}
	utilization := d.requested * fullUse / d.capacity
	if utilization < 0 || utilization > fullUse {
		return s.of(utilization) // the product is too large
	}
	return s.percent[utilization]
}
