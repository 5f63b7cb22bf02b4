// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package noderesources has plugins that score nodes by their resources and that kube-scheduler has
// removed. Three of them, NodeResourcesLeastAllocated, NodeResourcesMostAllocated and
// RequestedToCapacityRatio, became scoring strategies of NodeResourcesFit, which can have only one;
// a legacy policy can use them side by side, each with its weight. Each wraps kube-scheduler's
// NodeResourcesFit with that strategy, and uses only its score.
package noderesources

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"

	"github.com/livesched/livesched/internal/scheduler/plugins/args"
)

// Names of the plugins that score by a strategy of NodeResourcesFit.
const (
	// LeastAllocatedName is the plugin that prefers nodes with the most free resources.
	LeastAllocatedName = "NodeResourcesLeastAllocated"
	// MostAllocatedName is the plugin that prefers nodes with the least free resources.
	MostAllocatedName = "NodeResourcesMostAllocated"
	// RequestedToCapacityRatioName is the plugin that scores nodes by a function of their
	// utilization.
	RequestedToCapacityRatioName = "RequestedToCapacityRatio"
)

// maxWeight is the greatest weight of a resource that NodeResourcesFit accepts.
const maxWeight = 100

// Args are the arguments of the plugins, as in kubescheduler.config.k8s.io/v1beta1.
type Args struct {
	args.TypeMeta `json:",inline"`
	// Shape holds the points of the function from utilization (0 to 100) to score (0 to 10), by
	// increasing utilization. RequestedToCapacityRatio requires it; the others must not have it.
	Shape []configv1.UtilizationShapePoint `json:"shape,omitempty"`
	// Resources are the resources that count, each with a weight of 1 or more, by default 1. The
	// default is cpu and memory.
	Resources []configv1.ResourceSpec `json:"resources,omitempty"`
}

// strategies are the scoring strategies behind the plugins.
var strategies = map[string]schedconfig.ScoringStrategyType{
	LeastAllocatedName:           schedconfig.LeastAllocated,
	MostAllocatedName:            schedconfig.MostAllocated,
	RequestedToCapacityRatioName: schedconfig.RequestedToCapacityRatio,
}

// CheckArgs returns the function that checks a plugin's arguments.
func CheckArgs(plugin string) func(runtime.Object) error {
	return func(object runtime.Object) error {
		_, err := parseArgs(plugin, object)
		return err
	}
}

// parseArgs reads and checks the arguments of a plugin and returns them as arguments of
// NodeResourcesFit.
func parseArgs(plugin string, object runtime.Object) (*schedconfig.NodeResourcesFitArgs, error) {
	var a Args
	if err := args.Decode(object, &a); err != nil {
		return nil, err
	}
	if err := a.Check(plugin); err != nil {
		return nil, err
	}
	strategy := &schedconfig.ScoringStrategy{Type: strategies[plugin]}
	var err error
	if strategy.Resources, err = resources(a.Resources); err != nil {
		return nil, err
	}
	switch {
	case plugin == RequestedToCapacityRatioName:
		strategy.RequestedToCapacityRatio = &schedconfig.RequestedToCapacityRatioParam{}
		for _, point := range a.Shape {
			strategy.RequestedToCapacityRatio.Shape = append(strategy.RequestedToCapacityRatio.Shape,
				schedconfig.UtilizationShapePoint(point))
		}
	case len(a.Shape) > 0:
		return nil, field.Forbidden(field.NewPath("shape"), "only "+RequestedToCapacityRatioName+" has one")
	}
	fit := &schedconfig.NodeResourcesFitArgs{ScoringStrategy: strategy}
	return fit, inOwnTerms(validation.ValidateNodeResourcesFitArgs(nil, fit))
}

// inOwnTerms translates errors in arguments of NodeResourcesFit to the fields of these plugins.
func inOwnTerms(err error) error {
	var aggregate utilerrors.Aggregate
	if !errors.As(err, &aggregate) {
		return err
	}
	var errs []error
	for _, err := range aggregate.Errors() {
		var invalid *field.Error
		if errors.As(err, &invalid) {
			invalid.Field = strings.TrimPrefix(strings.TrimPrefix(invalid.Field, "scoringStrategy."),
				"requestedToCapacityRatio.")
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// resources completes the resources. Only the ratio of the weights counts: they are divided by
// their greatest common divisor, since NodeResourcesFit accepts none above 100.
func resources(specs []configv1.ResourceSpec) ([]schedconfig.ResourceSpec, error) {
	if len(specs) == 0 {
		return []schedconfig.ResourceSpec{{Name: string(corev1.ResourceCPU), Weight: 1},
			{Name: string(corev1.ResourceMemory), Weight: 1}}, nil
	}
	var out []schedconfig.ResourceSpec
	var common, most int64
	seen := sets.New[string]()
	for i, spec := range specs {
		path := field.NewPath("resources").Index(i)
		switch {
		case spec.Name == "":
			return nil, field.Required(path.Child("name"), "a resource must have a name")
		case seen.Has(spec.Name):
			return nil, field.Duplicate(path.Child("name"), spec.Name)
		case spec.Weight < 0:
			return nil, field.Invalid(path.Child("weight"), spec.Weight, "must be 0 (which means 1) or more")
		}
		seen.Insert(spec.Name)
		weight := max(spec.Weight, 1)
		common, most = divisor(weight, common), max(most, weight)
		out = append(out, schedconfig.ResourceSpec{Name: spec.Name, Weight: weight})
	}
	if most/common > maxWeight {
		return nil, field.Invalid(field.NewPath("resources"), most,
			"the weights must be in the ratio of whole numbers from 1 to 100, such as 1 and 100, or 500 and 1000")
	}
	for i := range out {
		out[i].Weight /= common
	}
	return out, nil
}

// divisor returns the greatest common divisor of two numbers.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Strategy is a plugin that scores nodes by a strategy of NodeResourcesFit. It has no state.
type Strategy struct {
	name string
	fit  interface {
		fwk.PreScorePlugin
		fwk.ScorePlugin
	}
}

var (
	_ fwk.PreScorePlugin = &Strategy{}
	_ fwk.ScorePlugin    = &Strategy{}
)

// NewLeastAllocated is the factory of NodeResourcesLeastAllocated.
func NewLeastAllocated(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return newStrategy(ctx, LeastAllocatedName, object, handle)
}

// NewMostAllocated is the factory of NodeResourcesMostAllocated.
func NewMostAllocated(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return newStrategy(ctx, MostAllocatedName, object, handle)
}

// NewRequestedToCapacityRatio is the factory of RequestedToCapacityRatio.
func NewRequestedToCapacityRatio(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return newStrategy(ctx, RequestedToCapacityRatioName, object, handle)
}

func newStrategy(ctx context.Context, name string, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	fitArgs, err := parseArgs(name, object)
	if err != nil {
		return nil, err
	}
	plugin, err := upstream.NewFit(ctx, fitArgs, handle,
		feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	fit, ok := plugin.(*upstream.Fit)
	if !ok {
		return nil, fmt.Errorf("NodeResourcesFit is a %T", plugin)
	}
	return &Strategy{name: name, fit: fit}, nil
}

// Name implements fwk.Plugin.
func (pl *Strategy) Name() string { return pl.name }

// PreScore computes the pod's requests of the resources that count.
func (pl *Strategy) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	nodes []fwk.NodeInfo) *fwk.Status {
	return pl.fit.PreScore(ctx, ownState{state, pl.name}, pod, nodes)
}

// Score returns the score of the strategy, from 0 to fwk.MaxScore.
func (pl *Strategy) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	return pl.fit.Score(ctx, ownState{state, pl.name}, pod, nodeInfo)
}

// ScoreExtensions implements fwk.ScorePlugin: Score returns normalised scores.
func (pl *Strategy) ScoreExtensions() fwk.ScoreExtensions { return nil }

// ownState separates the data of a plugin in a cycle state from the data of others: all of these
// plugins, and NodeResourcesFit itself, use the same keys.
type ownState struct {
	fwk.CycleState
	owner string
}

func (s ownState) key(key fwk.StateKey) fwk.StateKey { return key + "/" + fwk.StateKey(s.owner) }

// Read implements fwk.CycleState.
func (s ownState) Read(key fwk.StateKey) (fwk.StateData, error) { return s.CycleState.Read(s.key(key)) }

// Write implements fwk.CycleState.
func (s ownState) Write(key fwk.StateKey, data fwk.StateData) { s.CycleState.Write(s.key(key), data) }

// Delete implements fwk.CycleState.
func (s ownState) Delete(key fwk.StateKey) { s.CycleState.Delete(s.key(key)) }
