// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

// countInterval is the interval between two requests for the numbers of pending pods.
const countInterval = 2 * time.Second

// statusFollower follows the status.
type statusFollower struct {
	*statusOptions
	names   []string
	changes *objectFollower[*print.Status]

	mu   sync.Mutex // guards the rest
	pods pendingPods
}

// follow follows the status until the context is done. It watches profiles and policies, and asks
// for the numbers of pods at a fixed interval.
func (o *statusOptions) follow(ctx context.Context, config *rest.Config, names []string, last *print.Status,
	pods pendingPods) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	f := &statusFollower{statusOptions: o, names: names, pods: pods}
	f.changes = &objectFollower[*print.Status]{options: o.options, output: o.output, take: f.take, last: last,
		print: func(report *print.Status) (done bool, err error) { return false, o.print(report) }}
	running.Go(func() { _ = wait.PollUntilContextCancel(ctx, countInterval, false, f.count) })
	return f.changes.follow(ctx, config, &v1alpha1.SchedulerProfile{}, &v1alpha1.SchedulingPolicy{})
}

// count reads the numbers of pods.
func (f *statusFollower) count(ctx context.Context) (done bool, err error) {
	pods := f.countPods(ctx, &f.livesched)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods = pods
	return false, nil
}

// take returns the present status. If a profile is gone, it reports that, and returns the last one.
func (f *statusFollower) take(ctx context.Context, objects client.Reader) (*print.Status, error) {
	report, err := readStatus(ctx, objects, f.names)
	if err != nil {
		f.changes.report(err)
		return f.changes.last, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	report.SetPods(f.pods.byProfile, f.pods.unknown)
	return report, nil
}
