// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"maps"
	"slices"
	"time"

	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// programmed is what came of a resolution, by scheduler name.
type programmed struct {
	// instances are swapped in together, and running is what status says of them: one entry in each for every profile
	// that decides from now on.
	instances map[string]*profile.Profile
	running   map[string]*running
	// failed are the builds that failed. What ran before under the name, if anything, runs on.
	failed map[string]error
}

// running is a profile that decides.
type running struct {
	// config is what the instance stands for: what it was built from, or a later one of the same revision.
	config *config.Profile
	// built is when the instance was built, plugins what it runs at each extension point.
	built   time.Time
	plugins *schedconfig.Plugins
}

func (p *programmed) run(instance *profile.Profile, cfg *config.Profile) {
	p.instances[cfg.SchedulerName] = instance
	p.running[cfg.SchedulerName] = &running{config: cfg, built: instance.Built, plugins: instance.Plugins()}
}

// program builds the profiles whose revision is not the one that runs, and swaps all in together. A profile that cannot
// be built is left as it is and does not hold up the others. It returns nil, and has changed nothing, if ctx has ended.
func (r *ProfileReconciler) program(ctx context.Context, resolution *config.Resolution) *programmed {
	if r.failing == nil {
		r.failing = failures{}
	}
	current := r.Store.Current()
	result := &programmed{instances: map[string]*profile.Profile{}, running: map[string]*running{}, failed: map[string]error{}}
	var built []*profile.Profile
	for _, name := range slices.Sorted(maps.Keys(resolution.Profiles)) {
		cfg, instance := resolution.Profiles[name], current.Get(name)
		if instance != nil && instance.Config.Revision == cfg.Revision {
			result.run(instance, cfg)
			continue
		}
		tried := r.failing.pending(cfg, r.Clock.Now()) == nil
		fresh, err := r.build(ctx, cfg)
		switch {
		case err == nil:
			built = append(built, fresh)
			result.run(fresh, cfg)
		case instance != nil:
			result.run(instance, r.deciding[name])
		case tried:
			// livesched was restarted: what ran before that runs on.
			if before := resolution.Before(name); before != nil {
				if fresh := r.buildBefore(ctx, before); fresh != nil {
					built = append(built, fresh)
					result.run(fresh, before)
				}
			}
		}
		if err != nil {
			result.failed[name] = err
		}
	}
	if ctx.Err() != nil {
		for _, p := range built {
			p.Discard(log.FromContext(ctx))
		}
		return nil
	}
	r.failing.keep(result.failed)
	r.swap(ctx, current, profile.NewMap(result.instances, result.sorter(resolution)))
	r.deciding = make(map[string]*config.Profile, len(result.running))
	for name, p := range result.running {
		r.deciding[name] = p.config
	}
	return result
}

// sorter is the scheduler name of the profile whose queue sort orders the queue: the one that has its way or, if that
// could not be built, one that asks for the same order.
func (p *programmed) sorter(resolution *config.Resolution) string {
	first := resolution.SortedBy
	if p.failed[first] == nil {
		return first
	}
	for _, name := range slices.Sorted(maps.Keys(p.running)) {
		if p.running[name].config.QueueSort == resolution.Profiles[first].QueueSort {
			return name
		}
	}
	return first
}

// build builds a profile, unless that failed so recently that it is not to be tried again yet.
func (r *ProfileReconciler) build(ctx context.Context, cfg *config.Profile) (*profile.Profile, error) {
	if err := r.failing.pending(cfg, r.Clock.Now()); err != nil {
		return nil, err
	}
	logger := log.FromContext(ctx).WithValues("schedulerName", cfg.SchedulerName, "revision", cfg.Revision, "generation", cfg.Generation)
	start := time.Now()
	built, err := r.Build(ctx, cfg)
	r.failing.note(cfg, err, r.Clock.Now())
	if err != nil {
		if ctx.Err() == nil {
			metrics.Reloads.WithLabelValues(metrics.ReloadFailed).Inc()
			logger.Error(err, "Building a profile failed; what ran before runs on")
		}
		return nil, err
	}
	metrics.ReloadBuildDuration.Observe(time.Since(start).Seconds())
	logger.Info("Built a profile", "duration", time.Since(start))
	return built, nil
}

// buildBefore builds what stands by for a profile that cannot be built. It is nil if that cannot be built either.
func (r *ProfileReconciler) buildBefore(ctx context.Context, cfg *config.Profile) *profile.Profile {
	built, err := r.Build(ctx, cfg)
	if err != nil {
		log.FromContext(ctx).Error(err, "Building the last good revision of a profile failed, too", "schedulerName", cfg.SchedulerName, "revision", cfg.Revision, "generation", cfg.Generation)
		return nil
	}
	return built
}

// swap makes next the current map, unless it is the same.
func (r *ProfileReconciler) swap(ctx context.Context, current, next *profile.Map) {
	if next.Equal(current) {
		return
	}
	logger := log.FromContext(ctx)
	start := time.Now()
	changed := r.Store.Swap(logger, next)
	metrics.ReloadSwapDuration.Observe(time.Since(start).Seconds())
	metrics.Reloads.WithLabelValues(metrics.ReloadSucceeded).Inc()
	metrics.Profiles.Set(float64(next.Len()))
	logger.Info("Swapped in profiles", "schedulerNames", slices.Sorted(maps.Keys(changed)), "duration", time.Since(start))
}
