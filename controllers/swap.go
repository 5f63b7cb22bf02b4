// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// running is a profile that schedules pods, or a shadow.
type running struct {
	// config is the configuration that the instance runs: see active.
	config *resolve.Profile
	// built is when the instance was built. plugins holds the plugins that it runs at each
	// extension point.
	built   time.Time
	plugins *schedconfig.Plugins
	// missing describes the kinds that its plugins use and the API server does not serve, "" if
	// there are none.
	missing string
}

// swap makes the plan take effect. It returns false, and has changed nothing, if livesched is
// ending.
func (r *ProfileReconciler) swap(ctx context.Context, p *pass) bool {
	current := r.Scheduler.Store().Current()
	instances, ok := takeAll(ctx, p.plan, current)
	if !ok {
		return false
	}
	r.swapIn(ctx, current, profile.NewMap(instances, p.plan.next.sortedBy).WithShares(p.shares()))
	p.running = make(map[string]*running, len(instances))
	for name, instance := range instances {
		p.running[name] = &running{
			config: p.plan.next.profiles[name], built: instance.Built, plugins: instance.Plugins(),
			missing: missingKinds(instance.MissingKinds()),
		}
	}
	r.last.active, r.last.scheduled = p.plan.next, p.leading
	r.last.good = p.resolution.LastGood(slices.Collect(maps.Values(p.plan.next.profiles)))
	if p.builds.tried() {
		r.settled.Store(true)
	}
	return true
}

// takeAll returns the instances of a plan by resolve.Profile.ID: running ones, and the ones that
// were built for it. It returns false, and discards the new instances, if livesched is ending.
func takeAll(ctx context.Context, p *plan, current *profile.Map) (map[string]*profile.Instance, bool) {
	logger := log.FromContext(ctx)
	instances, taken := map[string]*profile.Instance{}, []string{}
	ending := ctx.Err() != nil
	for _, name := range slices.Sorted(maps.Keys(p.next.profiles)) {
		if ending {
			break
		}
		instance := current.ByID(name)
		if built := p.take[name]; built != nil {
			if instance = built.Take(); instance != nil {
				taken = append(taken, name)
			}
		}
		instances[name], ending = instance, instance == nil
	}
	for _, name := range taken {
		instance, cfg := instances[name], p.next.profiles[name]
		if ending {
			instance.Discard(logger)
			continue
		}
		took := p.take[name].Duration()
		metrics.ReloadBuildDuration.Observe(took.Seconds())
		logger.Info("Built a profile", "profile", name, "revision", cfg.Revision, "generation", cfg.Generation,
			"duration", took)
	}
	return instances, !ending
}

// swapIn makes next the current map, unless it is the same.
func (r *ProfileReconciler) swapIn(ctx context.Context, current, next *profile.Map) {
	reload := !next.SameInstances(current)
	if !reload && next.SameShares(current) {
		return
	}
	logger := log.FromContext(ctx)
	start := time.Now()
	changed := r.Scheduler.Swap(logger, next)
	if !reload {
		logger.Info("Changed the weights of canaries")
		return
	}
	r.Groups.SetProfiles(sets.New(next.Names()...))
	metrics.ReloadSwapDuration.Observe(time.Since(start).Seconds())
	metrics.Reloads.WithLabelValues(metrics.ReloadSucceeded).Inc()
	metrics.Profiles.Set(float64(next.Len()))
	logger.Info("Swapped in profiles", "schedulerNames", slices.Sorted(maps.Keys(changed)), "duration",
		time.Since(start))
}
