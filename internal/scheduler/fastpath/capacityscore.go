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
	// of returns the score of a utilization in percent. It is nil if the profile's arguments for the
	// plugin are not known.
	of func(utilization int64) int64
}

func newCapacityScorer(f *framework.Framework, plugin string, weight int64) *capacityScorer {
	args, ok := f.Args(plugin).(*schedconfig.VolumeBindingArgs)
	if !ok {
		return &capacityScorer{}
	}
	var shape helper.FunctionShape
	for _, point := range args.Shape {
		shape = append(shape, helper.FunctionShapePoint{Utilization: int64(point.Utilization),
			Score: int64(point.Score) * (fwk.MaxNodeScore / schedconfig.MaxCustomPriorityScore)})
	}
	return &capacityScorer{plugin: plugin, weight: weight, of: helper.BuildBrokenLinearFunction(shape)}
}

// score returns the weighted score for what the claims of each class request.
func (s *capacityScorer) score(demands []classDemand) int64 {
	const full = 100
	var sum int64
	for i := range demands {
		d := &demands[i]
		utilization := int64(full)
		if d.capacity != 0 && d.requested <= d.capacity {
			utilization = d.requested * full / d.capacity
		}
		sum += s.of(utilization)
	}
	if len(demands) == 0 {
		return 0
	}
	return int64(math.Round(float64(sum)/float64(len(demands)))) * s.weight
}
