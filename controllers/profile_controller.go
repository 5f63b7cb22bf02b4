// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers brings SchedulerProfiles and SchedulingPolicies into the running scheduler,
// and back tells what became of them.
//
// Profiles interact: they share policies, one queue sort, and compete for scheduler names. So there
// is one reconciler with one worker, and every event reconciles the whole set:
//
//	gather objects and the Secrets that they name -> resolve (pure) -> build what changed -> swap -> remember what is good -> report
//
// One bad object never holds up the others. What runs is stored as revisions after the swap, and
// status is written after that, both by the leader: status names nothing that a restart could not
// bring back.
package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// staleRetry is how long to wait for the cache to catch up with a status that was written
// meanwhile.
const staleRetry = 50 * time.Millisecond

// ProfileReconciler reconciles all SchedulerProfiles and SchedulingPolicies together. Its worker is
// the only goroutine that swaps, and that touches the unexported fields other than settled. It has
// builds run on goroutines of their own, one after the other, and waits for each but those that
// hang; see builds.
type ProfileReconciler struct {
	// Client reads from the manager's cache and writes status.
	Client client.Client
	// Kubernetes watches the Secrets that extenders need, by their names.
	Kubernetes clientset.Interface
	// Recorder records what becomes of an object as Events on it.
	Recorder events.EventRecorder
	// Archive keeps the specs that ran, to go on with after a restart.
	Archive *history.Archive
	// Store is where profiles are swapped in.
	Store *profile.Store
	// Build makes a generation of a profile. It is called on any goroutine, and only beside calls
	// that hang.
	Build func(context.Context, *config.Profile) (*profile.Instance, error)
	// Ready is closed when the scheduler can build.
	Ready <-chan struct{}
	// Elected is closed when this replica leads, and may write status.
	Elected <-chan struct{}
	// Registered are the names of all plugins.
	Registered sets.Set[string]
	// Clock stamps conditions, and says when a failed build is due again.
	Clock clock.PassiveClock

	// lastGood are the specs that ran last, to fall back on.
	lastGood config.LastGood
	// memory is what is known of those that are stored.
	memory memory
	// deciding is what the current map of Store stands for, by scheduler name. A change that was
	// carried over makes it newer than the configuration that the instance was built from.
	deciding map[string]*config.Profile
	// sortedBy is the scheduler name of the profile that orders the queue.
	sortedBy string
	// attempts are the builds of what is to run, standIns those of what ran before a restart, where
	// that cannot be built.
	attempts, standIns attempts
	// secrets are those that policies name.
	secrets secretWatches
	// rejections are what was not accepted when the set was last resolved.
	rejections rejections
	// settled says that the set was reconciled once, and no profile is still in its first build.
	settled atomic.Bool
}

// Settled says whether the profiles that existed at the start have been swapped in.
func (r *ProfileReconciler) Settled() bool { return r.settled.Load() }

// +kubebuilder:rbac:groups=livesched.io,resources=schedulerprofiles;schedulingpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=livesched.io,resources=schedulerprofiles/status;schedulingpolicies/status,verbs=get;patch;update

// SetupWithManager registers the reconciler. It runs on every replica, so that followers are ready
// to take over; only the leader writes status.
func (r *ProfileReconciler) SetupWithManager(mgr ctrl.Manager) error {
	everything := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{wholeSet}
	})
	specChanged := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		// An informer that missed a deletion shows an object that was created again as an update,
		// of one generation.
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	}})
	elected := make(chan event.GenericEvent, 1)
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		// What followers must not write is due once this replica leads. A manager starts what the
		// leader runs a moment before it says so.
		select {
		case <-r.Elected:
			elected <- event.GenericEvent{Object: &v1alpha1.SchedulerProfile{}}
		case <-ctx.Done():
		}
		return nil
	})); err != nil {
		return err
	}
	everywhere := false
	return ctrl.NewControllerManagedBy(mgr).
		Named("profiles").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, NeedLeaderElection: &everywhere}).
		Watches(&v1alpha1.SchedulerProfile{}, everything, specChanged).
		Watches(&v1alpha1.SchedulingPolicy{}, everything, specChanged).
		WatchesRawSource(source.Channel(elected, everything)).
		WatchesRawSource(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.secrets = secretWatches{client: r.Kubernetes, lifetime: ctx, changed: func() { queue.Add(wholeSet) }}
			r.attempts = newAttempts(ctx, func() { queue.Add(wholeSet) })
			r.standIns = newAttempts(ctx, func() { queue.Add(wholeSet) })
			// A cluster without a single profile is settled, too.
			queue.Add(wholeSet)
			return nil
		})).
		Complete(r)
}

// wholeSet is the one request that there is.
var wholeSet = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}

// Reconcile brings the scheduler and the status of all objects in line with their specs.
func (r *ProfileReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	select {
	case <-r.Ready:
	case <-ctx.Done():
		return reconcile.Result{}, nil
	}
	leading := r.leading()
	objects, err := r.gather(ctx, leading)
	if err != nil {
		return reconcile.Result{}, err
	}
	resolution := config.Resolve(config.Input{
		Profiles:   objects.profiles,
		Policies:   objects.policies,
		Secrets:    objects.secrets,
		LastGood:   r.lastGood,
		Registered: r.Registered,
	})
	r.rejections.note(objects, resolution)
	programmed := r.program(ctx, resolution)
	if programmed == nil {
		return reconcile.Result{}, nil // livesched is ending
	}
	r.lastGood = resolution.LastGood(slices.Collect(maps.Values(r.deciding)))
	if r.triedAll(programmed) {
		r.settled.Store(true)
	}
	due := sooner(r.attempts.failing.due(r.Clock.Now()), r.standIns.failing.due(r.Clock.Now()))
	if !leading {
		return reconcile.Result{RequeueAfter: sooner(due, r.memory.retryHistory(nil))}, nil
	}
	remembered := r.remember(ctx, objects, resolution, programmed)
	retry := r.memory.retryHistory(remembered.failed)
	stale, err := r.report(ctx, objects, resolution, programmed, remembered)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case stale:
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	default:
		return reconcile.Result{RequeueAfter: sooner(due, retry)}, nil
	}
}

// leading says whether this replica leads.
func (r *ProfileReconciler) leading() bool {
	select {
	case <-r.Elected:
		return true
	default:
		return false
	}
}

// sooner is the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// objects is the whole set, as the cache has it. Read-only.
type objects struct {
	profiles []v1alpha1.SchedulerProfile
	policies []v1alpha1.SchedulingPolicy
	// secrets are those that the policies name, as far as they exist.
	secrets map[types.NamespacedName]config.Secret
}

// gather reads all that is resolved. What goes on where present specs are invalid is recalled
// between objects and Secrets, since it may name others.
func (r *ProfileReconciler) gather(ctx context.Context, leading bool) (*objects, error) {
	var profiles v1alpha1.SchedulerProfileList
	if err := r.Client.List(ctx, &profiles); err != nil {
		return nil, fmt.Errorf("listing SchedulerProfiles: %w", err)
	}
	var policies v1alpha1.SchedulingPolicyList
	if err := r.Client.List(ctx, &policies); err != nil {
		return nil, fmt.Errorf("listing SchedulingPolicies: %w", err)
	}
	all := &objects{profiles: profiles.Items, policies: policies.Items}
	if err := r.recall(ctx, all, leading); err != nil {
		return nil, err
	}
	all.secrets = r.secrets.read(ctx, config.SecretRefs(all.policies, r.lastGood))
	return all, nil
}
