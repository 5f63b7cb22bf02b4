// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/controllers"
	"github.com/livesched/livesched/controllers/groupstatus"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// shutdownTimeout is the time that the manager waits for its parts to stop. The process ends soon
// after that in any case: see exitTimeout.
const shutdownTimeout = 7 * time.Second

// syncTimeout is how long the controllers wait for their first lists: for good. By default, the
// process would exit after two minutes of an outage, and again after each restart.
const syncTimeout = 365 * 24 * time.Hour

// NewScheme returns a scheme with the types that livesched reads and writes.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return scheme, nil
}

// Manager is a controller-runtime manager that runs the scheduler and the controllers.
type Manager struct {
	ctrl.Manager
	// Scheduler is the scheduler that the manager runs.
	Scheduler *scheduler.Scheduler
	// Informers is the scheduler's view of the manager's cache.
	Informers *informers.Source
	// stopping ends the wait for the manager's cache, and that for the lease. Start closes it.
	stopping chan struct{}
}

// started reports whether the manager may have work in progress that it should complete. m may be
// nil.
func (m *Manager) started() bool {
	if m == nil {
		return false
	}
	_, err := m.Scheduler.Parts()
	return err == nil
}

// NewManager creates a manager and its parts, bottom-up:
//
//	manager cache -> informers -> scheduler (on every replica) -> loop (on the leader)
//	                                  ^ Scheduler.Swap
//	                              controllers
//
// Set feature gates before you call it. The API server must answer: see awaitAPI.
func NewManager(restConfig *rest.Config, o *Options) (*Manager, error) {
	metrics.Register()
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	restConfig = o.throttled(restConfig)
	stopping := make(chan struct{})
	election, err := newElection(restConfig, o, stopping)
	if err != nil {
		return nil, err
	}
	gracePeriod := shutdownTimeout
	mgr, err := ctrl.NewManager(restConfig, election.configure(ctrl.Options{
		Scheme:                 scheme,
		Cache:                  informers.CacheOptions(scheme, o.TrimBoundPods),
		NewCache:               newManagerCache(stopping),
		Metrics:                metricsserver.Options{BindAddress: o.MetricsBindAddress},
		HealthProbeBindAddress: o.HealthProbeBindAddress,
		LivenessEndpointName:   "/livez",
		// Tests run several managers in one process, which have controllers of the same name.
		NewClient:               guarded(election.leading()),
		Controller:              config.Controller{SkipNameValidation: ptr.To(true), CacheSyncTimeout: syncTimeout},
		GracefulShutdownTimeout: &gracePeriod,
	}))
	if err != nil {
		return nil, fmt.Errorf("creating the manager, for the API server at %s: %w", restConfig.Host, err)
	}
	election.recordEvents(mgr)

	registry, err := plugins.NewRegistry(o.OutOfTree)
	if err != nil {
		return nil, err
	}
	kube, eventClient, clientConfig, err := newClients(restConfig, election.leading())
	if err != nil {
		return nil, err
	}
	allowed, err := resolve.ParseAllowedHosts(o.ExtenderAllowedHosts)
	if err != nil {
		return nil, err
	}
	source := informers.NewSource(mgr.GetCache(), mgr.GetRESTMapper(), scheme, klog.Background().WithName("informers"))
	sched := scheduler.New(scheduler.Config{
		Client:             kube,
		KubeConfig:         clientConfig,
		EventClient:        eventClient,
		Informers:          source,
		Registry:           registry,
		Objects:            mgr.GetClient(),
		AllowedHosts:       allowed,
		Clock:              o.Clock,
		FastPath:           scheduler.FastPath(o.FastPath),
		FastPathMemory:     int(o.FastPathMemoryLimit.Value()),
		MaxConcurrentBinds: o.MaxConcurrentBinds,
		DecisionLogSize:    o.DecisionLogSize,
		BuildTimeout:       o.ProfileBuildTimeout,
		Term:               election.leading(),
	})
	election.awaitReady(sched.Ready())
	archive, err := newArchive(mgr, election.leading(), o)
	if err != nil {
		return nil, err
	}
	var groups *groupstatus.Reconciler
	if o.PodGroupStatus {
		groups = groupstatus.New(kube, source, mgr.GetClient().Status())
	}
	broadcaster := newBroadcaster(eventClient)
	reconciler := controllers.New(controllers.Config{
		Client:     mgr.GetClient(),
		Direct:     archive.Client,
		Kubernetes: kube,
		Recorder:   controllers.LimitEvents(broadcaster.NewRecorder(scheme, "livesched"), o.Clock),
		Archive:    archive,
		Scheduler:  sched,
		Groups:     groups,
		Elected:    mgr.Elected(),
		OwnLease:   o.lease(),

		KindsCompleted:       source.Completed(),
		YieldToKubeScheduler: o.YieldToKubeScheduler,

		Registered: sets.KeySet(registry),
		Clock:      o.Clock,

		AllowedHosts: allowed,
	})
	keeper, err := addWebhook(mgr, kube, sets.KeySet(registry), allowed, &o.Webhook)
	if err != nil {
		return nil, err
	}
	checks, handlers := newChecks(sched, reconciler), endpoints(sched, o)
	if err := errors.Join(
		mgr.Add(everywhere(broadcaster.run)),
		mgr.Add(everywhere(sched.Start)),
		mgr.Add(onLeader(sched.Run)),
		reconciler.SetupWithManager(mgr),
		groups.SetupWithManager(mgr),
		addServerVersion(mgr, restConfig),
		addChecks(mgr, checks),
		addEndpoints(mgr, handlers, o),
		addSecureServing(mgr, restConfig, secureHandler(handlers, checks), sched, keeper, election, o),
	); err != nil {
		return nil, err
	}
	return &Manager{Manager: mgr, Scheduler: sched, Informers: source, stopping: stopping}, nil
}

// guarded returns a constructor of clients that change nothing after the term of this replica.
func guarded(term *lease.Term) client.NewClientFunc {
	return func(cfg *rest.Config, options client.Options) (client.Client, error) {
		cfg = rest.CopyConfig(cfg)
		cfg.Wrap(term.Guard)
		options.HTTPClient = nil // the client of the manager is not guarded
		return client.New(cfg, options)
	}
}

// newArchive returns the archive of revisions. It does not read through the manager's cache, which
// would watch the ControllerRevisions of all namespaces.
func newArchive(mgr ctrl.Manager, term *lease.Term, o *Options) (*history.Archive, error) {
	direct, err := guarded(term)(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("creating the client for revisions: %w", err)
	}
	namespace := o.revisionNamespace()
	mgr.GetLogger().Info("Storing revisions of profiles and policies as ControllerRevisions", "namespace", namespace)
	return &history.Archive{Client: direct, Namespace: namespace}, nil
}

// newClients returns the scheduler's clients, which use protobuf, and their configuration. They
// change nothing after the term of this replica.
func newClients(restConfig *rest.Config,
	term *lease.Term) (client, events clientset.Interface, cfg *rest.Config, err error) {
	cfg = rest.CopyConfig(restConfig)
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.Wrap(term.Guard)
	// Clients with one configuration share a connection, on which a server accepts at most 100
	// concurrent requests. Each request beyond that opens a new connection, which costs more than
	// the request. So bindings share their connection neither with Events, nor with the manager's
	// watches, nor with the clients of plugins.
	if client, err = newClient(cfg, "scheduler"); err != nil {
		return nil, nil, nil, fmt.Errorf("creating the client: %w", err)
	}
	if events, err = newClient(cfg, "events"); err != nil {
		return nil, nil, nil, fmt.Errorf("creating the client for Events: %w", err)
	}
	return client, events, cfg, nil
}

// newClient returns a client with its own connection: client-go shares connections between
// configurations without a dialer or with the same one.
func newClient(cfg *rest.Config, userAgent string) (clientset.Interface, error) {
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), userAgent)
	if cfg.Dial == nil {
		// client-go's default
		cfg.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return clientset.NewForConfig(cfg)
}

// checks are the health checks by name. livesched is alive while no scheduling cycle hangs, and
// ready when cache and queue are filled and the profiles that exist have been processed.
type checks struct{ live, ready map[string]healthz.Checker }

func newChecks(sched *scheduler.Scheduler, reconciler *controllers.ProfileReconciler) *checks {
	return &checks{
		live: map[string]healthz.Checker{
			"ping":            healthz.Ping,
			"scheduling-loop": func(*http.Request) error { return sched.Healthy() },
		},
		ready: map[string]healthz.Checker{
			"handlers": func(*http.Request) error {
				_, err := sched.Parts()
				return err
			},
			"profiles": func(*http.Request) error {
				if !reconciler.Settled() {
					return errors.New("the profiles have not been read")
				}
				return nil
			},
		},
	}
}

// addChecks adds the health checks to the manager.
func addChecks(mgr ctrl.Manager, checks *checks) error {
	var errs []error
	for name, check := range checks.live {
		errs = append(errs, mgr.AddHealthzCheck(name, check))
	}
	for name, check := range checks.ready {
		errs = append(errs, mgr.AddReadyzCheck(name, check))
	}
	return errors.Join(errs...)
}

// everywhere is a Runnable for every replica.
type everywhere func(context.Context) error

func (f everywhere) Start(ctx context.Context) error { return f(ctx) }
func (everywhere) NeedLeaderElection() bool          { return false }

// onLeader is a Runnable for the leader.
type onLeader func(context.Context) error

func (f onLeader) Start(ctx context.Context) error { return f(ctx) }
func (onLeader) NeedLeaderElection() bool          { return true }
