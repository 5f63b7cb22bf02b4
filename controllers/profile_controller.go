// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers brings SchedulerProfiles and SchedulingPolicies into the running scheduler
// and reports their state in status.
//
// Profiles interact: they share policies, one queue sort, and compete for scheduler names. So there
// is one reconciler with one worker, and every event reconciles the whole set, in stages:
//
//	gather   the objects, and the Secrets that they name
//	resolve  objects -> what is to run, and a result for each object; pure
//	build    what does not run yet
//	plan     what to swap in, and why not all of it; pure
//	swap     the plan takes effect
//	report   what runs, and why nothing else does; leader only
//
// A goroutine of its own, the reporter, writes reports: revisions, then conditions and Events. So
// changes never wait for writes, and status names nothing that a restart could not bring back. One
// invalid object never holds up the others.
package controllers

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/controllers/groupstatus"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Scheduler runs profiles.
type Scheduler interface {
	// Ready is closed when profiles can be built and swapped in.
	Ready() <-chan struct{}
	// Store holds the profiles that schedule pods.
	Store() *profile.Store
	// StartBuild begins to build a profile: see profile.Builder.
	StartBuild(context.Context, *resolve.Profile) *profile.Build
	// ShadowStatus returns how the decisions of a shadow compare with those of the profile that it
	// follows, by its resolve.Profile.ID. It returns nil if it was not to make any since it runs.
	ShadowStatus(id string) *v1alpha1.ShadowStatus
	// Observed returns what was observed of a revision in the present stage of its roll-out, since
	// this replica leads.
	Observed(candidate *resolve.Profile, stage rollout.Stage) *rollout.Observed
	// Placement compares by simulation where a candidate and the profile that runs under its
	// scheduler name would place that profile's pods.
	Placement(ctx context.Context, candidate *resolve.Profile, pods int) (*v1alpha1.RolloutPlacement, error)
	// Swap makes a map the current one of Store, and returns the scheduler names whose profile
	// changed.
	Swap(klog.Logger, *profile.Map) sets.Set[string]
}

// Config holds the dependencies of a ProfileReconciler. All fields but Groups are required.
type Config struct {
	// Client reads from the manager's cache and writes status.
	Client client.Client
	// Direct reads from the API server.
	Direct client.Reader
	// Kubernetes watches the Secrets that extenders need, by their names.
	Kubernetes clientset.Interface
	// Recorder records Events on the objects.
	Recorder events.EventRecorder
	// Archive keeps the specs that ran, for the time after a restart.
	Archive *history.Archive
	// Scheduler runs the profiles.
	Scheduler Scheduler
	// KindsCompleted has a value after the API server has begun to serve kinds that plugins use:
	// see informers.Source.
	KindsCompleted <-chan struct{}
	// Groups gets the scheduler names that have a profile, nil if livesched keeps no status of
	// PodGroups.
	Groups *groupstatus.Reconciler
	// Elected is closed when this replica leads, and may write status.
	Elected <-chan struct{}
	// OwnLease is the Lease of livesched's leader election, zero if there is none.
	OwnLease types.NamespacedName
	// YieldToKubeScheduler keeps a profile with the scheduler name of kube-scheduler from beginning
	// to run while a kube-scheduler runs.
	YieldToKubeScheduler bool
	// Registered are the names of all plugins.
	Registered sets.Set[string]
	// AllowedHosts are the hosts that extenders may be at.
	AllowedHosts resolve.AllowedHosts
	// Clock stamps conditions, and times builds and their retries.
	Clock clock.Clock
}

// ProfileReconciler reconciles all SchedulerProfiles and SchedulingPolicies together.
//
// Goroutines: only the reconciler's worker runs Reconcile, swaps, and uses the fields from wanted
// to memory. Start has its own goroutine, and so has each build and each watch, which request
// another pass. The reporter has its own goroutines.
type ProfileReconciler struct {
	Config

	// passes requests a pass. It has room for one request, because one pass serves all requests.
	passes chan event.GenericEvent
	// settled: see Settled.
	settled atomic.Bool

	// wanted builds the profiles that are to run. standIns builds the revisions that ran before a
	// restart, in place of profiles that cannot be built.
	wanted, standIns *profile.Supervisor
	// secrets watches the Secrets that policies name.
	secrets secretWatches
	// kubeScheduler watches whether a kube-scheduler runs. It belongs to the worker, too.
	kubeScheduler kubeSchedulerWatch
	// last holds the results of the last pass.
	last last
	// memory holds the state of reading the stored revisions.
	memory memory
	// placements simulates roll-outs.
	placements *placements
	// reporter writes what passes report.
	reporter *reporter
}

// last holds the results of one pass that the next pass needs.
type last struct {
	active     active
	resolution *resolve.Resolution
	// rollouts are the roll-outs under way. decided are the UIDs of the profiles for which this
	// replica has decided, as the leader, whether one is.
	rollouts rollouts
	decided  sets.Set[types.UID]
	// scheduled reports whether this replica led, and so has scheduled with the active profiles.
	scheduled bool
	// good holds the specs that ran, as fallbacks.
	good       resolve.LastGood
	rejections rejections
}

// New returns a reconciler, to be set up with one manager.
func New(cfg Config) *ProfileReconciler {
	r := &ProfileReconciler{Config: cfg, passes: make(chan event.GenericEvent, 1)}
	r.wanted = profile.NewSupervisor(cfg.Scheduler.StartBuild, cfg.Clock, r.requestPass)
	r.placements = newPlacements(cfg.Scheduler.Placement, r.requestPass)
	r.standIns = profile.NewSupervisor(cfg.Scheduler.StartBuild, cfg.Clock, r.requestPass)
	r.reporter = newReporter(cfg)
	r.secrets = secretWatches{client: cfg.Kubernetes, changed: r.requestPass}
	r.requestPass() // a cluster without a single profile is settled, too
	return r
}

// Settled reports whether the set was reconciled once, and no profile is still in its first build.
func (r *ProfileReconciler) Settled() bool { return r.settled.Load() }

// requestPass requests a pass. It never blocks.
func (r *ProfileReconciler) requestPass() {
	select {
	case r.passes <- event.GenericEvent{Object: &v1alpha1.SchedulerProfile{}}:
	default:
	}
}

// +kubebuilder:rbac:groups=livesched.io,resources=schedulerprofiles;schedulingpolicies,verbs=list;watch
// +kubebuilder:rbac:groups=livesched.io,resources=schedulerprofiles/status;schedulingpolicies/status,verbs=patch

// SetupWithManager registers the reconciler. It runs on every replica, so that followers are ready
// to take over; only the leader writes.
func (r *ProfileReconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := errors.Join(mgr.Add(r), mgr.Add(r.reporter)); err != nil {
		return err
	}
	everything := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{wholeSet}
	})
	changed := builder.WithPredicates(predicate.Funcs{UpdateFunc: needsPass})
	written := handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent,
		_ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		r.reporter.compare(e.ObjectNew.GetUID())
	}}
	everywhere := r.NeedLeaderElection()
	return ctrl.NewControllerManagedBy(mgr).
		Named("profiles").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, NeedLeaderElection: &everywhere}).
		Watches(&v1alpha1.SchedulerProfile{}, everything, changed).
		Watches(&v1alpha1.SchedulingPolicy{}, everything, changed).
		Watches(&v1alpha1.SchedulerProfile{}, written).
		Watches(&v1alpha1.SchedulingPolicy{}, written).
		WatchesRawSource(source.Channel(r.passes, everything)).
		Complete(r)
}

// needsPass reports whether an update of a profile or policy changes what runs, or how far a
// roll-out is.
//
// An informer that missed a deletion reports an object that was created again as an update,
// possibly with the same generation. If etcd is restored, an object counts its generations again:
// another spec may have the same one. Then, its version goes back.
func needsPass(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	return before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID() ||
		isLater(before.GetResourceVersion(), after.GetResourceVersion()) ||
		before.GetAnnotations()[v1alpha1.AnnotationRollout] != after.GetAnnotations()[v1alpha1.AnnotationRollout] ||
		isFollowed(e) || !equality.Semantic.DeepEqual(specOf(before), specOf(after))
}

// specOf returns the spec of a profile or policy.
func specOf(object client.Object) any {
	if policy, ok := object.(*v1alpha1.SchedulingPolicy); ok {
		return &policy.Spec
	}
	return &object.(*v1alpha1.SchedulerProfile).Spec
}

// wholeSet is the only request.
var wholeSet = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}

// Start requests a pass when this replica becomes the leader, because only the leader writes, and
// when the API server serves kinds that were missing. The manager calls it.
func (r *ProfileReconciler) Start(ctx context.Context) error {
	elected := r.Elected
	for {
		select {
		case <-elected:
			elected = nil // it stays closed
			r.requestPass()
		case <-r.KindsCompleted:
			r.requestPass()
		case <-ctx.Done():
			return nil
		}
	}
}

// NeedLeaderElection returns false: the reconciler runs on every replica.
func (r *ProfileReconciler) NeedLeaderElection() bool { return false }

// Reconcile brings the scheduler in line with the specs of all objects, and reports that. Builds,
// reads and watches go on after it with its context, which has no deadline and ends with the
// manager.
func (r *ProfileReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	select {
	case <-r.Scheduler.Ready():
	case <-ctx.Done():
		return reconcile.Result{}, nil
	}
	p := &pass{leading: r.leading()}
	if err := r.gather(ctx, p); err != nil {
		return reconcile.Result{}, err
	}
	r.resolve(p)
	r.rollOut(p)
	r.lookForKubeScheduler(ctx, p)
	r.build(ctx, p)
	reserved, unclear := r.reserved(p)
	p.plan = makePlan(situation{p.resolution, r.last.active, p.builds, reserved, unclear})
	if !r.swap(ctx, p) {
		return reconcile.Result{}, nil // livesched is ending
	}
	if p.leading {
		r.simulateRollouts(ctx, p)
		r.reporter.report(r.report(p))
	}
	p.recallRetry = r.memory.retryAfter()
	return reconcile.Result{RequeueAfter: p.requeueAfter(r.Clock.Now())}, nil
}

// leading reports whether this replica leads.
func (r *ProfileReconciler) leading() bool {
	select {
	case <-r.Elected:
		return true
	default:
		return false
	}
}
