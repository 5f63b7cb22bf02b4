// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// programmed is what came of a resolution, by scheduler name.
type programmed struct {
	// running are the profiles that decide from now on.
	running map[string]*profile.Profile
	// failed are the builds that failed. What ran before under the name, if anything, is in running.
	failed map[string]error
}

// program builds the profiles whose revision is not the one that runs, and swaps all in together. A profile that cannot
// be built is left as it is and does not hold up the others.
func (r *ProfileReconciler) program(ctx context.Context, resolution *config.Resolution) *programmed {
	current := r.Store.Current()
	result := &programmed{running: map[string]*profile.Profile{}, failed: map[string]error{}}
	for _, name := range slices.Sorted(maps.Keys(resolution.Profiles)) {
		cfg, running := resolution.Profiles[name], current.Get(name)
		if running != nil && running.Config.Revision == cfg.Revision {
			result.running[name] = running
			continue
		}
		built, err := r.build(ctx, cfg)
		switch {
		case err == nil:
			result.running[name] = built
		case running != nil:
			result.running[name] = running
		}
		if err != nil {
			result.failed[name] = err
		}
	}
	r.swap(ctx, current, profile.NewMap(result.running, resolution.SortedBy))
	return result
}

func (r *ProfileReconciler) build(ctx context.Context, cfg *config.Profile) (*profile.Profile, error) {
	logger := log.FromContext(ctx).WithValues("schedulerName", cfg.SchedulerName, "revision", cfg.Revision, "generation", cfg.Generation)
	start := time.Now()
	built, err := r.Build(ctx, cfg)
	if err != nil {
		metrics.Reloads.WithLabelValues(metrics.ReloadFailed).Inc()
		logger.Error(err, "Building a profile failed; what ran before runs on")
		return nil, err
	}
	metrics.ReloadBuildDuration.Observe(time.Since(start).Seconds())
	logger.Info("Built a profile", "duration", time.Since(start))
	return built, nil
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
