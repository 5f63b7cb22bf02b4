// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/utils/ptr"
)

// upstream is kube-scheduler. Its loop does not run: decide makes it take one pod through
// ScheduleOne, up to the point where the pod would be assumed.
type upstream struct {
	ctx        context.Context
	scheduler  *scheduler.Scheduler
	framework  schedframework.Framework
	api        *apiServer
	spy        *spy
	preemption *witness // nil: the profile has none

	next *corev1.Pod
	seen decision
}

// errDecided keeps kube-scheduler from going on with a pod that it has found a node for.
var errDecided = errors.New("decided")

func newUpstream(ctx context.Context, objects apiObjects, c *configuration, offset int32) (*upstream, error) {
	profile, err := c.kubeSchedulerProfile()
	if err != nil {
		return nil, err
	}
	u := &upstream{ctx: ctx, api: newAPIServer(), spy: &spy{}}
	u.scheduler, err = scheduler.New(ctx, u.api.client, objects, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(*profile), scheduler.WithParallelism(c.parallelism),
		scheduler.WithFrameworkOutOfTreeRegistry(u.spy.registry()))
	if err != nil {
		return nil, err
	}
	u.framework = u.scheduler.Profiles[schedulerName]
	for _, pl := range u.framework.ListPlugins().PostFilter.Enabled {
		if pl.Name == defaultpreemption.Name {
			u.preemption = witnessOf(u.defaultPreemption(), offset)
		}
	}
	u.scheduler.NextPod = func(klog.Logger) (*schedframework.QueuedPodInfo, error) {
		info, err := schedframework.NewPodInfo(u.next)
		return &schedframework.QueuedPodInfo{PodInfo: info}, err
	}
	decide := u.scheduler.SchedulePod
	u.scheduler.SchedulePod = func(ctx context.Context, f schedframework.Framework, state fwk.CycleState, pod *schedframework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		result, err := decide(ctx, f, state, pod)
		u.seen = decision{state: state, host: result.SuggestedHost, evaluated: result.EvaluatedNodes, feasible: result.FeasibleNodes, err: err}
		if err == nil {
			err = errDecided
		}
		return result, err
	}
	u.scheduler.FailureHandler = func(_ context.Context, _ schedframework.Framework, _ *schedframework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, _ time.Time) {
		if err := status.AsError(); !errors.Is(err, errDecided) {
			u.seen.status, u.seen.nominating = status, nominating
		}
	}
	return u, nil
}

// defaultPreemption returns the profile's instance, which is to be had as the PreEnqueue plugin
// that it is, too.
func (u *upstream) defaultPreemption() *defaultpreemption.DefaultPreemption {
	for _, candidate := range u.framework.PreEnqueuePlugins() {
		if pl, ok := candidate.(*defaultpreemption.DefaultPreemption); ok {
			return pl
		}
	}
	panic("the profile has DefaultPreemption at PostFilter and not at PreEnqueue")
}

func (u *upstream) decide(pod *corev1.Pod) decision {
	u.next, u.seen, u.spy.nodes = pod, decision{}, nil
	u.scheduler.ScheduleOne(u.ctx)
	u.seen.fit = u.spy.nodes
	return u.seen
}

// configuration is a random profile in the shape in which users write it.
type configuration struct {
	profile     configv1.KubeSchedulerProfile
	parallelism int32
}

// kubeSchedulerProfile reads the profile as kube-scheduler reads its configuration file.
func (c *configuration) kubeSchedulerProfile() (*schedconfig.KubeSchedulerProfile, error) {
	profile := c.profile.DeepCopy()
	if ptr.Deref(profile.PercentageOfNodesToScore, 0) == 0 {
		// 0 is a sample to kube-scheduler and all nodes to livesched: all are compared.
		profile.PercentageOfNodesToScore = ptr.To(int32(100))
	}
	versioned := configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{*profile}}
	if err := versioned.DecodeNestedObjects(configscheme.Codecs.UniversalDeserializer()); err != nil {
		return nil, err
	}
	configscheme.Scheme.Default(&versioned)
	var internal schedconfig.KubeSchedulerConfiguration
	if err := configscheme.Scheme.Convert(&versioned, &internal, nil); err != nil {
		return nil, err
	}
	return &internal.Profiles[0], nil
}
