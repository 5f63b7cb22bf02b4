// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fork copies the state of the running scheduler, so that questions can be answered by
// deciding pods: why a pod fits nowhere, and what would help. What is done to a fork changes
// nothing else.
//
//	running scheduler                        Fork
//	  cache            --copy------------->    cache --> snapshot
//	  nominator        --copy------------->    nominator
//	  assumed volumes  --assumed again---->    volume binder
//	  device managers  <--read------------     device managers: pending allocations of their own
//	  informers        <--scope------------    listers
//	  profiles         --configuration---->    instances of its own, built when they are needed
//
// Nodes and pods are as they were when the fork was made. The listers of plugins, for example of
// claims, volumes and Services, show the present, and so do the devices that are allocated. A fork
// adds no handlers to informers.
//
// A fork preempts pods only in Decider.Preempt and Fork.Evict, and takes them off their nodes at
// once.
//
// A fork has no queue and no cluster events, calls no extenders, writes no Events and no metrics,
// and its client refuses all requests but those that read; see profile.ReadOnly. An out-of-tree
// plugin that has a client of its own must keep to that itself.
package fork

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Config holds what forks are made of. All fields but IntN and FastPath are required.
type Config struct {
	// Cache, Nominator, Environment and Profiles belong to the running scheduler.
	Cache       *cache.Cache
	Nominator   *queue.Nominator
	Environment *profile.Environment
	Profiles    *profile.Store
	// Groups are the pod groups of the running scheduler.
	Groups *podgroup.Registry
	// Client and KubeConfig are for plugins, and must refuse to write: see profile.ReadOnly.
	Client     clientset.Interface
	KubeConfig *rest.Config
	// IntN draws among nodes of equal score. Default: rand.IntN.
	IntN func(n int) int
	// FastPath reports whether the running scheduler has a fast path. Deciders then have one, too.
	FastPath bool
}

// Forker makes forks of a running scheduler. It is safe for concurrent use.
type Forker struct {
	cfg Config
	// building has one item while a fork builds an instance: plugins may assume that no two of them
	// are constructed at the same time. A reload does not wait for it, since a plugin may hang.
	building chan struct{}
}

// NewForker returns a Forker.
func NewForker(cfg Config) *Forker {
	return &Forker{cfg: cfg, building: make(chan struct{}, 1)}
}

// Fork is a copy of the state of a running scheduler. Its methods are for one goroutine at a time;
// the plugins that it calls use others, which have ended when a method returns. The caller must
// call Close.
type Fork struct {
	forker    *Forker
	cache     *cache.Cache
	snapshot  *cache.Snapshot
	nominator *queue.Nominator
	builder   *profile.Builder
	decider   *algorithm.Decider
	scope     *informers.Scope
	devices   *devices.Managers
	// profiles are those that were active when the fork was made.
	profiles *profile.Map
	// instances are those that the fork has built, by their configuration.
	instances map[*resolve.Profile]*profile.Instance
	cancel    context.CancelFunc
	logger    klog.Logger
	// group is what plugins keep for the members of a group while one of them is decided. nil: the
	// pod is decided by itself.
	group fwk.PodGroupCycleState
}

// Fork makes a fork. It waits for the API server only if an informer has not synced. ctx bounds the
// call; the values of ctx, such as its logger, are passed to plugins.
func (f *Forker) Fork(ctx context.Context) (*Fork, error) {
	lifetime, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fork := &Fork{
		forker:    f,
		snapshot:  cache.NewSnapshot(),
		scope:     f.cfg.Environment.Informers.NewScope(),
		profiles:  f.cfg.Profiles.Current(),
		instances: map[*resolve.Profile]*profile.Instance{},
		cancel:    cancel,
		logger:    klog.FromContext(ctx),
	}
	if err := fork.assemble(ctx, lifetime); err != nil {
		fork.Close()
		return nil, err
	}
	return fork, nil
}

// assemble copies the state. The running scheduler goes on meanwhile: a pod that was assumed after
// its nomination was copied is in both, and loses the nomination here. Volumes are copied last, and
// devices are not copied, so that no pod is on a node without those that were assumed for it. Pods
// that were assumed in between have theirs, but are not on a node.
func (f *Fork) assemble(ctx, lifetime context.Context) error {
	cfg := &f.forker.cfg
	f.nominator = cfg.Nominator.Fork()
	f.cache = cfg.Cache.Fork()
	for _, nomination := range f.nominator.Dump() {
		if f.Pod(nomination.Pod) != nil {
			f.nominator.DeleteNominatedPodIfExists(nomination.Pod)
		}
	}
	env, err := cfg.Environment.Fork(lifetime, profile.Dependencies{
		Registry:      cfg.Environment.Registry,
		Client:        cfg.Client,
		KubeConfig:    cfg.KubeConfig,
		Informers:     cfg.Environment.Informers,
		Scope:         f.scope,
		Snapshot:      f.snapshot,
		Queue:         profile.NoQueue{},
		Nominator:     f.nominator,
		Groups:        cfg.Groups,
		WaitingPods:   framework.NewWaitingPods(),
		PodsInPreBind: framework.NewPodsInPreBind(),
		Recorder:      profile.NewNoEvents,
		Clock:         cfg.Environment.Clock,
		EventSources:  profile.NoSources{},
	})
	if err != nil {
		return fmt.Errorf("forking the environment of the profiles: %w", err)
	}
	if err := f.scope.WaitForSync(ctx); err != nil {
		return fmt.Errorf("waiting for the informers: %w", err)
	}
	env.CopyAssumed(f.logger, cfg.Environment)
	f.devices = env.Devices
	f.builder = profile.NewBuilder(env, 0, clock.RealClock{})
	f.decider = algorithm.New(algorithm.Config{Snapshot: f.snapshot, IntN: cfg.IntN})
	return f.refresh()
}

// newState returns the state of the scheduling cycle of a pod.
func (f *Fork) newState() *schedframework.CycleState {
	state := schedframework.NewCycleState()
	state.SetPodGroupSchedulingCycle(f.group)
	return state
}

// refresh makes the snapshot show the changes of the cache.
func (f *Fork) refresh() error {
	if err := f.cache.UpdateSnapshot(f.logger, f.snapshot); err != nil {
		return fmt.Errorf("refreshing the snapshot: %w", err)
	}
	return nil
}

// ErrNoProfile means that no profile has a scheduler name.
var ErrNoProfile = errors.New("no profile has the scheduler name")

// Profile returns the configuration of the profile that was active for a scheduler name when the
// fork was made, or ErrNoProfile.
func (f *Fork) Profile(schedulerName string) (*resolve.Profile, error) {
	active := f.profiles.Get(schedulerName)
	if active == nil {
		return nil, fmt.Errorf("%w %q", ErrNoProfile, schedulerName)
	}
	return active.Config, nil
}

// ProfileOf returns the configuration of the profile that decides a pod, or ErrNoProfile: while a
// change is rolled out, two revisions share the pods of a scheduler name.
func (f *Fork) ProfileOf(pod *corev1.Pod) (*resolve.Profile, error) {
	active := f.profiles.Decides(pod.Spec.SchedulerName, f.Groups().OwnerOf(pod))
	if active == nil {
		return nil, fmt.Errorf("%w %q", ErrNoProfile, pod.Spec.SchedulerName)
	}
	return active.Config, nil
}

// SchedulerNames returns the scheduler names of the profiles that were active when the fork was
// made, in alphabetical order.
func (f *Fork) SchedulerNames() []string { return f.profiles.Names() }

// Groups returns the pod groups of the running scheduler, as they are now. Which of their pods have
// a node may differ in the fork.
func (f *Fork) Groups() *podgroup.Registry { return f.forker.cfg.Groups }

// VolumeClaim returns a PersistentVolumeClaim, or nil if there is none.
func (f *Fork) VolumeClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	claim, err := f.scope.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return nil // a lister has no other error
	}
	return claim
}

// Devices returns the managers of devices of the fork.
func (f *Fork) Devices() *devices.Managers { return f.devices }

// NamespaceLabels returns the labels of a namespace, nil if there is none.
func (f *Fork) NamespaceLabels(name string) labels.Set {
	namespace, err := f.scope.Core().V1().Namespaces().Lister().Get(name)
	if err != nil {
		return nil // a lister has no other error
	}
	return namespace.Labels
}

// Instance returns an instance of a profile, which need not be an active one. The fork builds it on
// first use, and owns it.
func (f *Fork) Instance(ctx context.Context, cfg *resolve.Profile) (*profile.Instance, error) {
	if p := f.instances[cfg]; p != nil {
		return p, nil
	}
	select {
	case f.forker.building <- struct{}{}:
		defer func() { <-f.forker.building }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p, err := f.builder.Build(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("building the profile %q: %w", cfg.SchedulerName, err)
	}
	f.instances[cfg] = p
	return p, nil
}

// Close gives back all that the fork holds, and waits until the plugins of its instances are
// closed.
func (f *Fork) Close() {
	for _, p := range f.instances {
		p.Discard(f.logger)
	}
	for _, p := range f.instances {
		<-p.Closed()
	}
	f.scope.Close()
	f.cancel()
}
