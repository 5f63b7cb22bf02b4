// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// backlog is how many pods wait while the load lasts.
	backlog = 1000
	// reloadEvery is the time between two reloads under load.
	reloadEvery = time.Second
)

// load is a time of scheduling.
type load struct {
	reloads       int
	podsPerSecond float64
}

// loads schedules for a time without reloads and with one every second, in turn.
func (r *reloads) loads(ctx context.Context) ([]load, error) {
	var all []load
	for run := range 2 * r.runs {
		// Who comes first alternates, too, as the control plane gets slower with what it has stored.
		l, err := r.load(ctx, run%4 == 1 || run%4 == 2)
		if err != nil {
			return all, fmt.Errorf("run %d under load: %w", run+1, err)
		}
		fmt.Fprintf(os.Stderr, "run %d under load: %d reloads, %.0f pods/s\n", run+1, l.reloads, l.podsPerSecond)
		all = append(all, l)
	}
	return all, nil
}

// load keeps pods waiting for as long as the run lasts, counts what is bound, and then waits until all of them are.
func (r *reloads) load(ctx context.Context, reload bool) (l load, err error) {
	r.pods.reset()
	stop := r.feed(ctx, backlog)
	defer func() {
		_, stopErr := stop()
		err = errors.Join(err, stopErr)
	}()
	if err := r.pods.wait(ctx, func(p *watchedPods) bool { return p.bound > 0 && p.known >= backlog }); err != nil {
		return l, err
	}
	began, before := time.Now(), r.pods.boundNow()
	end := time.After(r.length)
	for every := time.Tick(reloadEvery); ; {
		select {
		case <-every:
			if !reload {
				continue
			}
			if _, err := r.change(ctx); err != nil {
				return l, err
			}
			l.reloads++
			continue
		case <-r.running.Done():
			return l, errors.New("livesched has ended")
		case <-ctx.Done():
			return l, context.Cause(ctx)
		case <-end:
		}
		break
	}
	l.podsPerSecond = float64(r.pods.boundNow()-before) / time.Since(began).Seconds()
	created, err := stop()
	if err != nil {
		return l, err
	}
	return l, r.allBound(ctx, created)
}

// allBound waits until as many pods are bound as were created, and deletes them.
func (r *reloads) allBound(ctx context.Context, created int) error {
	waiting, cancel := context.WithTimeoutCause(ctx, runTimeout, errors.New("pods are lost: not all are bound"))
	defer cancel()
	if err := r.pods.wait(waiting, func(p *watchedPods) bool { return p.bound >= created }); err != nil {
		return err
	}
	if bound := r.pods.boundNow(); bound != created {
		return fmt.Errorf("%d pods were bound %d times", created, bound)
	}
	return r.deletePods(ctx)
}

// feed creates pods such that some always wait, until stop is called, which returns how many there are. It may be called
// again.
func (r *reloads) feed(ctx context.Context, waiting int) (stop func() (created int, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	var created int
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		created, err = r.create(ctx, waiting)
	}()
	return func() (int, error) {
		cancel()
		<-done
		return created, err
	}
}

// create creates pods whenever fewer than that wait, until ctx ends, and returns how many there are.
func (r *reloads) create(ctx context.Context, waiting int) (created int, err error) {
	const batch = 50
	for {
		err := r.pods.wait(ctx, func(p *watchedPods) bool { return created-p.bound < waiting })
		if err != nil || ctx.Err() != nil {
			return created, nil // the time is up
		}
		// A batch is created as a whole, so that it is known how many there are.
		err = r.each(context.WithoutCancel(ctx), batch, func(ctx context.Context, i int) error {
			_, err := r.bench.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, podOf(r.workload, created+i), metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return created, err
		}
		created += batch
	}
}

// boundNow is how many pods were bound since the last reset.
func (p *watchedPods) boundNow() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound
}

func printLoads(loads []load) {
	rates := map[bool][]float64{}
	reloads := 0
	for _, l := range loads {
		rates[l.reloads > 0] = append(rates[l.reloads > 0], l.podsPerSecond)
		reloads += l.reloads
	}
	without, with := quantile(rates[false], 0.5), quantile(rates[true], 0.5)
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pods/s, median of runs in turn\truns")
	fmt.Fprintf(w, "without reloads\t%.0f\t%.0f\n", without, rates[false])
	fmt.Fprintf(w, "a reload every second (%d)\t%.0f\t%.0f\n", reloads, with, rates[true])
	fmt.Fprintf(w, "ratio\t%.3f\n", with/without)
	_ = w.Flush()
	fmt.Println("every pod of these runs was bound, and once")
}

// quantile is the value that a share of the others does not exceed; that of 1 is the largest.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(math.Ceil(share*float64(len(sorted))))-1, len(sorted)-1)]
}
