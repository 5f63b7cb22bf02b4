// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/config"
)

// kubeSchedulerWatch tells whether a kube-scheduler runs beside livesched, by its Lease. It watches
// the Lease only while asked to. Only the reconciler's worker uses it.
type kubeSchedulerWatch struct {
	client clientset.Interface
	// own is livesched's own Lease. If livesched shares that of kube-scheduler, only one of the two
	// runs.
	own types.NamespacedName
	// lifetime ends the watch. changed is called, from any goroutine, when a sighting has changed.
	lifetime context.Context
	changed  func()
	// watch is the present watch, nil if there is none.
	watch *leaseWatch
}

// look returns what is known about a kube-scheduler. It watches until it is called with false.
func (w *kubeSchedulerWatch) look(watch bool) sighting {
	if !watch || w.own == lease.KubeScheduler {
		if w.watch != nil {
			w.watch.stop()
			w.watch = nil
		}
		return sighting{known: true}
	}
	if w.watch == nil {
		w.watch = startLeaseWatch(w.lifetime, w.client, w.changed)
	}
	return w.watch.seen()
}

// servesDefault reports whether a profile that is to run has the scheduler name of kube-scheduler.
func servesDefault(resolution *config.Resolution) bool {
	return resolution.Profiles[corev1.DefaultSchedulerName] != nil
}

// reserved returns the scheduler name of kube-scheduler if the profile with this name must not run
// because a kube-scheduler does, or because that is unclear.
//
// A profile that has scheduled pods goes on: if it stopped, and that kube-scheduler has no profile
// of this name, nobody would schedule them. It has if this replica has scheduled with it, or if its
// status or its revisions say that another one has.
func (r *ProfileReconciler) reserved(p *pass) (reserved, unclear string) {
	const name = corev1.DefaultSchedulerName
	cfg := p.resolution.Profiles[name]
	if !r.YieldToKubeScheduler || cfg == nil || r.last.scheduled && r.last.active.profiles[name] != nil || r.hasRun(p, cfg) {
		return "", ""
	}
	switch seen := p.kubeScheduler; {
	case !seen.known:
		return "", name
	case seen.holder != "":
		return name, ""
	default:
		return "", ""
	}
}

// hasRun reports whether an object has been active before, by its status or its revisions.
func (r *ProfileReconciler) hasRun(p *pass, cfg *config.Profile) bool {
	return slices.ContainsFunc(p.objects.profiles, func(object v1alpha1.SchedulerProfile) bool {
		return object.UID == cfg.UID && object.Status.Active != nil
	}) || slices.ContainsFunc(r.last.good.Profiles[cfg.Name], func(good config.GoodProfile) bool { return good.UID == cfg.UID })
}

// kubeSchedulerWarning is the end of the message of a condition that warns.
const kubeSchedulerWarning = "unless its profiles have other scheduler names, both schedule these pods, and may assign the same capacity twice"

// besideKubeScheduler is what the condition of a profile says that has the scheduler name of a
// kube-scheduler that runs. holder is "" if none does.
func besideKubeScheduler(schedulerName, holder string) string {
	if holder == "" || schedulerName != corev1.DefaultSchedulerName {
		return ""
	}
	return fmt.Sprintf("; warning: kube-scheduler runs as well (%s holds the Lease %s): %s", holder, lease.KubeScheduler, kubeSchedulerWarning)
}
