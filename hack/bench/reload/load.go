// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/livesched/livesched/hack/bench/cluster"
)

const (
	// backlog is the number of pods that wait while the load lasts.
	backlog = 1000
	// reloadEvery is the time between two reloads under load.
	reloadEvery = time.Second
)

// window is the time for which pods are scheduled with or without reloads before the two swap.
const window = 6 * time.Second

// load holds the figures of one window.
type load struct {
	reloads       int
	podsPerSecond float64
}

// loads measures throughput without reloads and with a reload every second, in alternating windows
// of some seconds. They alternate because a control plane slows down as it stores more, and that
// costs more throughput than a reload does.
func (b *bench) loads(ctx context.Context) error {
	for run := range b.runs {
		if err := b.loadRun(ctx); err != nil {
			return fmt.Errorf("run %d under load: %w", run+1, err)
		}
	}
	return nil
}

// loadRun keeps pods waiting until the run ends, and then waits until all of them are bound.
func (b *bench) loadRun(ctx context.Context) (err error) {
	b.Pods.Reset()
	stop := b.feed(ctx, backlog)
	defer func() {
		_, stopErr := stop()
		err = errors.Join(err, stopErr)
	}()
	if err := b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return p.Bound > 0 && p.Known >= backlog }); err != nil {
		return err
	}
	for i := range max(2, int(2*b.length/window)) {
		// The order within a pair of windows alternates, too.
		reload := i%4 == 1 || i%4 == 2
		l, err := b.load(ctx, reload)
		if err != nil {
			return err
		}
		labels := map[string]string{"load": withoutReloads}
		if reload {
			labels["load"] = withReloads
		}
		fmt.Fprintf(os.Stderr, "%s: %.0f pods/s, %d reloads\n", labels["load"], l.podsPerSecond, l.reloads)
		if err := b.report.Add(labels,
			map[string]float64{podsPerSecond: l.podsPerSecond, reloads: float64(l.reloads)}); err != nil {
			return err
		}
	}
	created, err := stop()
	if err != nil {
		return err
	}
	return b.allBound(ctx, created)
}

// load counts the pods that are bound in one window.
func (b *bench) load(ctx context.Context, reload bool) (l load, err error) {
	began, before := time.Now(), b.Pods.BoundNow()
	end := time.After(window)
	for every := time.Tick(reloadEvery); ; {
		select {
		case <-every:
			if !reload {
				continue
			}
			if _, _, err := b.change(ctx); err != nil {
				return l, err
			}
			l.reloads++
			continue
		case <-b.running.Done():
			return l, errors.New("livesched has ended")
		case <-ctx.Done():
			return l, context.Cause(ctx)
		case <-end:
		}
		break
	}
	l.podsPerSecond = float64(b.Pods.BoundNow()-before) / time.Since(began).Seconds()
	return l, nil
}

// allBound waits until as many pods are bound as were created, and deletes them.
func (b *bench) allBound(ctx context.Context, created int) error {
	waiting, cancel := context.WithTimeoutCause(ctx, runTimeout, errors.New("pods are lost: not all are bound"))
	defer cancel()
	if err := b.Pods.Wait(waiting, func(p *cluster.Pods) bool { return p.Bound >= created }); err != nil {
		return err
	}
	return b.DeletePods(ctx)
}

// feed creates pods until stop is called, so that some always wait. stop returns the number of
// created pods and may be called again.
func (b *bench) feed(ctx context.Context, waiting int) (stop func() (created int, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	var created int
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		created, err = b.create(ctx, waiting)
	}()
	return func() (int, error) {
		cancel()
		<-done
		return created, err
	}
}

// create creates pods whenever fewer than waiting are unbound, until ctx ends, and returns their
// number.
func (b *bench) create(ctx context.Context, waiting int) (created int, err error) {
	const batch = 50
	for {
		err := b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return created-p.Bound < waiting })
		if err != nil || ctx.Err() != nil {
			return created, nil // the time is up
		}
		// A batch is always completed, so that the number of created pods is known.
		err = cluster.Each(context.WithoutCancel(ctx), batch,
			func(ctx context.Context, i int) error { return b.Create(ctx, b.podOf(created+i)) })
		if err != nil {
			return created, err
		}
		created += batch
	}
}
