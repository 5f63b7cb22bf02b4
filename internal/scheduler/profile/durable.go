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

	"github.com/livesched/livesched/internal/scheduler/preemption"
)

// binderTimeout is the shared binder's own bind timeout. It is longer than any useful value of
// VolumeBindingArgs, since boundedBinder ends the call.
const binderTimeout = 365 * 24 * time.Hour

// Durable holds state that two of upstream's plugins keep per plugin instance, and that must
// outlive an instance of a profile:
//
//   - VolumeBinding's binder knows which volumes are assumed for pods that are not bound yet. With
//     a binder per instance, a new instance could give the same volume to another pod.
//   - DefaultPreemption knows the pods whose victims are being evicted. If each instance knew only
//     its own, a new one would let a preemptor back in before its victims are gone.
//
// The process has one of each, and one index of the disruption budgets. All read an informer scope
// that stays open until the process ends.
type Durable struct {
	binder      volumebinding.SchedulerVolumeBinder
	provisioner provisioner
	assumed     *assumedVolumes
	volumes     *followedVolumes
	evictor     *preemption.Evictor // nil in a fork, which evicts no pods
	budgets     *preemption.Budgets
}

// newDurable creates durable state without an evictor and disruption budgets.
func newDurable(ctx context.Context, d *Dependencies) (*Durable, error) {
	core, storage := d.Scope.Core().V1(), d.Scope.Storage().V1()
	changes := newClaimChanges()
	client := binderClient{d.Client}
	assumed := &assumedVolumes{}
	binder, err := newPodBinder(klog.FromContext(ctx), client, core, storage, changes, assumed)
	if err != nil {
		return nil, fmt.Errorf("building the volume binder: %w", err)
	}
	return &Durable{
		binder:  binder,
		assumed: assumed,
		provisioner: provisioner{client: client, pods: core.Pods().Lister(), nodes: core.Nodes().Lister(),
			claims: binder.claims, changes: changes, volumes: binder.volumes.store, lookEvery: time.Second},
		volumes: &followedVolumes{scope: d.Scope},
	}, nil
}

// Close waits for the active preemptions, and cancels them when ctx ends.
func (d *Durable) Close(ctx context.Context) { d.evictor.Close(ctx) }

func features() plfeature.Features {
	return plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
}

// adopt makes a plugin that was just built use the durable state. It returns the plugin to run in
// its place.
func (d *Durable) adopt(plugin fwk.Plugin, args any, handle *Handle) fwk.Plugin {
	switch pl := plugin.(type) {
	case *volumebinding.VolumeBinding:
		pl.Binder = &boundedBinder{SchedulerVolumeBinder: d.binder, provisioner: &d.provisioner, assumed: d.assumed,
			timeout: bindTimeout(args)}
	case *defaultpreemption.DefaultPreemption:
		// With the feature off, upstream evicts the victims within PostFilter and keeps no state.
		if d.evictor == nil || features().EnableAsyncPreemption {
			env := handle.env
			return preemption.New(pl, handle, env.Snapshot, env.Nominator, env.Groups, d.evictor, d.budgets,
				env.Clock)
		}
	}
	return plugin
}

// replacesListeners reports whether adopt discards everything that the event handlers of the
// plugin's factory fill: VolumeBinding builds a binder, which listens to volumes and claims. In
// every build, each of these handlers would be called for every existing object.
func replacesListeners(plugin string) bool { return plugin == names.VolumeBinding }

// boundedBinder is the process-wide binder with the bind timeout of one profile.
type boundedBinder struct {
	volumebinding.SchedulerVolumeBinder
	provisioner *provisioner
	assumed     *assumedVolumes
	timeout     time.Duration
}

// AssumePodVolumes remembers what was assumed, until it is reverted or bound.
func (b *boundedBinder) AssumePodVolumes(
	logger klog.Logger, pod *corev1.Pod, node string, volumes *volumebinding.PodVolumes,
) (allFullyBound bool, err error) {
	asked := copyOf(volumes)
	allFullyBound, err = b.SchedulerVolumeBinder.AssumePodVolumes(logger, pod, node, volumes)
	if err == nil && !allFullyBound {
		b.assumed.add(volumes, assumption{pod: pod, node: node, volumes: asked})
	}
	return allFullyBound, err
}

// RevertAssumedPodVolumes reverts AssumePodVolumes. For a claim that the pod shares with others,
// the binder forgets what it has assumed for them, too. So that is assumed again.
func (b *boundedBinder) RevertAssumedPodVolumes(volumes *volumebinding.PodVolumes) {
	b.assumed.reverting.Lock()
	defer b.assumed.reverting.Unlock()
	b.SchedulerVolumeBinder.RevertAssumedPodVolumes(volumes)
	for _, other := range b.assumed.remove(volumes) {
		other.again(klog.Background(), b.SchedulerVolumeBinder)
	}
}

// BindPodVolumes fails when the profile's timeout has passed.
func (b *boundedBinder) BindPodVolumes(ctx context.Context, pod *corev1.Pod, volumes *volumebinding.PodVolumes) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.timeout, fmt.Errorf("volumes were not bound within %v", b.timeout))
	defer cancel()
	var err error
	switch {
	case onlyProvisions(volumes):
		err = b.provisioner.bind(ctx, b.SchedulerVolumeBinder, pod, volumes)
	case isStatic(volumes):
		err = b.provisioner.bindStatic(ctx, b.SchedulerVolumeBinder, pod, volumes)
	default:
		err = b.SchedulerVolumeBinder.BindPodVolumes(ctx, pod, volumes)
	}
	if err != nil {
		return err // Unreserve reverts them
	}
	b.assumed.remove(volumes)
	return nil
}

// bindTimeout returns the timeout in arguments that the plugin's constructor has accepted.
func bindTimeout(args any) time.Duration {
	seconds := args.(*schedconfig.VolumeBindingArgs).BindTimeoutSeconds
	// Zero is valid: upstream then makes the API calls and does not wait for their effect. One
	// second is enough to make them.
	return max(time.Duration(seconds)*time.Second, time.Second)
}
