// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// ours is livesched: everything between the informers and the binding, put together as
// Scheduler.assemble does it.
type ours struct {
	ctx        context.Context
	cache      *cache.Cache
	snapshot   *cache.Snapshot
	queue      *queue.Queue
	algorithm  *algorithm.Scheduler
	profile    *profile.Instance
	scope      *informers.Scope
	api        *apiServer
	spy        *spy
	preemption *witness // nil: the profile has none
}

func newOurs(ctx context.Context, objects apiObjects, c *configuration, offset int32) (*ours, error) {
	o := &ours{ctx: ctx, cache: cache.New(), snapshot: cache.NewSnapshot(), api: newAPIServer(), spy: &spy{}}
	registry, err := plugins.NewRegistry(o.spy.registry())
	if err != nil {
		return nil, err
	}
	source := informers.NewSource(managerCache{objects: objects}, everyKind(), scheme.Scheme, logr.Discard())
	o.scope = source.NewScope()
	o.queue = queue.New(queue.Config{PodLister: o.scope.Core().V1().Pods().Lister()})
	o.algorithm = algorithm.New(algorithm.Config{Snapshot: o.snapshot})
	env := &profile.Environment{
		Registry:      registry,
		Client:        o.api.client,
		Informers:     source,
		Snapshot:      o.snapshot,
		Queue:         o.queue,
		WaitingPods:   framework.NewWaitingPods(),
		PodsInPreBind: framework.NewPodsInPreBind(),
		CSIManager:    nodevolumelimits.NewCSIManager(o.scope.Storage().V1().CSINodes().Lister()),
		Recorder:      func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		EventSources:  noEvents{},
	}
	resources := o.scope.Resource().V1()
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: resources.ResourceSlices(), KubeClient: o.api.client})
	if err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(logr.Discard(), resources.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	env.DRAManager = dynamicresources.NewDRAManager(ctx, claims, slices, o.scope)
	if env.Durable, err = profile.NewDurable(ctx, env, o.scope); err != nil {
		return nil, err
	}
	resolved, err := c.resolve(sets.KeySet(registry))
	if err != nil {
		return nil, err
	}
	o.profile, err = (&profile.Configurator{Env: env, Clock: clock.RealClock{}}).Build(ctx, resolved)
	if err != nil {
		return nil, err
	}
	o.queue.Reconfigure(logr.Discard(), &queue.Settings{
		Profiles: map[string]*queue.ProfileSettings{schedulerName: o.profile.Queue},
	}, nil, nil)
	for _, pl := range o.profile.Framework.Plugins().PostFilter {
		if preempting := decider(pl); preempting != nil {
			o.preemption = witnessOf(preempting, offset)
		}
	}
	return o, nil
}

// decider is kube-scheduler's plugin within the one that takes its place in a profile.
func decider(pl fwk.Plugin) *defaultpreemption.DefaultPreemption {
	if pl.Name() != pluginnames.DefaultPreemption {
		return nil
	}
	return reflect.ValueOf(pl).Elem().FieldByName(pluginnames.DefaultPreemption).Interface().(*defaultpreemption.DefaultPreemption)
}

// noEvents are event sources of a cluster in which nothing happens that the test has not done
// itself.
type noEvents struct{}

func (noEvents) Require(context.Context, []fwk.EventResource) (func(), error) { return func() {}, nil }

func (o *ours) close() {
	o.profile.Discard(logr.Discard())
	<-o.profile.Closed()
	o.scope.Close()
}

// resolve has the configuration read as that of a SchedulerProfile and a SchedulingPolicy.
func (c *configuration) resolve(registered sets.Set[string]) (*config.Profile, error) {
	text, err := json.Marshal(c.profile)
	if err != nil {
		return nil, err
	}
	object := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: schedulerName, UID: "uid", Generation: 1}}
	if err := json.Unmarshal(text, &object.Spec); err != nil {
		return nil, err
	}
	policy := v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: config.DefaultPolicyName, UID: "policy", Generation: 1}}
	policy.Spec.Parallelism = &c.parallelism
	resolution := config.Resolve(config.Input{
		Profiles: []v1alpha1.SchedulerProfile{object}, Policies: []v1alpha1.SchedulingPolicy{policy}, Registered: registered,
	})
	if result := resolution.ProfileResults[schedulerName]; !result.Accepted {
		return nil, fmt.Errorf("the profile is not accepted: %s", result.Message)
	}
	return resolution.Profiles[schedulerName], nil
}

// decide does what the scheduling loop does with a pod before it assumes it (cycle.decide).
func (o *ours) decide(pod *corev1.Pod) decision {
	o.spy.nodes = nil
	state := schedframework.NewCycleState()
	if err := o.cache.UpdateSnapshot(logr.Discard(), o.snapshot); err != nil {
		return decision{err: err}
	}
	f := o.profile.Framework
	result, err := o.algorithm.Schedule(o.ctx, algorithm.Profile{
		Framework: f, PercentageOfNodesToScore: o.profile.Config.PercentageOfNodesToScore,
	}, state, pod)
	seen := decision{state: state, host: result.SuggestedHost, evaluated: result.EvaluatedNodes, feasible: result.FeasibleNodes, err: err}
	var fitError *schedframework.FitError
	switch {
	case err == nil:
	case errors.Is(err, algorithm.ErrNoNodesAvailable):
		seen.nominating, seen.status = clearNomination, fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(err)
	case !errors.As(err, &fitError):
		seen.nominating, seen.status = clearNomination, fwk.AsStatus(err)
	case !f.HasPostFilterPlugins():
		seen.nominating, seen.status = clearNomination, fwk.NewStatus(fwk.Unschedulable).WithError(err)
	default:
		result, status := f.RunPostFilterPlugins(o.ctx, state, pod, fitError.Diagnosis.NodeToStatus)
		fitError.Diagnosis.PostFilterMsg = status.Message()
		if result != nil {
			seen.nominating = result.NominatingInfo
		}
		seen.status = fwk.NewStatus(fwk.Unschedulable).WithError(err)
	}
	seen.fit = o.spy.nodes
	return seen
}

var clearNomination = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}
