// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// binderTimeout is the shared binder's own bind timeout: longer than any that VolumeBindingArgs can ask for sensibly,
// since boundedBinder ends the call.
const binderTimeout = 365 * 24 * time.Hour

// Durable holds the in-flight state that two of upstream's plugins keep in their instances, so that it outlives
// them:
//
//   - VolumeBinding's binder remembers which volumes were promised to pods that are not bound yet. With a binder per
//     instance, the first pod of a new generation could be promised the same volume.
//   - DefaultPreemption's executor remembers whose victims are being evicted. With an executor per instance, a new
//     generation would let a preemptor back in before its victims are gone.
//
// There is one binder for the process, and one executor per scheduler name (it reports preemptions under that name).
// Both stand on an informer scope that is never closed. Adopted instances share them.
type Durable struct {
	env    *Environment
	scope  *informers.Scope
	binder volumebinding.SchedulerVolumeBinder

	mu        sync.Mutex // guards executors
	executors map[string]*preemption.Executor
}

// NewDurable creates the process's durable plugin state. The scope is the process's own; the caller waits for it to
// sync together with the rest.
func NewDurable(ctx context.Context, env *Environment, scope *informers.Scope) (*Durable, error) {
	core, storage := scope.Core().V1(), scope.Storage().V1()
	// The binder's own timeout is out of the way: each profile's VolumeBindingArgs bound the call, see boundedBinder.
	binder, err := volumebinding.NewVolumeBinder(klog.FromContext(ctx), env.Client, features(),
		core.Pods(), core.Nodes(), storage.CSINodes(), core.PersistentVolumeClaims(), core.PersistentVolumes(), storage.StorageClasses(),
		volumebinding.CapacityCheck{CSIDriverInformer: storage.CSIDrivers(), CSIStorageCapacityInformer: storage.CSIStorageCapacities()},
		binderTimeout)
	if err != nil {
		return nil, fmt.Errorf("building the volume binder: %w", err)
	}
	return &Durable{env: env, scope: scope, binder: binder, executors: map[string]*preemption.Executor{}}, nil
}

func features() plfeature.Features {
	return plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
}

// adopt replaces the in-flight state of a freshly built plugin instance by the durable one.
func (d *Durable) adopt(plugin fwk.Plugin, args any, handle *Handle) {
	switch pl := plugin.(type) {
	case *volumebinding.VolumeBinding:
		pl.Binder = &boundedBinder{SchedulerVolumeBinder: d.binder, timeout: bindTimeout(args)}
	case *defaultpreemption.DefaultPreemption:
		pl.Executor = d.executor(handle.schedulerName)
		pl.Evaluator = preemption.NewEvaluator(pl.Name(), handle, pl, pl.Executor)
	}
}

// executor returns the preemption executor of a scheduler name. They are kept for good: one per name that was ever
// scheduled, each the size of two empty maps when nothing is being preempted.
func (d *Durable) executor(schedulerName string) *preemption.Executor {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.executors[schedulerName]; ok {
		return e
	}
	e := preemption.NewExecutor(&Handle{
		env:           d.env,
		informers:     d.scope,
		parallelizer:  framework.NewParallelizer(0),
		recorder:      d.env.Recorder(schedulerName),
		schedulerName: schedulerName,
	}, features())
	d.activateAfter(e)
	d.executors[schedulerName] = e
	return e
}

// activateAfter has a preemptor tried again once its preemption is over. Upstream's executor leaves that to the deletion
// of the victims, of which there is none where they were rejected in memory, and whose event may come while the
// preemptor is still held back (kubernetes/kubernetes#140082).
func (d *Durable) activateAfter(e *preemption.Executor) {
	preempt := e.PreemptPod
	e.PreemptPod = func(ctx context.Context, c preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) error {
		err := preempt(ctx, c, preemptor, victim, plugin)
		go func() {
			over := func(context.Context) (bool, error) { return !e.IsPodRunningPreemption(preemptor.UID()), nil }
			if wait.PollUntilContextTimeout(context.WithoutCancel(ctx), 10*time.Millisecond, 2*time.Second, true, over) == nil {
				d.env.Queue.Activate(klog.FromContext(ctx), preemptor.Pods())
			}
		}()
		return err
	}
}

// boundedBinder is the process-wide binder with the bind timeout of one profile.
type boundedBinder struct {
	volumebinding.SchedulerVolumeBinder
	timeout time.Duration
}

// BindPodVolumes gives up after the profile's timeout.
func (b *boundedBinder) BindPodVolumes(ctx context.Context, pod *corev1.Pod, volumes *volumebinding.PodVolumes) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.timeout, fmt.Errorf("volumes were not bound within %v", b.timeout))
	defer cancel()
	return b.SchedulerVolumeBinder.BindPodVolumes(ctx, pod, volumes)
}

// bindTimeout reads the timeout from arguments that the plugin's own constructor has accepted already.
func bindTimeout(args any) time.Duration {
	seconds := args.(*schedconfig.VolumeBindingArgs).BindTimeoutSeconds
	// Zero is legal: upstream then makes the API calls and gives up waiting for their effect. Leave it a moment in
	// which to make them.
	return max(time.Duration(seconds)*time.Second, time.Second)
}
