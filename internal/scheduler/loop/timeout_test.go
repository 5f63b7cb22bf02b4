// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// slow is a plugin that takes some time at one extension point, or until its context ends.
type slow struct {
	point string
	takes time.Duration // 0: until its context ends
	// unreserved is the error of the context that Unreserve got.
	unreserved error
}

func (*slow) Name() string { return "Slow" }

func (s *slow) at(ctx context.Context, point string) *fwk.Status {
	switch {
	case point != s.point:
		return nil
	case s.takes > 0:
		<-time.After(s.takes)
		return nil
	}
	<-ctx.Done()
	return fwk.AsStatus(ctx.Err())
}

func (s *slow) Filter(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ fwk.NodeInfo) *fwk.Status {
	return s.at(ctx, "Filter")
}

func (s *slow) Reserve(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ string) *fwk.Status {
	return s.at(ctx, "Reserve")
}

func (s *slow) Permit(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.Status, time.Duration) {
	if s.point == "Permit" {
		return fwk.NewStatus(fwk.Wait), time.Minute
	}
	return nil, 0
}

func (s *slow) Unreserve(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ string) {
	s.unreserved = ctx.Err()
}

func TestASchedulingCycleThatTakesTooLongFails(t *testing.T) {
	metrics.Register()
	for _, point := range []string{"Filter", "Reserve"} {
		t.Run(point, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plugin := &slow{point: point, unreserved: errors.New("not called")}
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
				defer cancel()
				c := newCycle(ctx, t, plugin)
				began := time.Now()
				placed, _, status := c.placeInTime(ctx)
				if took := time.Since(began); placed != nil || took != cycleTimeout {
					t.Errorf("it returned %v after %v", placed, took)
				}
				if status.Code() != fwk.Error || !strings.HasPrefix(status.Message(), errCycleTimeout.Error()) {
					t.Errorf("it failed with %v: %s", status.Code(), status.Message())
				}
				if n := c.loop.Cache.Size().Pods; n != 0 {
					t.Errorf("%d pods are assumed", n)
				}
				if point == "Reserve" && plugin.unreserved != nil {
					t.Errorf("Unreserve: %v", plugin.unreserved)
				}
			})
		})
	}
}

// newCycle is newCycleOn the scalar path.
func newCycle(ctx context.Context, t *testing.T, plugin *slow) *cycle {
	t.Helper()
	return newCycleOn(ctx, t, plugin, sidebyside.ScalarPath)
}

// newCycleOn returns the cycle of a pod of a profile with the plugin, on a cluster with one node.
func newCycleOn(ctx context.Context, t *testing.T, plugin *slow, path sidebyside.Path) *cycle {
	t.Helper()
	livesched, err := sidebyside.NewLivesched(ctx, sidebyside.NewObjects(), &sidebyside.Configuration{
		Profile: configv1.KubeSchedulerProfile{
			SchedulerName: ptr.To("mine"),
			Plugins: &configv1.Plugins{
				MultiPoint: configv1.PluginSet{Enabled: []configv1.Plugin{{Name: plugin.Name()}}}},
		},
		Parallelism: 1,
	}, sidebyside.ScalarPath, framework.Registry{
		plugin.Name(): func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(livesched.Close)
	livesched.Cache.AddNode(logr.Discard(), objects.Node("n", "8", "16Gi", nil))
	pending := objects.Pod("default", "pod", "mine", "1", "1Gi")
	pending.UID = "pod"
	pod, err := schedframework.NewPodInfo(pending)
	if err != nil {
		t.Fatal(err)
	}
	decisions := algorithm.Config{Snapshot: livesched.Snapshot}
	if path == sidebyside.FastPath {
		decisions.Engine = fastpath.New(livesched.Snapshot, 0)
	}
	return &cycle{
		loop: &Loop{
			Cache:    livesched.Cache,
			Snapshot: livesched.Snapshot,
			Queue:    livesched.Queue,
			Decider:  algorithm.New(decisions),
			Clock:    clock.RealClock{},
		},
		profile:    livesched.Profile,
		pod:        &schedframework.QueuedPodInfo{PodInfo: pod},
		state:      schedframework.NewCycleState(),
		toActivate: schedframework.NewPodsToActivate(),
		start:      time.Now(),
	}
}
