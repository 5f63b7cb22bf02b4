// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// placements compares by simulation, at the beginning of each stage and step of a roll-out,
// where its two revisions would place pods. Simulations run one at a time in goroutines of their
// own, and request another pass when they end.
type placements struct {
	simulate simulation
	done     func()

	mu sync.Mutex // guards the fields below
	// busy is true while a simulation runs.
	busy bool
	// latest are the latest simulations by the UIDs of the objects.
	latest map[types.UID]placement
}

// placementTimeout is how long a simulation may take.
const placementTimeout = time.Minute

// simulation is Scheduler.Placement.
type simulation func(context.Context, *resolve.Profile, int) (*v1alpha1.RolloutPlacement, error)

// placement is the simulation of a step.
type placement struct {
	of simulatedStep
	// result is nil if the simulation failed.
	result *v1alpha1.RolloutPlacement
}

// simulatedStep identifies a step of a roll-out.
type simulatedStep struct {
	revision string
	stage    rollout.Stage
	step     int
}

func newPlacements(simulate simulation, done func()) *placements {
	return &placements{simulate: simulate, done: done, latest: map[types.UID]placement{}}
}

// of returns the latest simulation of a roll-out, nil if there is none, and begins the one of its
// present step unless it has been made. A simulation ends with ctx.
func (p *placements) of(ctx context.Context, o *rolloutOf) *v1alpha1.RolloutPlacement {
	p.mu.Lock()
	defer p.mu.Unlock()
	candidate := o.candidate
	wanted := simulatedStep{revision: o.canary, stage: o.state.Stage, step: o.state.Step}
	known := p.latest[candidate.UID]
	result := known.result
	if known.of.revision != wanted.revision {
		result = nil
	}
	if known.of == wanted || p.busy || o.state.Ended() || o.plan.PlacementPods == 0 {
		return result
	}
	p.busy = true
	go func() {
		next, err := p.run(ctx, candidate, o.plan.PlacementPods)
		if err != nil {
			log.FromContext(ctx).Info("Could not simulate a roll-out", "profile", candidate.Name, "err", err)
		}
		p.mu.Lock()
		p.busy, p.latest[candidate.UID] = false, placement{wanted, next}
		p.mu.Unlock()
		p.done()
	}()
	return result
}

// run returns an error instead of a panic: plugins of users are called.
func (p *placements) run(ctx context.Context, candidate *resolve.Profile,
	pods int) (result *v1alpha1.RolloutPlacement, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, placementTimeout)
	defer cancel()
	return p.simulate(ctx, candidate, pods)
}

// keep forgets all simulations but those of these objects.
func (p *placements) keep(under rollouts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.latest, func(uid types.UID, _ placement) bool { return under[uid] == nil })
}
