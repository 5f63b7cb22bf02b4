// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
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
	// instances are swapped in together, and running is what status says of them: one entry in each
	// for every profile that decides from now on.
	instances map[string]*profile.Instance
	running   map[string]*running
	// failed are the builds that failed. What ran before under the name, if anything, runs on.
	failed map[string]error
	// pending are the builds that have not ended, and those that wait for such a one, with what
	// there is to say of them. What ran before under the name, if anything, runs on.
	pending map[string]string
}

// running is a profile that decides.
type running struct {
	// config is what the instance stands for: what it was built from, or a later one of the same
	// revision.
	config *config.Profile
	// built is when the instance was built, plugins what it runs at each extension point.
	built   time.Time
	plugins *schedconfig.Plugins
}

func (p *programmed) run(instance *profile.Instance, cfg *config.Profile) {
	p.instances[cfg.SchedulerName] = instance
	p.running[cfg.SchedulerName] = &running{config: cfg, built: instance.Built, plugins: instance.Plugins()}
}

// program builds the profiles whose revision is not the one that runs, and swaps in together all
// that are built. A profile that cannot be built is left as it is; one that takes long to build is
// left as it is until it is built. Neither holds up the others. It returns nil, and has changed
// nothing, if ctx has ended.
func (r *ProfileReconciler) program(ctx context.Context, resolution *config.Resolution) *programmed {
	r.attempts.builds.begin(resolution.Profiles)
	current := r.Store.Current()
	result := &programmed{
		instances: map[string]*profile.Instance{}, running: map[string]*running{},
		failed: map[string]error{}, pending: map[string]string{},
	}
	built := map[string]*build{}
	for _, name := range slices.Sorted(maps.Keys(resolution.Profiles)) {
		cfg, instance := resolution.Profiles[name], current.Get(name)
		if instance != nil && instance.Config.Revision == cfg.Revision {
			r.attempts.builds.giveUp(name)
			result.run(instance, cfg)
			continue
		}
		switch u, err := r.build(ctx, &r.attempts, cfg); {
		case err != nil:
			result.failed[name] = err
		case u == nil:
			result.pending[name] = "is still being built"
		default:
			built[name] = u
		}
	}
	held := r.holdTogether(resolution, result, built)
	r.buildStandIns(ctx, resolution, result, built)
	if !r.takeAll(ctx, resolution, result, built) {
		return nil
	}
	for name := range resolution.Profiles {
		if instance := current.Get(name); instance != nil && result.instances[name] == nil {
			result.run(instance, r.deciding[name])
		}
	}
	r.attempts.failing.keep(result)
	r.standIns.failing.keep(result)
	sorter := result.sorter(resolution, r.deciding[r.sortedBy], held)
	r.swap(ctx, current, profile.NewMap(result.instances, sorter))
	r.sortedBy = sorter
	r.deciding = make(map[string]*config.Profile, len(result.running))
	for name, p := range result.running {
		r.deciding[name] = p.config
	}
	return result
}

// holdTogether keeps profiles that change the order of the queue together from changing one after
// the other: while one of them is being built, those that are built become pending, too. It returns
// whether there are such profiles.
func (r *ProfileReconciler) holdTogether(resolution *config.Resolution, result *programmed, built map[string]*build) bool {
	reorders := func(name string) bool {
		before := r.deciding[name]
		return before != nil && before.QueueSort != resolution.Profiles[name].QueueSort
	}
	for _, late := range slices.Sorted(maps.Keys(result.pending)) {
		if !reorders(late) {
			continue
		}
		for name := range built {
			if reorders(name) {
				delete(built, name)
				result.pending[name] = fmt.Sprintf("is built, and waits for the profile of scheduler name %q, which changes the order of the queue at the same time", late)
			}
		}
		return true
	}
	return false
}

// buildStandIns builds the last good revisions of profiles that cannot be built and of which none
// runs: livesched was restarted, and what ran before that is to run on.
func (r *ProfileReconciler) buildStandIns(ctx context.Context, resolution *config.Resolution, result *programmed, built map[string]*build) {
	wanted := map[string]*config.Profile{}
	for name := range result.failed {
		if before := resolution.Before(name); before != nil && r.Store.Current().Get(name) == nil {
			wanted[name] = before
		}
	}
	r.standIns.builds.begin(wanted)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if u, err := r.build(ctx, &r.standIns, wanted[name]); u != nil && err == nil {
			u.standIn = wanted[name]
			built[name] = u
		}
	}
}

// triedAll says whether every profile was built, or failed to be, at least once, and so was what
// stands in for it.
func (r *ProfileReconciler) triedAll(p *programmed) bool {
	for name := range p.pending {
		if r.attempts.failing[name] == nil {
			return false
		}
	}
	return len(r.standIns.builds.underWay) == 0
}

// takeAll takes what is built. It returns false if the process ends.
func (r *ProfileReconciler) takeAll(ctx context.Context, resolution *config.Resolution, result *programmed, built map[string]*build) bool {
	logger := log.FromContext(ctx)
	ending := ctx.Err() != nil
	var taken []*build
	for _, name := range slices.Sorted(maps.Keys(built)) {
		if ending {
			break
		}
		if u := built[name]; u.of.take(u) {
			taken = append(taken, u)
		} else {
			ending = true
		}
	}
	for _, u := range taken {
		if ending {
			u.profile.Discard(logger)
			continue
		}
		name := u.cfg.SchedulerName
		cfg := resolution.Profiles[name]
		if u.standIn != nil {
			cfg = u.standIn
		}
		result.run(u.profile, cfg)
		metrics.ReloadBuildDuration.Observe(u.took.Seconds())
		logger.Info("Built a profile", "schedulerName", name, "revision", u.cfg.Revision, "generation", u.cfg.Generation, "duration", u.took)
	}
	return !ending
}

// sorter is the scheduler name of the profile whose queue sort orders the queue: the one that has
// its way or, if that could not be built, one that asks for the same order. Otherwise, and while
// profiles are held that are to change the order together, the queue stays in the order that it is
// in. last is what ordered it until now, nil at first.
func (p *programmed) sorter(resolution *config.Resolution, last *config.Profile, held bool) string {
	first := resolution.SortedBy
	if first == "" {
		return ""
	}
	if !held {
		if p.failed[first] == nil && p.pending[first] == "" {
			return first
		}
		if name := p.sorting(resolution.Profiles[first].QueueSort); name != "" {
			return name
		}
	}
	if last != nil {
		if now := p.running[last.SchedulerName]; now != nil && now.config.QueueSort == last.QueueSort {
			return last.SchedulerName
		}
		if name := p.sorting(last.QueueSort); name != "" {
			return name
		}
	}
	if p.running[first] != nil || len(p.running) == 0 {
		return first
	}
	return slices.Min(slices.Collect(maps.Keys(p.running)))
}

// sorting is the first scheduler name whose profile asks for an order of the queue, "" if there is
// none.
func (p *programmed) sorting(order config.QueueSort) string {
	for _, name := range slices.Sorted(maps.Keys(p.running)) {
		if p.running[name].config.QueueSort == order {
			return name
		}
	}
	return ""
}

// build returns the build of a profile once it has succeeded, nil while it is under way, and an
// error if it failed, or has failed so recently that it is not to be tried again yet.
func (r *ProfileReconciler) build(ctx context.Context, a *attempts, cfg *config.Profile) (*build, error) {
	logger := log.FromContext(ctx).WithValues("schedulerName", cfg.SchedulerName, "revision", cfg.Revision, "generation", cfg.Generation)
	u := a.builds.underWay[cfg.SchedulerName]
	if u == nil {
		if err := a.failing.pending(cfg, r.Clock.Now()); err != nil {
			return nil, err
		}
		a.failing.begin(cfg)
		u = a.builds.start(log.IntoContext(ctx, logger), cfg, r.Build)
	}
	known := u.aside
	switch {
	case a.builds.await(u) && u.err != nil:
		a.builds.giveUp(cfg.SchedulerName)
		a.failing.note(cfg, u.err, r.Clock.Now())
		if ctx.Err() == nil {
			metrics.Reloads.WithLabelValues(metrics.ReloadFailed).Inc()
			logger.Error(u.err, "Building a profile failed; what ran before runs on")
		}
		return nil, u.err
	case u.ended():
		return u, nil
	case !known && ctx.Err() == nil:
		logger.Info("Building a profile takes long; going on with the others")
	}
	return nil, nil
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
