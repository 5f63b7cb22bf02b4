// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/hack/bench/cluster"
)

// changeEvery is the time between two measured changes of the profile, unless one takes longer.
const changeEvery = 200 * time.Millisecond

// reported measures changes until the status reports them: while pods are being bound, and while
// many other profiles change.
func (b *bench) reported(ctx context.Context) error {
	if b.reportedFor > 0 {
		if err := b.reportedWhileBinding(ctx); err != nil {
			return err
		}
	}
	for _, c := range []crowd{{policies: 1, profiles: b.crowd}, {policies: max(1, b.crowd/5), profiles: b.crowd}} {
		if b.crowd == 0 {
			return nil
		}
		if err := b.reportedBeside(ctx, &c); err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
	}
	return nil
}

// reportedWhileBinding measures changes while pods are bound as fast as possible.
func (b *bench) reportedWhileBinding(ctx context.Context) (err error) {
	b.Pods.Reset()
	stop := b.feed(ctx, b.pods)
	defer func() {
		_, stopErr := stop()
		err = errors.Join(err, stopErr)
	}()
	if err := b.Pods.Wait(ctx, func(p *cluster.Pods) bool { return p.Bound > 0 && p.Known >= b.pods }); err != nil {
		return err
	}
	end := time.After(b.reportedFor)
	if _, err := b.measureChanges(ctx, "pods are bound", end); err != nil {
		return err
	}
	created, err := stop()
	if err != nil {
		return err
	}
	return b.allBound(ctx, created)
}

// crowd is a set of profiles, in equal parts on policies.
type crowd struct{ policies, profiles int }

func (c *crowd) name() string {
	return fmt.Sprintf("%d profiles on %d policies", c.profiles, c.policies)
}

func (c *crowd) policy(i int) *v1alpha1.SchedulingPolicy {
	return &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("crowd-%d-%04d", c.policies, i)}}
}

func (c *crowd) profile(i int) *v1alpha1.SchedulerProfile {
	p := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("crowd-%d-%04d", c.policies, i)}}
	p.Spec.PolicyRef.Name = c.policy(i % c.policies).Name
	return p
}

func (c *crowd) profileNames() (names []string) {
	for i := range c.profiles {
		names = append(names, c.profile(i).Name)
	}
	return names
}

// reportedBeside creates a crowd, changes all its policies, and deletes it. It measures how long
// that takes, and changes of another profile meanwhile.
func (b *bench) reportedBeside(ctx context.Context, c *crowd) error {
	create := func() error {
		err := cluster.Each(ctx, c.policies,
			func(ctx context.Context, i int) error { return b.client.Create(ctx, c.policy(i)) })
		if err != nil {
			return err
		}
		return cluster.Each(ctx, c.profiles,
			func(ctx context.Context, i int) error { return b.client.Create(ctx, c.profile(i)) })
	}
	if err := b.measureCrowd(ctx, c, "created", 1, create); err != nil {
		return err
	}
	change := func() error {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"parallelism":7}}`))
		return cluster.Each(ctx, c.policies,
			func(ctx context.Context, i int) error { return b.client.Patch(ctx, c.policy(i), patch) })
	}
	if err := b.measureCrowd(ctx, c, "changed by their policies", 2, change); err != nil {
		return err
	}
	return b.disperse(ctx, c)
}

// measureCrowd measures how long it takes until the statuses of a crowd report a change that do
// makes, and changes of another profile meanwhile.
func (b *bench) measureCrowd(ctx context.Context, c *crowd, what string, policyGeneration int64,
	do func() error) error {
	beside := fmt.Sprintf("%s are %s", c.name(), what)
	began := time.Now()
	var last, written time.Time
	var err error
	done := make(chan time.Time)
	go func() {
		defer close(done)
		if err = do(); err == nil {
			written = time.Now()
			last, err = b.statuses.wait(ctx, c.profileNames(), 1, policyGeneration)
		}
	}()
	changes, measureErr := b.measureChanges(ctx, beside, done)
	<-done
	if err := errors.Join(err, measureErr); err != nil {
		return err
	}
	total := last.Sub(began)
	fmt.Fprintf(os.Stderr, "%s: written after %v, all programmed after %v; %d changes beside\n", beside,
		written.Sub(began).Round(time.Millisecond), total.Round(time.Millisecond), changes)
	return b.report.Add(map[string]string{"while": beside},
		map[string]float64{allProgrammed: total.Seconds(), allWritten: written.Sub(began).Seconds()})
}

// disperse deletes a crowd and waits until its profiles are gone.
func (b *bench) disperse(ctx context.Context, c *crowd) error {
	err := cluster.Each(ctx, c.profiles,
		func(ctx context.Context, i int) error { return b.client.Delete(ctx, c.profile(i)) })
	if err != nil {
		return err
	}
	err = cluster.Each(ctx, c.policies,
		func(ctx context.Context, i int) error { return b.client.Delete(ctx, c.policy(i)) })
	if err != nil {
		return err
	}
	return b.until(ctx, "the profiles are gone",
		func() bool { return b.running.Scheduler.Store().Current().Len() == b.profiles })
}

// measureChanges changes the profile until end, and records when each change was swapped in and
// when the status reported it. It returns the number of changes.
func (b *bench) measureChanges(ctx context.Context, while string, end <-chan time.Time) (changes int, err error) {
	for pace := time.Tick(changeEvery); ; {
		select {
		case <-end:
			return changes, nil
		case <-b.running.Done():
			return changes, errors.New("livesched has ended")
		case <-ctx.Done():
			return changes, context.Cause(ctx)
		case <-pace:
		}
		sent, generation, err := b.change(ctx)
		if err != nil {
			return changes, err
		}
		returned := time.Now()
		if err := b.until(ctx, "the change is swapped in", func() bool {
			return b.running.Scheduler.Store().Current().Get(cluster.SchedulerName).Config.Generation >= generation
		}); err != nil {
			return changes, err
		}
		swapped := time.Now()
		reported, err := b.statuses.wait(ctx, []string{cluster.SchedulerName}, generation, 0)
		if err != nil {
			return changes, err
		}
		changes++
		err = b.report.Add(map[string]string{"while": while}, map[string]float64{
			request: milliseconds(returned.Sub(sent)), swappedIn: milliseconds(swapped.Sub(sent)),
			statusReported: milliseconds(reported.Sub(sent)),
		})
		if err != nil {
			return changes, err
		}
	}
}
