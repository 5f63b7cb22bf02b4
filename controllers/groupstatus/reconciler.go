// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package groupstatus keeps the status of scheduler-plugins' PodGroups, as the controller of that
// project does: the phase, and how many pods run, have succeeded and have failed. The leader does.
//
//	PodGroups           --\
//	pods with the label --- queue, 100 ms --> Reconcile: status.next --> merge patch, if it changes
//	(watch.go)                                           (phase.go)      something
package groupstatus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

const (
	// workers write the statuses of different groups at the same time.
	workers = 2
	// settle is the time from the first change of a group or its pods until they are reconciled.
	settle = 100 * time.Millisecond
	// interval is the least time between two writes of the status of one group: the kubelets report
	// the pods of a large group over a while.
	interval = time.Second
	// maxRetry is the most time before a failed write is repeated. It begins with interval.
	maxRetry = time.Minute
	// writeTimeout is the most that a write takes.
	writeTimeout = 10 * time.Second
)

// Reconciler keeps the status of all PodGroups, but those whose pods all belong to other
// schedulers: each scheduler keeps the status of its groups. A group without pods belongs to all of
// them.
//
// SetProfiles may be called from any goroutine, and on a nil Reconciler, which keeps no status. The
// workers of the controller call Reconcile.
type Reconciler struct {
	writer client.SubResourceWriter
	watch  *watch

	mu sync.Mutex // guards the fields below
	// profiles holds the scheduler names that have a profile.
	profiles sets.Set[string]
	// earliest is when the status of a group may be written again.
	earliest map[types.NamespacedName]time.Time
}

// New returns a Reconciler, to be set up with one manager. pods lists and watches pods, groups
// provides the informer of PodGroups, and writer writes the status of PodGroups.
func New(pods clientset.Interface, groups *informers.Source, writer client.SubResourceWriter) *Reconciler {
	return &Reconciler{writer: writer, watch: newWatch(pods, groups), earliest: map[types.NamespacedName]time.Time{}}
}

// SetupWithManager registers the controller, which runs on the leader.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r == nil {
		return nil
	}
	return ctrl.NewControllerManagedBy(mgr).Named("podgroups").WithOptions(options()).WatchesRawSource(r.watch).
		Complete(r)
}

func options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](interval,
			maxRetry),
	}
}

// SetProfiles sets the scheduler names that have a profile. It never waits.
func (r *Reconciler) SetProfiles(names sets.Set[string]) {
	if r == nil {
		return
	}
	r.mu.Lock()
	added := !r.profiles.IsSuperset(names)
	r.profiles = names
	r.mu.Unlock()
	if added {
		r.watch.requestAll()
	}
}

// Reconcile writes the status of one group, if it has to change.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if ctx.Err() != nil { // the watch may not have begun
		return reconcile.Result{}, nil
	}
	g, next, err := r.read(request.NamespacedName)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case g == nil:
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	case next == g.Status:
		return reconcile.Result{}, nil
	}
	if wait := r.wait(request.NamespacedName); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	err = r.write(ctx, g, next)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil // the informer is late; its next event about the group is reconciled
	}
	return reconcile.Result{}, err
}

// read returns a group and the status that it should have, nil if it is gone.
func (r *Reconciler) read(key types.NamespacedName) (*group, status, error) {
	object, exists, err := r.watch.groups.GetByKey(key.String())
	if err != nil || !exists {
		return nil, status{}, err
	}
	found, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, status{}, fmt.Errorf("the informer has a %T", object)
	}
	g := &group{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, g); err != nil {
		return nil, status{}, err
	}
	pods, err := r.watch.membersOf(key.String())
	if err != nil {
		return nil, status{}, err
	}
	if len(pods) > 0 && !r.schedulesOneOf(pods) {
		return g, g.Status, nil
	}
	return g, g.Status.next(g.Spec.MinMember, pods), nil
}

// schedulesOneOf reports whether livesched schedules one of the pods.
func (r *Reconciler) schedulesOneOf(pods []*member) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(pods, func(m *member) bool { return r.profiles.Has(m.schedulerName) })
}

// wait returns how long to wait before the status of a group may be written. If that is 0, the
// caller writes it now.
func (r *Reconciler) wait(key types.NamespacedName) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if wait := r.earliest[key].Sub(now); wait > 0 {
		return wait
	}
	r.earliest[key] = now.Add(interval)
	return 0
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.earliest, key)
}

// write writes a status. The resource version keeps the status of a group from its successor of the
// same name: the API server ignores the UID in a patch of the status of custom resources.
func (r *Reconciler) write(ctx context.Context, g *group, next status) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": g.ResourceVersion},
		"status": next})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(podgroup.Kind)
	object.SetNamespace(g.Namespace)
	object.SetName(g.Name)
	return r.writer.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
}
