// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/namedwatch"
	"github.com/livesched/livesched/internal/scheduler/config"
)

// kubeSchedulerLease is the Lease that a kube-scheduler holds while it runs.
var kubeSchedulerLease = types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "kube-scheduler"}

// defaultLeaseDuration is the duration of a Lease that names none.
const defaultLeaseDuration = 15 * time.Second

// kubeSchedulerWatch watches whether a kube-scheduler runs beside livesched, by its Lease. It
// watches only while asked to.
//
// The reconciler's worker calls holder. The informer and the timer call observe and expire from
// their own goroutines.
type kubeSchedulerWatch struct {
	client clientset.Interface
	// own is livesched's own Lease. If livesched shares that of kube-scheduler, only one of the two
	// runs.
	own types.NamespacedName
	// lifetime ends the watch. changed is called when the holder has changed.
	lifetime context.Context
	changed  func()

	stop context.CancelFunc // nil while it does not watch; belongs to the worker

	mu      sync.Mutex // guards the rest
	current string     // the identity of a kube-scheduler that runs
	expiry  *time.Timer
	seen    int // the number of observations
}

// holder returns the identity of the kube-scheduler that runs, "" if none is known to. It watches
// until it is called with false.
func (w *kubeSchedulerWatch) holder(watch bool) string {
	watch = watch && w.own != kubeSchedulerLease
	switch {
	case watch && w.stop == nil:
		w.start()
	case !watch && w.stop != nil:
		w.stop()
		w.stop = nil
	}
	if !watch {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

func (w *kubeSchedulerWatch) start() {
	ctx, stop := context.WithCancel(w.lifetime)
	w.stop = stop
	logger := klog.FromContext(ctx)
	leases := w.client.CoordinationV1().Leases(kubeSchedulerLease.Namespace)
	var informer toolscache.SharedIndexInformer
	first := true // belongs to the informer's goroutine
	informer, err := namedwatch.NewInformer(w.client, leases, kubeSchedulerLease.Name, &coordinationv1.Lease{}, func() {
		w.observe(informer.GetStore(), first)
		first = false
	})
	mayNotRead := sync.OnceFunc(func() {
		logger.Info("May not watch the Lease of kube-scheduler, so its profiles cannot warn about it", "lease", kubeSchedulerLease.String())
	})
	err = errors.Join(err, informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *toolscache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			mayNotRead()
			return
		}
		toolscache.DefaultWatchErrorHandler(ctx, r, err)
	}))
	if err != nil { // only an informer that runs refuses these
		logger.Error(err, "Not watching the Lease of kube-scheduler")
		return
	}
	go func() {
		informer.RunWithContext(ctx)
		w.set("", 0)
	}()
}

// observe reads the Lease from the informer's store. first is true when the informer begins, and
// false when the Lease has changed since.
func (w *kubeSchedulerWatch) observe(store toolscache.Store, first bool) {
	object, exists, err := store.GetByKey(kubeSchedulerLease.String())
	lease, ok := object.(*coordinationv1.Lease)
	if err != nil || !exists || !ok {
		w.set("", 0)
		return
	}
	duration := defaultLeaseDuration
	if seconds := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0); seconds > 0 {
		duration = time.Duration(seconds) * time.Second
	}
	if first && (lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) > duration) {
		// Its holder has most likely ended. If only its clock is wrong, it renews the Lease soon.
		w.set("", 0)
		return
	}
	w.set(ptr.Deref(lease.Spec.HolderIdentity, ""), duration)
}

// set records who holds the Lease, for the duration unless it is renewed.
func (w *kubeSchedulerWatch) set(holder string, duration time.Duration) {
	w.mu.Lock()
	w.seen++
	seen := w.seen
	if w.expiry != nil {
		w.expiry.Stop()
		w.expiry = nil
	}
	if holder != "" {
		w.expiry = time.AfterFunc(duration, func() { w.expire(seen) })
	}
	changed := holder != w.current
	w.current = holder
	w.mu.Unlock()
	if changed {
		w.changed()
	}
}

// expire forgets the holder, unless there was an observation since.
func (w *kubeSchedulerWatch) expire(seen int) {
	w.mu.Lock()
	renewed := w.seen != seen
	w.mu.Unlock()
	if !renewed {
		w.set("", 0)
	}
}

// servesDefault reports whether a profile that is to run has the scheduler name of kube-scheduler.
func servesDefault(resolution *config.Resolution) bool {
	return resolution.Profiles[corev1.DefaultSchedulerName] != nil
}

// kubeSchedulerWarning is the end of the message of a condition that warns.
const kubeSchedulerWarning = "unless its profiles have other scheduler names, both schedule these pods, and may assign the same capacity twice"

// besideKubeScheduler is what the condition of a profile says that has the scheduler name of a
// kube-scheduler that runs. holder is "" if none does.
func besideKubeScheduler(schedulerName, holder string) string {
	if holder == "" || schedulerName != corev1.DefaultSchedulerName {
		return ""
	}
	return fmt.Sprintf("; warning: kube-scheduler runs as well (%s holds the Lease %s): %s", holder, kubeSchedulerLease, kubeSchedulerWarning)
}
