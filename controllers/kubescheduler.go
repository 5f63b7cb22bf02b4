// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// kubeSchedulerWatch watches whether a kube-scheduler runs beside livesched, by its Lease. stop
// ends the watch. Both fields are nil if there is none. Only the reconciler's worker uses it.
type kubeSchedulerWatch struct {
	watch *lease.HolderWatch
	stop  context.CancelFunc
}

// lookForKubeScheduler watches the Lease of kube-scheduler while a profile has its scheduler name.
// If livesched shares that Lease, only one of the two runs. The watch ends with ctx, too.
func (r *ProfileReconciler) lookForKubeScheduler(ctx context.Context, p *pass) {
	w := &r.kubeScheduler
	switch wanted := p.resolution.Profiles[corev1.DefaultSchedulerName] != nil && r.OwnLease != lease.KubeScheduler; {
	case wanted && w.watch == nil:
		ctx, w.stop = context.WithCancel(ctx)
		w.watch = lease.NewHolderWatch(r.Kubernetes, lease.KubeScheduler, r.requestPass)
		go w.watch.Run(ctx)
	case !wanted && w.watch != nil:
		w.stop()
		*w = kubeSchedulerWatch{}
	}
	p.kubeScheduler = lease.Sighting{Known: true}
	if w.watch != nil {
		p.kubeScheduler = w.watch.Seen()
	}
}

// reserved returns the scheduler name of kube-scheduler if the profile with this name must not run
// because a kube-scheduler does, or because that is unclear.
//
// A profile that has scheduled pods goes on: if it stopped, and that kube-scheduler has no profile
// of this name, they would stay pending. It has if this replica has scheduled with it, or if its
// status or its revisions say that another one has.
func (r *ProfileReconciler) reserved(p *pass) (reserved, unclear string) {
	const name = corev1.DefaultSchedulerName
	cfg := p.resolution.Profiles[name]
	if !r.YieldToKubeScheduler || cfg == nil || r.last.scheduled && r.last.active.profiles[name] != nil ||
		r.hasRun(p, cfg) {
		return "", ""
	}
	switch seen := p.kubeScheduler; {
	case !seen.Known:
		return "", name
	case seen.Holder != "":
		return name, ""
	default:
		return "", ""
	}
}

// hasRun reports whether an object has scheduled pods before, by its status or its revisions. A
// shadow, which has none, has no scheduler name in its status.
func (r *ProfileReconciler) hasRun(p *pass, cfg *resolve.Profile) bool {
	return slices.ContainsFunc(p.objects.profiles, func(object v1alpha1.SchedulerProfile) bool {
		return object.UID == cfg.UID && object.Status.Active != nil && object.Status.SchedulerName == cfg.SchedulerName
	}) || slices.ContainsFunc(r.last.good.Profiles[cfg.Name],
		func(good resolve.GoodProfile) bool { return good.UID == cfg.UID })
}

// kubeSchedulerWarning is the end of the message of a condition that warns.
const kubeSchedulerWarning = "unless its profiles have other scheduler names, both schedule these pods, and may " +
	"assign the same capacity twice"

// besideKubeScheduler returns the end of the message of a condition of a profile that has the
// scheduler name of a running kube-scheduler. holder is "" if none runs.
func besideKubeScheduler(schedulerName, holder string) string {
	if holder == "" || schedulerName != corev1.DefaultSchedulerName {
		return ""
	}
	return fmt.Sprintf("; warning: kube-scheduler runs as well (%s holds the Lease %s): %s", holder,
		lease.KubeScheduler, kubeSchedulerWarning)
}
