// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package sidebyside

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// KubeScheduler is kube-scheduler without its loop. Decide takes one pod through ScheduleOne, up to
// the point where the pod would be assumed. Only one goroutine at a time may use it.
type KubeScheduler struct {
	Scheduler *scheduler.Scheduler
	Framework schedframework.Framework
	// Requests are the requests of plugins to the API server.
	Requests *Requests
	// Last is the latest decision.
	Last Decision

	ctx  context.Context
	next *corev1.Pod
}

// errDecided ends the scheduling cycle of a pod after kube-scheduler has found a node for it.
var errDecided = errors.New("decided")

// NewKubeScheduler builds kube-scheduler with a profile. The caller must end ctx and call Close.
func NewKubeScheduler(ctx context.Context, objects Objects, c *Configuration,
	outOfTree schedruntime.Registry) (*KubeScheduler, error) {
	profile, err := c.kubeSchedulerProfile()
	if err != nil {
		return nil, err
	}
	k := &KubeScheduler{ctx: ctx, Requests: newRequests()}
	k.Scheduler, err = scheduler.New(ctx, k.Requests.client, objects, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(*profile), scheduler.WithParallelism(c.Parallelism),
		scheduler.WithFrameworkOutOfTreeRegistry(outOfTree))
	if err != nil {
		return nil, err
	}
	k.Framework = k.Scheduler.Profiles[c.name()]
	k.Scheduler.NextEntity = func(klog.Logger) (schedframework.QueuedEntityInfo, error) {
		info, err := schedframework.NewPodInfo(k.next)
		return &schedframework.QueuedPodInfo{PodInfo: info}, err
	}
	decide := k.Scheduler.SchedulePod
	k.Scheduler.SchedulePod = func(ctx context.Context, f schedframework.Framework, state fwk.CycleState,
		pod *schedframework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		result, err := decide(ctx, f, state, pod)
		k.Last = Decision{State: state, Host: result.SuggestedHost, Evaluated: result.EvaluatedNodes,
			Feasible: result.FeasibleNodes, Err: err}
		if err == nil {
			err = errDecided
		}
		return result, err
	}
	k.Scheduler.FailureHandler = func(_ context.Context, _ schedframework.Framework, _ *schedframework.QueuedPodInfo,
		status *fwk.Status, nominating *fwk.NominatingInfo, _ time.Time) {
		if err := status.AsError(); !errors.Is(err, errDecided) {
			k.Last.Status, k.Last.Nominating = status, nominating
		}
	}
	return k, nil
}

// Decide takes a pod through ScheduleOne.
func (k *KubeScheduler) Decide(pod *corev1.Pod) Decision {
	k.next, k.Last = pod, Decision{}
	k.Scheduler.ScheduleOne(k.ctx)
	return k.Last
}

// Close ends the queue.
func (k *KubeScheduler) Close() { k.Scheduler.SchedulingQueue.Close() }
