// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	compbasemetrics "k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Config holds the plugins and dependencies of a Framework. The plugins belong to one framework;
// everything else is shared with other frameworks and outlives it.
type Config struct {
	// ProfileName is the scheduler name of the profile, and its label in metrics.
	ProfileName string
	// Plugins are the profile's plugins as Expand returned them.
	Plugins *Plugins
	// Args are the arguments that the plugins were built with, by plugin name. Only the fast path,
	// which computes the results of plugins itself, needs them; plugins may be missing. They are
	// immutable.
	Args map[string]runtime.Object
	// CheckAllFilters runs all Filter plugins on a node even after one has refused it, so that all
	// reasons are known. Decisions do not depend on it.
	CheckAllFilters bool
	// Snapshot has the nodes that PreFilter plugins receive.
	Snapshot fwk.SharedLister
	// Parallelizer spreads Score and parallel PreBind plugins over goroutines. Default:
	// NewParallelizer(0).
	Parallelizer fwk.Parallelizer
	// Nominator holds the nominated pods. nil means that there are none.
	Nominator Nominator
	// WaitingPods keeps the pods that wait on Permit. Default: a collection that no other framework
	// sees.
	WaitingPods *WaitingPods
	// Recorder records the durations of single plugins, in the cycles whose state asks for it. nil
	// disables recording.
	Recorder *schedmetrics.MetricAsyncRecorder
	// Instruments are the metrics of the calls of plugins. Default: kube-scheduler's metrics.
	Instruments *Instruments
}

// Instruments are the metrics of the calls of plugins, by profile.
type Instruments struct {
	evaluations *compbasemetrics.CounterVec
	points      *compbasemetrics.HistogramVec // nil: not measured
}

// Discarded returns Instruments for calls that are no part of the scheduling of pods: they do
// nothing.
func Discarded() *Instruments {
	// A vector counts nothing unless it is registered.
	return &Instruments{evaluations: compbasemetrics.NewCounterVec(&compbasemetrics.CounterOpts{}, nil)}
}

// Framework runs the plugins of one instance of a profile. It has no other state, so the scheduling
// loop, binding cycles and preemption may use it at the same time, each with its own CycleState.
type Framework struct {
	cfg Config // with the defaults
	// points measures extension points. nil: they are not measured.
	points *compbasemetrics.HistogramVec

	// The extension points that run for every pod or every node, with names and metrics looked up
	// in advance. The others are read from cfg.Plugins.
	preFilter []preFilterPlugin
	filter    []instrumented[fwk.FilterPlugin]
	preScore  []instrumented[fwk.PreScorePlugin]
	score     []scorePlugin
}

var _ fwk.PluginsRunner = (*Framework)(nil)

// instrumented is a plugin with its name and its counter of plugin_evaluation_total.
type instrumented[P fwk.Plugin] struct {
	plugin      P
	name        string
	evaluations compbasemetrics.CounterMetric
}

type preFilterPlugin struct {
	instrumented[fwk.PreFilterPlugin]
	extensions fwk.PreFilterExtensions // nil if the plugin has none
}

type scorePlugin struct {
	instrumented[fwk.ScorePlugin]
	extensions fwk.ScoreExtensions // nil if scores are not normalised
	weight     int64
}

// New returns a framework for the plugins in cfg. It starts no goroutine and need not be closed.
// schedmetrics.Register must have been called before.
func New(cfg Config) *Framework {
	if cfg.Instruments == nil {
		cfg.Instruments = &Instruments{schedmetrics.PluginEvaluationTotal, schedmetrics.FrameworkExtensionPointDuration}
	}
	if cfg.Parallelizer == nil {
		cfg.Parallelizer = NewParallelizer(0)
	}
	if cfg.WaitingPods == nil {
		cfg.WaitingPods = NewWaitingPods()
	}
	f := &Framework{
		cfg: cfg, points: cfg.Instruments.points,
		filter:   instrument(&cfg, schedmetrics.Filter, cfg.Plugins.Filter),
		preScore: instrument(&cfg, schedmetrics.PreScore, cfg.Plugins.PreScore),
	}
	for _, pl := range instrument(&cfg, schedmetrics.PreFilter, cfg.Plugins.PreFilter) {
		f.preFilter = append(f.preFilter, preFilterPlugin{pl, pl.plugin.PreFilterExtensions()})
	}
	for _, pl := range instrument(&cfg, schedmetrics.Score, cfg.Plugins.Score) {
		weight := cfg.Plugins.ScoreWeights[pl.name]
		f.score = append(f.score, scorePlugin{pl, pl.plugin.ScoreExtensions(), weight})
	}
	return f
}

func instrument[P fwk.Plugin](cfg *Config, point string, plugins []P) []instrumented[P] {
	out := make([]instrumented[P], 0, len(plugins))
	for _, pl := range plugins {
		name := pl.Name()
		out = append(out, instrumented[P]{pl, name,
			cfg.Instruments.evaluations.WithLabelValues(name, point, cfg.ProfileName)})
	}
	return out
}

// ProfileName returns the scheduler name of the profile.
func (f *Framework) ProfileName() string { return f.cfg.ProfileName }

// Plugins returns the plugins by extension point.
func (f *Framework) Plugins() *Plugins { return f.cfg.Plugins }

// Args returns the arguments that a plugin was built with, nil if they are unknown. They must not
// be modified.
func (f *Framework) Args(plugin string) runtime.Object { return f.cfg.Args[plugin] }

// ChecksAllFilters reports whether all Filter plugins are run on a node even after one has refused
// it.
func (f *Framework) ChecksAllFilters() bool { return f.cfg.CheckAllFilters }

// Parallelizer returns the framework's parallelizer.
func (f *Framework) Parallelizer() fwk.Parallelizer { return f.cfg.Parallelizer }

// SnapshotSharedLister returns the snapshot that PreFilter plugins see.
func (f *Framework) SnapshotSharedLister() fwk.SharedLister { return f.cfg.Snapshot }

// HasFilterPlugins reports whether any Filter plugin is enabled.
func (f *Framework) HasFilterPlugins() bool { return len(f.filter) > 0 }

// HasPostFilterPlugins reports whether any PostFilter plugin is enabled.
func (f *Framework) HasPostFilterPlugins() bool { return len(f.cfg.Plugins.PostFilter) > 0 }

// HasScorePlugins reports whether any Score plugin is enabled.
func (f *Framework) HasScorePlugins() bool { return len(f.score) > 0 }

// SignPod returns nil, which means that the pod cannot be compared with others by signature.
func (f *Framework) SignPod(context.Context, *corev1.Pod) fwk.PodSignature { return nil }
