// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/livesched/livesched/hack/bench/cluster"
)

// A run may take runTimeout, and timeoutPerStuck for each pod of a backlog: slower schedulers
// refuse some twenty a second.
const (
	runTimeout      = 10 * time.Minute
	timeoutPerStuck = 60 * time.Millisecond
)

// bench is a cluster on which contenders are measured.
type bench struct {
	*cluster.Cluster
	options *options
	// dir is the directory for the contenders' files.
	dir string
	// kubeScheduler is the path of kube-scheduler.
	kubeScheduler string
	// gates are the flags of kube-scheduler for the scenario that is being measured.
	gates []string
}

// outcome is the result of a run.
type outcome struct {
	// started is the time at which the contender was started, or was known to work.
	started time.Time
	// measured are the pods that the figures are about.
	measured map[string]cluster.Pod
	// gangs is how long each gang took, in the order in which they began.
	gangs []time.Duration
	// scheduler is the usage of the contender: its CPU time and decisions since started, and its
	// peak memory.
	scheduler usage
	// api is the CPU time that API server and etcd used since started.
	api time.Duration
	// questions are the figures of windows with and without questions.
	questions map[string]float64
}

// measure runs a scenario with a contender, and deletes the pods.
func (b *bench) measure(ctx context.Context, kind, name string) (map[string]float64, error) {
	s := scenarios[kind]
	timeout := runTimeout
	if s.beside {
		timeout += time.Duration(b.options.backlog) * timeoutPerStuck
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %v", timeout))
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	b.Pods.Reset()
	pods := s.pods(b.Nodes, b.options.pods)
	if s.filled {
		if err := b.fill(ctx); err != nil {
			return nil, err
		}
	}
	b.gates = s.gates()
	start, err := contenders[name](ctx, b)
	if err != nil {
		return nil, err
	}
	var o *outcome
	launch := func() (running, error) { return start(fail) }
	switch {
	case s.running:
		o, err = b.whileRunning(ctx, pods, launch)
	case s.gangs:
		o, err = b.scheduleGangs(ctx, pods, s, launch)
	case s.beside:
		o, err = b.besideBacklog(ctx, pods, launch)
	default:
		o, err = b.withBacklog(ctx, pods, s, launch)
	}
	if err != nil {
		return nil, err
	}
	return o.values(s), b.DeletePods(ctx)
}

// withBacklog starts the contender when all pods wait.
func (b *bench) withBacklog(ctx context.Context, pods []*corev1.Pod, s scenario,
	start func() (running, error)) (o *outcome, err error) {
	if err := b.createBacklog(ctx, pods); err != nil {
		return nil, err
	}
	refused := 0
	if s.refused != nil {
		refused = s.refused(b.options.pods)
	}
	before, err := b.CPU()
	if err != nil {
		return nil, err
	}
	o = &outcome{started: time.Now()}
	r, err := start()
	if err != nil {
		return nil, err
	}
	err = b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return p.Bound == len(pods)-refused && p.Refused >= refused })
	return o, b.finish(o, r, err, usage{}, before)
}

// whileRunning creates and deletes pods once the contender is known to work.
func (b *bench) whileRunning(ctx context.Context, pods []*corev1.Pod, start func() (running, error)) (*outcome, error) {
	return b.afterBacklog(ctx, pods[:1], start, func() error {
		if err := b.churn(ctx, pods[1:]); err != nil {
			return err
		}
		return b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return p.Bound == len(pods)-1 })
	})
}

// besideBacklog creates the pods once the contender has refused all pods of a backlog.
func (b *bench) besideBacklog(ctx context.Context, pods []*corev1.Pod,
	start func() (running, error)) (*outcome, error) {
	stuck := stuckPods(b.options.backlog, b.options.backlogJobs)
	return b.afterBacklog(ctx, append(stuck, pods[0]), start, func() error {
		err := cluster.Each(ctx, len(pods)-1,
			func(ctx context.Context, i int) error { return b.Create(ctx, pods[i+1]) })
		if err != nil {
			return fmt.Errorf("creating the pods: %w", err)
		}
		return b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return p.Bound == len(pods)-1 })
	})
}

// afterBacklog measures work that begins once the contender has bound the last pod of a backlog and
// refused the others. The result has no pod of the backlog.
func (b *bench) afterBacklog(ctx context.Context, backlog []*corev1.Pod, start func() (running, error),
	work func() error) (o *outcome, err error) {
	if err := b.createBacklog(ctx, backlog); err != nil {
		return nil, err
	}
	r, err := start()
	if err != nil {
		return nil, err
	}
	o = &outcome{}
	var used usage
	var before time.Duration
	err = func() error {
		err := b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return p.Bound == 1 && p.Refused == len(backlog)-1 })
		if err != nil {
			return err
		}
		if err := awaitIdle(ctx, r); err != nil {
			return err
		}
		b.Pods.Reset()
		o.started = time.Now()
		if used, err = r.usage(); err != nil {
			return err
		}
		if before, err = b.CPU(); err != nil {
			return err
		}
		return work()
	}()
	if err := b.finish(o, r, err, used, before); err != nil {
		return nil, err
	}
	for _, pod := range backlog {
		delete(o.measured, pod.Name) // seen again if its status was written since
	}
	return o, nil
}

// awaitIdle waits until the contender uses less than a tenth of a core for two seconds: until then
// it may still be writing Events about the backlog.
func awaitIdle(ctx context.Context, r running) error {
	const interval = 2 * time.Second
	before, err := r.usage()
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, interval, false, func(context.Context) (bool, error) {
		now, err := r.usage()
		idle := now.CPU-before.CPU < interval/10
		before = now
		return idle, err
	})
}

// finish records the usage and stops the contender. err is the result of the run.
func (b *bench) finish(o *outcome, r running, err error, used usage, before time.Duration) error {
	after, apiErr := b.CPU()
	now, usageErr := r.usage()
	if err := errors.Join(err, apiErr, usageErr, r.stop()); err != nil {
		return err
	}
	o.api = after - before
	o.scheduler = usage{
		Usage:     cluster.Usage{CPU: now.CPU - used.CPU, PeakRSS: now.PeakRSS},
		decisions: now.decisions.since(used.decisions),
	}
	if q, ok := r.(questioned); ok {
		o.questions = q.figures()
	}
	o.measured = b.Pods.Seen()
	return nil
}
