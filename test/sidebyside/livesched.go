// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package sidebyside

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/informers/fixed"
	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/scheduler/shadow"
)

// Livesched is livesched from its informers to the decision, assembled as in scheduler.Scheduler.
// Only one goroutine at a time may use it.
type Livesched struct {
	Cache    *cache.Cache
	Snapshot *cache.Snapshot
	Queue    *queue.Queue
	// Groups are the pod groups of the queue. They do not apply until the test makes them served.
	Groups  *podgroup.Registry
	Profile *profile.Instance
	// EveryNode makes decisions find all nodes that a pod fits, also where the best are enough.
	EveryNode bool
	// Scored is the number of nodes whose scores decisions compute, as for the decision log, and
	// Scores has those of the latest call of Decide.
	Scored int
	Scores []fwk.NodePluginScores
	// Store has the profile.
	Store *profile.Store
	// Forker makes forks of the other parts.
	Forker *fork.Forker
	// Informers count the event handlers.
	Informers *informers.Source
	// Devices has the claims that plugins know, nil without dynamic resource allocation.
	Devices fwk.SharedDRAManager
	// Requests are the requests of plugins to the API server.
	Requests *Requests
	// Result is that of the latest call of Decide.
	Result algorithm.Result
	// Shadows make decisions of the profile's shadows in Decide: see Follow.
	Shadows *shadow.Comparer

	ctx        context.Context
	decider    *algorithm.Decider
	scope      *informers.Scope
	builder    *profile.Builder
	durable    *profile.Durable
	registered sets.Set[string]
}

// Path is one of the two ways in which livesched decides.
type Path string

// The scalar path calls the plugins for each node. The fast path falls back to it.
const (
	FastPath   Path = "fast path"
	ScalarPath Path = "scalar path"
)

// NewLivesched builds livesched with a profile. The caller must call Close.
func NewLivesched(ctx context.Context, objects Objects, c *Configuration, path Path,
	outOfTree framework.Registry) (*Livesched, error) {
	return NewResolved(ctx, objects, c.resolve, path, outOfTree)
}

// NewResolved builds livesched with a profile that resolved returns, given the names of the
// registered plugins. The caller must call Close.
func NewResolved(ctx context.Context, objects Objects,
	resolved func(registered sets.Set[string]) (*resolve.Profile, error), path Path,
	outOfTree framework.Registry) (*Livesched, error) {
	l := &Livesched{Cache: cache.New(), Snapshot: cache.NewSnapshot(), Groups: podgroup.NewRegistry(),
		Requests: newRequests(), ctx: ctx}
	registry, err := plugins.NewRegistry(outOfTree)
	if err != nil {
		return nil, err
	}
	source := informers.NewSource(managerCache{objects: objects}, fixed.Kinds(), scheme.Scheme, logr.Discard())
	l.Informers, l.scope = source, source.NewScope()
	deferredResizes := utilfeature.DefaultFeatureGate.Enabled(features.InPlacePodVerticalScalingSchedulerPreemption)
	l.Queue = queue.New(queue.Config{PodLister: l.scope.Core().V1().Pods().Lister(), Groups: l.Groups,
		DeferredResizes: deferredResizes})
	decisions := algorithm.Config{Snapshot: l.Snapshot, DeferredResizes: deferredResizes}
	if path == FastPath {
		decisions.Engine = fastpath.New(l.Snapshot, 0)
	}
	l.decider = algorithm.New(decisions)
	env, err := profile.NewEnvironment(ctx, profile.Dependencies{
		Registry:      registry,
		Client:        l.Requests.client,
		ReadingClient: l.Requests.client,
		Informers:     source,
		Scope:         l.scope,
		Cache:         l.Cache,
		Snapshot:      l.Snapshot,
		Queue:         l.Queue,
		Nominator:     l.Queue.Nominator(),
		Groups:        l.Groups,
		WaitingPods:   framework.NewWaitingPods(),
		PodsInPreBind: framework.NewPodsInPreBind(),
		Recorder:      func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		EventSources:  profile.NoSources{},
	})
	if err != nil {
		return nil, err
	}
	if err := env.Devices.AddEventHandlers(unheard); err != nil {
		return nil, err
	}
	l.Devices, l.durable = env.Devices.DRA, env.Durable
	l.registered, l.builder = sets.KeySet(registry), profile.NewBuilder(env, 0, clock.RealClock{})
	profileToBuild, err := resolved(l.registered)
	if err != nil {
		return nil, err
	}
	if l.Profile, err = l.builder.Build(ctx, profileToBuild); err != nil {
		return nil, err
	}
	l.Store = profile.NewStore()
	l.Store.Swap(logr.Discard(),
		profile.NewMap(map[string]*profile.Instance{profileToBuild.SchedulerName: l.Profile}, ""), l.Queue)
	l.Shadows = shadow.New(shadow.Config{
		Profiles: l.Store, Snapshot: l.Snapshot, FastPath: true, DeferredResizes: deferredResizes,
		Clock: clock.RealClock{},
	})
	l.Forker = fork.NewForker(fork.Config{
		Cache: l.Cache, Nominator: l.Queue.Nominator(), Environment: env, Profiles: l.Store, Groups: l.Groups,
		Client: l.Requests.client, KubeConfig: &rest.Config{},
		FastPath: path == FastPath,
	})
	return l, nil
}

// unheard handles events, which no queue waits for.
func unheard(fwk.EventResource) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{}
}

// Follow makes a shadow with a configuration of its own follow the profile, from now on and on the
// fast path. It returns the ID of the shadow, for Shadows.Status.
func (l *Livesched) Follow(c *Configuration) (id string, err error) {
	resolved, err := c.resolveShadow(l.Profile.Config.Name, l.registered)
	if err != nil {
		return "", err
	}
	instance, err := l.builder.Build(l.ctx, resolved)
	if err != nil {
		return "", err
	}
	l.Store.Swap(logr.Discard(), profile.NewMap(map[string]*profile.Instance{
		l.Profile.SchedulerName(): l.Profile, resolved.ID(): instance,
	}, ""), l.Queue)
	return resolved.ID(), nil
}

// EndPreemptions waits until no preemption is active. From now on, pods are nominated but no victim
// is evicted.
func (l *Livesched) EndPreemptions() { l.durable.Close(l.ctx) }

// Close discards the profile, and ends its preemptions, its informers and the queue.
func (l *Livesched) Close() {
	l.EndPreemptions()
	l.Queue.Close()
	_ = l.Store.Close(context.Background()) // it fails only if its context ends
	l.scope.Close()
}

// Decide does what the scheduling loop does with a pod before it assumes the pod (loop.cycle).
func (l *Livesched) Decide(pod *corev1.Pod) Decision {
	state := schedframework.NewCycleState()
	if err := l.Cache.UpdateSnapshot(logr.Discard(), l.Snapshot); err != nil {
		return Decision{Err: err}
	}
	f := l.Profile.Framework
	decision, err := l.decider.Decide(l.ctx, algorithm.Params{
		Framework:                f,
		PercentageOfNodesToScore: l.Profile.Config.PercentageOfNodesToScore,
		FastPath:                 l.Profile.FastPath(),
		EveryNode:                l.EveryNode,
	}, state, pod)
	l.follow(pod, &decision, err)
	l.Result = decision.Result
	if l.Scores = nil; err == nil && l.Scored > 0 {
		if l.Scores, err = decision.Top(l.ctx, l.Scored); err != nil {
			return Decision{Err: err}
		}
	}
	seen := Decision{State: state, Host: decision.SuggestedHost, Evaluated: decision.EvaluatedNodes,
		Feasible: decision.FeasibleNodes, Err: err}
	var fitError *schedframework.FitError
	switch {
	case err == nil:
	case errors.Is(err, algorithm.ErrNoNodesAvailable):
		seen.Nominating, seen.Status = clearNomination, fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(err)
	case !errors.As(err, &fitError):
		seen.Nominating, seen.Status = clearNomination, fwk.AsStatus(err)
	case !f.HasPostFilterPlugins():
		seen.Nominating, seen.Status = clearNomination, fwk.NewStatus(fwk.Unschedulable).WithError(err)
	default:
		result, status := f.RunPostFilterPlugins(l.ctx, state, pod, fitError.Diagnosis.NodeToStatus)
		fitError.Diagnosis.PostFilterMsg = status.Message()
		if result != nil {
			seen.Nominating = result.NominatingInfo
		}
		seen.Status = fwk.NewStatus(fwk.Unschedulable).WithError(err)
	}
	return seen
}

// follow lets shadows decide.
func (l *Livesched) follow(pod *corev1.Pod, decision *algorithm.Decision, err error) {
	if !l.Shadows.Wanted() {
		return
	}
	d := shadow.Decided{Profile: l.Profile, Pod: pod, Node: decision.SuggestedHost,
		Incomparable: pod.Status.NominatedNodeName != "" || pod.Spec.NodeName != ""}
	var fitError *schedframework.FitError
	if errors.As(err, &fitError) {
		d.Refusals = fitError.Diagnosis.NodeToStatus
	} else if err != nil && !errors.Is(err, algorithm.ErrNoNodesAvailable) {
		return
	}
	l.Shadows.Compare(l.ctx, d)
}

var clearNomination = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}
