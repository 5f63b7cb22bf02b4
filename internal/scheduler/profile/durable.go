// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/preemption"
)

// binderTimeout is the shared binder's own bind timeout: longer than any that VolumeBindingArgs can
// ask for sensibly, since boundedBinder ends the call.
const binderTimeout = 365 * 24 * time.Hour

// Durable holds the in-flight state that two of upstream's plugins keep in their instances, so that
// it outlives them:
//
//   - VolumeBinding's binder remembers which volumes were promised to pods that are not bound yet.
//     With a binder per instance, the first pod of a new generation could be promised the same
//     volume.
//   - DefaultPreemption remembers whose victims are being evicted. With that in the instance, a new
//     generation would let a preemptor back in before its victims are gone.
//
// There is one of each for the process. The binder stands on an informer scope that is never
// closed.
type Durable struct {
	binder  volumebinding.SchedulerVolumeBinder
	evictor *preemption.Evictor
}

// newDurable creates the process's durable plugin state. The scope is the process's own.
func newDurable(ctx context.Context, env *Environment, scope *informers.Scope) (*Durable, error) {
	core, storage := scope.Core().V1(), scope.Storage().V1()
	// The binder's own timeout is out of the way: each profile's VolumeBindingArgs bound the call,
	// see boundedBinder.
	binder, err := volumebinding.NewVolumeBinder(klog.FromContext(ctx), env.Client, features(),
		core.Pods(), core.Nodes(), storage.CSINodes(), core.PersistentVolumeClaims(), core.PersistentVolumes(), storage.StorageClasses(),
		volumebinding.CapacityCheck{CSIDriverInformer: storage.CSIDrivers(), CSIStorageCapacityInformer: storage.CSIStorageCapacities()},
		binderTimeout)
	if err != nil {
		return nil, fmt.Errorf("building the volume binder: %w", err)
	}
	evictor := preemption.NewEvictor(ctx, preemption.Config{
		Client:        env.Client,
		Pods:          core.Pods().Lister(),
		Snapshot:      env.Snapshot,
		Queue:         env.Queue,
		WaitingPods:   env.WaitingPods,
		PodsInPreBind: env.PodsInPreBind,
	})
	return &Durable{binder: binder, evictor: evictor}, nil
}

// Close waits until the preemptions under way have ended, and gives them up when ctx ends.
func (d *Durable) Close(ctx context.Context) { d.evictor.Close(ctx) }

func features() plfeature.Features {
	return plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
}

// adopt has a freshly built plugin instance use the durable state. It returns what takes the place
// of the instance.
func (d *Durable) adopt(plugin fwk.Plugin, args any, handle *Handle) fwk.Plugin {
	switch pl := plugin.(type) {
	case *volumebinding.VolumeBinding:
		pl.Binder = &boundedBinder{SchedulerVolumeBinder: d.binder, timeout: bindTimeout(args)}
	case *defaultpreemption.DefaultPreemption:
		// Otherwise the cycle waits for the evictions, and nothing is left to remember.
		if features().EnableAsyncPreemption {
			return preemption.New(pl, handle, d.evictor)
		}
	}
	return plugin
}

// replacesListeners says whether adopt throws away all that the event handlers of a plugin's
// factory feed: VolumeBinding makes a binder, which listens to volumes and claims. For each handler
// every object that there is would be replayed, in every build.
func replacesListeners(plugin string) bool { return plugin == names.VolumeBinding }

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

// bindTimeout reads the timeout from arguments that the plugin's own constructor has accepted
// already.
func bindTimeout(args any) time.Duration {
	seconds := args.(*schedconfig.VolumeBindingArgs).BindTimeoutSeconds
	// Zero is legal: upstream then makes the API calls and gives up waiting for their effect. Leave
	// it a moment in which to make them.
	return max(time.Duration(seconds)*time.Second, time.Second)
}
