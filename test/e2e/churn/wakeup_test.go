// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// lostWakeups lists the pods that wait although they would fit, according to plugins built for this
// check from the configuration of the running profile, on a snapshot of the API server's state. It
// does not check whether a pod could preempt others: as upstream, no event reports a new possible
// victim.
func (w *world) lostWakeups(ctx context.Context, leader *replica, t *truth) (found findings) {
	pending := t.pending(leader.serves())
	if len(pending) == 0 {
		return nil
	}
	o, err := newOracle(ctx, w, leader, t)
	if err != nil {
		found.add("asking the plugins: %v", err)
		return found
	}
	defer o.close()
	for p := range leader.Scheduler.Store().Current().All() {
		f, err := o.profile(ctx, p)
		if err != nil {
			found.add("building profile %s anew: %v", p.SchedulerName(), err)
			continue
		}
		for _, pod := range pending {
			if pod.Spec.SchedulerName != p.SchedulerName() || isGated(pod) || pod.Labels[holdLabel] != "" {
				continue
			}
			result, err := o.decider.Decide(ctx, algorithm.Params{Framework: f}, schedframework.NewCycleState(), pod)
			var unfit *schedframework.FitError
			switch {
			case errors.As(err, &unfit), errors.Is(err, algorithm.ErrNoNodesAvailable):
				w.counts.add("pods found to wait rightly", 1)
				continue
			case err != nil:
				found.add("asking the plugins about pod %s: %v", describe(pod), err)
				continue
			}
			state, waits := leader.Parts().Queue.Get(pod.UID)
			if !waits {
				found.add("pod %s does not wait any more", describe(pod))
				continue
			}
			found.add("LOST WAKE-UP: pod %s would fit on %s (and %d more nodes). Queue: %s. Condition: %+v",
				describe(pod), result.SuggestedHost,
				result.FeasibleNodes-1, describeState(state), scheduled(pod))
		}
	}
	return found
}

// oracle runs plugins beside a livesched, on its own snapshot.
type oracle struct {
	env     *profile.Environment
	decider *algorithm.Decider
	closers []func()
}

func newOracle(ctx context.Context, w *world, leader *replica, t *truth) (o *oracle, err error) {
	o = &oracle{}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	logger := klog.FromContext(ctx)
	nodes, snapshot := cache.New(), cache.NewSnapshot()
	for i := range t.nodes {
		nodes.AddNode(logger, &t.nodes[i])
	}
	for i := range t.pods {
		if pod := &t.pods[i]; occupies(pod) {
			if err := nodes.AddPod(logger, pod); err != nil {
				return o, err
			}
		}
	}
	if err := nodes.UpdateSnapshot(logger, snapshot); err != nil {
		return o, err
	}
	registry, err := plugins.NewRegistry(w.script.registry())
	if err != nil {
		return o, err
	}
	client, err := kubernetes.NewForConfig(w.cluster.Config)
	if err != nil {
		return o, err
	}
	scope := leader.Informers.NewScope()
	o.closers = append(o.closers, scope.Close)
	ctx, cancel := context.WithCancel(ctx)
	o.closers = append(o.closers, cancel)
	o.env, err = profile.NewEnvironment(ctx, profile.Dependencies{
		Registry:      registry,
		Client:        client,
		KubeConfig:    w.cluster.Config,
		Informers:     leader.Informers,
		Scope:         scope,
		Cache:         nodes,
		Snapshot:      snapshot,
		Queue:         leader.Parts().Queue,
		Nominator:     leader.Parts().Queue.Nominator(),
		WaitingPods:   framework.NewWaitingPods(),
		PodsInPreBind: framework.NewPodsInPreBind(),
		Recorder:      func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		EventSources:  profile.NoSources{},
	})
	if err != nil {
		return o, err
	}
	if err := scope.WaitForSync(ctx); err != nil {
		return o, err
	}
	o.decider = algorithm.New(algorithm.Config{Snapshot: snapshot})
	return o, nil
}

// profile builds another instance of a profile's plugins.
func (o *oracle) profile(ctx context.Context, of *profile.Instance) (*framework.Framework, error) {
	p, err := profile.NewBuilder(o.env, 0, clock.RealClock{}).Build(ctx, of.Config)
	if err != nil {
		return nil, fmt.Errorf("building: %w", err)
	}
	o.closers = append(o.closers, func() {
		p.Discard(logr.Discard())
		<-p.Closed()
	})
	return p.Framework, nil
}

func (o *oracle) close() {
	for i := len(o.closers) - 1; i >= 0; i-- {
		o.closers[i]()
	}
}
