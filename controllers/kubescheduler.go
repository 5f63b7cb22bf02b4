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
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// kubeSchedulerWatch watches whether a kube-scheduler runs beside livesched, by its Lease. Only the
// reconciler's worker uses it.
type kubeSchedulerWatch struct {
	client clientset.Interface
	// own is livesched's own Lease. If livesched shares that of kube-scheduler, only one of the two
	// runs.
	own types.NamespacedName
	// changed requests a pass. The watch calls it from its own goroutine when the sighting has
	// changed.
	changed func()
	// watch is the present watch, and stop ends it. Both are nil if there is none.
	watch *lease.HolderWatch
	stop  context.CancelFunc
}

// look begins to watch, unless it does already, and returns what is known. The watch ends with ctx
// or with unwatch.
func (w *kubeSchedulerWatch) look(ctx context.Context) lease.Sighting {
	if w.own == lease.KubeScheduler {
		return lease.Sighting{Known: true}
	}
	if w.watch == nil {
		ctx, w.stop = context.WithCancel(ctx)
		w.watch = lease.NewHolderWatch(w.client, lease.KubeScheduler, w.changed)
		go w.watch.Run(ctx)
	}
	return w.watch.Seen()
}

// unwatch ends the watch.
func (w *kubeSchedulerWatch) unwatch() {
	if w.watch != nil {
		w.stop()
		w.watch, w.stop = nil, nil
	}
}

// lookForKubeScheduler watches the Lease of kube-scheduler while a profile has its scheduler name.
func (r *ProfileReconciler) lookForKubeScheduler(ctx context.Context, p *pass) {
	if p.resolution.Profiles[corev1.DefaultSchedulerName] == nil {
		r.kubeScheduler.unwatch()
		p.kubeScheduler = lease.Sighting{Known: true}
		return
	}
	p.kubeScheduler = r.kubeScheduler.look(ctx)
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
	if !r.YieldToKubeScheduler || cfg == nil || r.last.scheduled && r.last.active.profiles[name] != nil || r.hasRun(p, cfg) {
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

// hasRun reports whether an object has been active before, by its status or its revisions.
func (r *ProfileReconciler) hasRun(p *pass, cfg *resolve.Profile) bool {
	return slices.ContainsFunc(p.objects.profiles, func(object v1alpha1.SchedulerProfile) bool {
		return object.UID == cfg.UID && object.Status.Active != nil
	}) || slices.ContainsFunc(r.last.good.Profiles[cfg.Name], func(good resolve.GoodProfile) bool { return good.UID == cfg.UID })
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
