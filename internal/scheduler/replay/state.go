// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/informers/fixed"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// State is a scheduler in the state of a snapshot. It is for one goroutine.
type State struct {
	snapshot *capture.Snapshot
	registry framework.Registry
	// input is what the profiles were resolved from, and resolution the result.
	input      resolve.Input
	resolution *resolve.Resolution
	// unusable has the errors of the profiles that cannot be used, by their names.
	unusable map[string]error

	cache *cache.Cache
	env   *profile.Environment
	scope *informers.Scope
	queue *queue.Queue
	store *profile.Store
	// groups are the pod groups of the snapshot.
	groups *podgroup.Registry
	// forker makes forks with nominations, and unnominated makes forks without.
	forker, unnominated *fork.Forker
	cancel              context.CancelFunc
}

// removedGates are the gates of kube-scheduler that a snapshot of livesched with the plugins of
// Kubernetes 1.36 may have, and that Kubernetes does not have any more. No decision of livesched
// depended on them.
var removedGates = []string{"GangScheduling", "WorkloadAwarePreemption"}

// Open returns the State of a snapshot, with the built-in plugins and the feature gates that the
// snapshot was taken with, which are process-wide. The caller must call Close.
func Open(ctx context.Context, snapshot *capture.Snapshot) (*State, error) {
	gates := maps.Clone(snapshot.Header.FeatureGates)
	maps.DeleteFunc(gates, func(name string, _ bool) bool { return slices.Contains(removedGates, name) })
	if len(gates) > 0 {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
			return nil, fmt.Errorf("setting the feature gates of version %s: %w", snapshot.Header.Livesched, err)
		}
	}
	registry, err := plugins.NewRegistry(nil)
	if err != nil {
		return nil, err
	}
	return New(ctx, snapshot, registry)
}

// New returns the State of a snapshot, with the plugins of a registry. The caller must call Close.
// A profile that cannot be used, because a plugin of its is not in the registry, is no error.
func New(ctx context.Context, snapshot *capture.Snapshot, registry framework.Registry) (*State, error) {
	schedmetrics.Register()
	metrics.Register()
	lifetime, cancel := context.WithCancel(ctx)
	s := &State{snapshot: snapshot, registry: registry, unusable: map[string]error{}, cache: cache.New(),
		store: profile.NewStore(), cancel: cancel}
	if err := s.assemble(lifetime); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *State) assemble(ctx context.Context) error {
	source, err := fixed.NewSource(s.objects())
	if err != nil {
		return err
	}
	s.scope = source.NewScope()
	s.queue = queue.New(queue.Config{PodLister: s.scope.Core().V1().Pods().Lister()})
	s.groups = groupsOf(s.snapshot)
	kube := &rest.Config{Host: "https://snapshot.invalid", Transport: noServer{}}
	kubeClient, err := clientset.NewForConfig(kube)
	if err != nil {
		return err
	}
	s.groups = groupsOf(s.snapshot)
	s.env, err = profile.NewEnvironment(ctx, profile.Dependencies{
		Registry: s.registry, Client: kubeClient, KubeConfig: kube, Informers: source, Scope: s.scope,
		Snapshot: cache.NewSnapshot(),
		Queue:    s.queue, Nominator: s.queue.Nominator(), WaitingPods: framework.NewWaitingPods(),
		Groups:        s.groups,
		PodsInPreBind: framework.NewPodsInPreBind(),
		Recorder:      func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		EventSources:  profile.NoSources{},
	})
	if err != nil {
		return err
	}
	if err := s.followClasses(); err != nil {
		return err
	}
	if err := s.scope.WaitForSync(ctx); err != nil {
		return err
	}
	if err := s.fill(klog.FromContext(ctx)); err != nil {
		return err
	}
	if err := s.buildProfiles(ctx); err != nil {
		return err
	}
	s.nominate(klog.FromContext(ctx))
	forks := fork.Config{
		Cache: s.cache, Nominator: s.queue.Nominator(), Environment: s.env, Profiles: s.store, Groups: s.groups,
		Client: kubeClient, KubeConfig: kube,
		FastPath: s.snapshot.Header.FastPath != "off",
	}
	s.forker = fork.NewForker(forks)
	forks.Nominator = queue.New(queue.Config{}).Nominator()
	s.unnominated = fork.NewForker(forks)
	return nil
}

// followClasses lets the managers of devices know the device classes. Nothing waits for their
// events.
func (s *State) followClasses() error {
	return s.env.Devices.AddEventHandlers(func(fwk.EventResource) toolscache.ResourceEventHandler {
		return toolscache.ResourceEventHandlerFuncs{}
	})
}

// objects returns the objects that informers have.
func (s *State) objects() []client.Object {
	objects := append([]client.Object(nil), s.snapshot.Objects...)
	for _, node := range s.snapshot.Nodes {
		objects = append(objects, node)
	}
	for _, pods := range [...][]*corev1.Pod{s.snapshot.Pods, s.snapshot.Pending} {
		for _, pod := range pods {
			objects = append(objects, pod)
		}
	}
	return objects
}

// fill adds nodes and pods to the cache.
func (s *State) fill(logger klog.Logger) error {
	for _, node := range s.snapshot.Nodes {
		s.cache.AddNode(logger, node)
	}
	for _, pod := range s.snapshot.Pods {
		if err := s.cache.AddPod(logger, pod); err != nil {
			return fmt.Errorf("adding the pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// nominate nominates pending pods to nodes.
func (s *State) nominate(logger klog.Logger) {
	pending := map[types.UID]*corev1.Pod{}
	for _, pod := range s.snapshot.Pending {
		pending[pod.UID] = pod
	}
	for _, nomination := range s.snapshot.Nominations {
		pod := pending[nomination.Pod]
		if pod == nil {
			continue
		}
		info, err := schedframework.NewPodInfo(pod)
		if err != nil {
			logger.V(4).Info("Some of the pod's affinity terms are ignored", "err", err)
		}
		s.queue.Nominator().AddNominatedPod(logger, info,
			&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: nomination.Node})
	}
}

// Fork returns a fork of the state, with the nominations. The caller must call Close on it.
func (s *State) Fork(ctx context.Context) (*fork.Fork, error) { return s.forker.Fork(ctx) }

// Close ends the state. Its forks must be closed.
func (s *State) Close() {
	_ = s.store.Close(context.Background()) // it fails only if its context ends
	if s.queue != nil {
		s.queue.Close()
	}
	if s.env != nil {
		s.env.Durable.Close(context.Background()) // nothing was begun: it does not wait
	}
	if s.scope != nil {
		s.scope.Close()
	}
	s.cancel()
}

// noServer takes the place of the API server.
type noServer struct{}

// RoundTrip implements http.RoundTripper.
func (noServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		_ = request.Body.Close() // as http.RoundTripper must
	}
	return nil, errors.New("there is no API server behind a snapshot")
}
